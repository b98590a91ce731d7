"""Which environment variables of a job may decide how fast it is; by others no new trial run is needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from swell.executors.code_tree import read_tree
from swell.model.code import object_path
from swell.model.job import JobSpec

#: Files of a snapshot in which a name of a variable is looked for.
SOURCES = (".py", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".json")
#: Variables of libraries begin so; the job's own code need not name them.
OF_LIBRARIES = (
    "AMP",
    "ATEN",
    "CUBLAS",
    "CUDA",
    "CUDNN",
    "GLOO",
    "KMP",
    "LD_",
    "MALLOC",
    "MKL",
    "NCCL",
    "NVIDIA",
    "OMP",
    "OPENBLAS",
    "PYTHON",
    "PYTORCH",
    "TORCH",
    "TRITON",
    "XLA",
)

_WORD = re.compile(rb"[a-z0-9_]+")


def speed_variables(spec: JobSpec, state_dir: Path) -> tuple[tuple[str, str], ...]:
    """The variables that the job's code names, or a library knows; all where the code is no snapshot.

    A name counts in any case, and without what stands before its first `_`: some libraries read the fields
    of settings so.
    """
    if not spec.env or not spec.code or (tree := read_tree(state_dir, spec.code)) is None:
        return spec.env
    digests = {file.digest for path, file in tree.files.items() if path.endswith(SOURCES)}
    words = set[bytes]()
    for digest in digests:
        try:
            words.update(_WORD.findall(object_path(state_dir, digest).read_bytes().lower()))
        except OSError:  # it cannot be known
            return spec.env
    return tuple(
        (name, value)
        for name, value in spec.env
        if name.startswith(OF_LIBRARIES) or words.intersection(_spellings(name))
    )


def _spellings(name: str) -> Iterable[bytes]:
    own = name.lower().encode()
    return {own, own.partition(b"_")[2]} - {b""}
