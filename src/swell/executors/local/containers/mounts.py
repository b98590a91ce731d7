"""What a container sees of this machine's files, at the paths that they have here."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

import swell
from swell.executors.local.containers.engine import ContainerEngine
from swell.model.code import decode_tree, is_within, job_tree_path
from swell.model.job import JobSpec
from swell.wire.lease_end import LEASE_FILE

#: Of our own, inside: the platform's packages.
PACKAGES = "/run/swell/packages"
#: Of the job, below its folder: the one for what it wants to keep.
OUTPUT_FOLDER = "output"
#: The container has its own of these.
UNMOUNTABLE = frozenset({"/", "/tmp", "/run", "/dev", "/proc", "/sys", "/etc", "/usr", "/bin", "/lib"})  # noqa: S108
#: In a job's folder, and not for the job to change.
SEALED = ("code", "code.json")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine; an empty `source` is an empty folder in memory."""

    source: str
    target: str
    is_writable: bool = False

    def words(self, engine: ContainerEngine) -> tuple[str, str]:
        """Options of the engine's `run`."""
        if not self.source:
            return "--tmpfs", f"{self.target}:{engine.empty_options}"
        fields = ["type=bind", f"source={self.source}", f"destination={self.target}"]
        return "--mount", ",".join(map(_quoted, fields if self.is_writable else [*fields, "readonly"]))


def _quoted(field: str) -> str:
    """The engines read a line of CSV."""
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field


def job_mounts(state_dir: Path, folder: Path, spec: JobSpec) -> list[Mount]:
    """The job's folder to write in; its working directory, its code, and the lease of this machine to read.

    A state folder or a storage below one of these is hidden: they have the files of other jobs, and the
    platform's token.

    Raises:
        ValueError: a container cannot have one of these folders.
    """
    roots = _outermost(_roots(folder, spec))
    for root in roots:
        if root in UNMOUNTABLE:
            raise ValueError(
                f"its code or its working directory is {root}, which a container has of its own; "
                "use a folder of the job's"
            )
    own = {str(path.resolve()) for path in (state_dir, folder.parent.parent)}
    hidden = [Mount("", path) for path in sorted(own) if any(is_within(path, root) for root in roots)]
    to_read = (*(folder / name for name in SEALED), state_dir / LEASE_FILE)
    return [
        *(Mount(root, root) for root in roots),
        *hidden,
        Mount(str(folder), str(folder), is_writable=True),
        *(Mount(str(path), str(path)) for path in to_read if path.exists()),
    ]


def _roots(folder: Path, spec: JobSpec) -> set[str]:
    """Return the folders of a job's code, each as the job names it and with its links resolved."""
    paths = [spec.workdir]
    if os.path.isabs(spec.entry):
        paths.append(os.path.dirname(spec.entry))
    try:
        paths += decode_tree(job_tree_path(folder).read_bytes()).roots if spec.code else ()
    except (OSError, msgspec.DecodeError):
        pass  # its workers say what is wrong with its code
    return {form for path in paths for form in (os.path.normpath(path), os.path.realpath(path))}


def _outermost(paths: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(paths):
        if not any(is_within(path, other) for other in kept):
            kept.append(path)
    return kept


# ------------------------------------------------------------ the platform's packages
def package_mounts() -> list[Mount]:
    """Folders from which this interpreter imports Swell and what is installed, but the standard library's."""
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    own = str(Path(swell.__file__).parents[1])
    folders = dict.fromkeys(os.path.abspath(path) for path in (own, *sys.path) if os.path.isdir(path))
    found = [path for path in folders if path not in standard and not path.endswith("lib-dynload")]
    return [Mount(source, f"{PACKAGES}/{number}") for number, source in enumerate(found)]


def inside(path: str, mounts: Iterable[Mount]) -> str:
    """What a file of a mounted folder is called inside."""
    for mount in mounts:
        if mount.source and is_within(path, mount.source):
            return mount.target + path.removeprefix(mount.source)
    raise ValueError(f"{path} is in none of the mounted folders")


def interpreter_abi() -> str:
    """What packages with machine code are made for, of this interpreter; they fit where it is the same."""
    return str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)
