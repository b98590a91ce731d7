"""Which files are a library's, and not the user's script: by what was installed, wherever that was."""

from __future__ import annotations

import glob
import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

#: They form a process group of what torchrun's environment says, some only if it names several workers. They
#: are known by their names, also where they are not installed but checked out.
LAUNCHER_AWARE = frozenset(
    {
        "accelerate",
        "composer",
        "deepspeed",
        "lightning",
        "lightning_fabric",
        "pytorch_lightning",
        "transformers",
    }
)
_BY_NAME = LAUNCHER_AWARE | {"torch"}
#: What is below a script's own calls in a worker; the demo's scripts are scripts as any.
_OURS = tuple(str(Path(__file__).parents[1] / name) for name in ("train", "executors"))
_STANDARD = os.path.dirname(os.__file__)


def is_standard(path: str) -> bool:
    """Whether a file is of the standard library."""
    is_installed = "site-packages" in path or "dist-packages" in path
    return path.startswith((_STANDARD + os.sep, "<frozen")) and not is_installed


@lru_cache(maxsize=4096)
def is_library(path: str) -> bool:
    """Whether a file is of the standard library, of what Swell runs in a worker, or of an installed one.

    Packages are installed in `site-packages`, or in any folder of `sys.path` (`pip install --target`).
    """
    if path.startswith((*_OURS, _STANDARD, "<")) or "site-packages" in path or "dist-packages" in path:
        return True
    roots = (os.path.join(os.path.abspath(one), "") for one in sys.path)
    root = max((one for one in roots if path.startswith(one)), key=len, default="")
    name = path[len(root) :].partition(os.sep)[0]
    return bool(root) and (name in _BY_NAME or name in _installed(root))


@lru_cache(maxsize=256)
def _installed(folder: str) -> frozenset[str]:
    """Files and folders that an installer has put there, by the record that it keeps of each package."""
    names: set[str] = set()
    for record in glob.glob(os.path.join(glob.escape(folder), "*.dist-info", "RECORD")):
        with (
            suppress(OSError),
            open(record, encoding="utf-8", errors="replace") as lines,
        ):  # else it is unknown
            names.update(line.partition(",")[0].partition("/")[0] for line in lines)
    return frozenset(names)
