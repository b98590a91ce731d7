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
from swell.executors.local.containers.engine import Engine
from swell.model.code import decode_tree, job_tree_path
from swell.model.job import JobSpec

#: Of our own, inside: the sockets of the agent, and the platform's packages.
ROOM = "/run/swell/agent"
PACKAGES = "/run/swell/packages"
#: Of the job, below its folder: the one for what it wants to keep.
OUTPUT_FOLDER = "output"
#: The container has its own of these.
UNMOUNTABLE = frozenset({"/", "/tmp", "/run", "/dev", "/proc", "/sys", "/etc", "/usr", "/bin", "/lib"})  # noqa: S108
#: In a job's folder, and not for the job to change.
SEALED = ("code", "code.json", "job.json")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine; an empty `source` is an empty folder in memory."""

    source: str
    target: str
    is_writable: bool = False

    def words(self, engine: Engine) -> tuple[str, str]:
        """Options of the engine's `run`."""
        if not self.source:
            return "--tmpfs", f"{self.target}:{engine.empty_options}"
        fields = ["type=bind", f"source={self.source}", f"destination={self.target}"]
        return "--mount", ",".join(map(_quoted, fields if self.is_writable else [*fields, "readonly"]))


def _quoted(field: str) -> str:
    """The engines read a line of CSV."""
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field


def job_mounts(state_dir: Path, folder: Path, spec: JobSpec) -> list[Mount]:
    """The job's folder to write in; its working directory and its code to read.

    A state folder below one of these is hidden: it has the files of other jobs, and the platform's token.

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
    state = str(state_dir.resolve())
    hidden = [Mount("", state)] if any(_is_within(state, root) for root in roots) else []
    sealed = [folder / name for name in SEALED if (folder / name).exists()]
    return [
        *(Mount(root, root) for root in roots),
        *hidden,
        Mount(str(folder), str(folder), is_writable=True),
        *(Mount(str(path), str(path)) for path in sealed),
    ]


def _roots(folder: Path, spec: JobSpec) -> set[str]:
    """By the names that the job has for them, and by those without links."""
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
        if not any(_is_within(path, other) for other in kept):
            kept.append(path)
    return kept


def _is_within(path: str, root: str) -> bool:
    return f"{path}/".startswith(f"{root.rstrip('/')}/")


# ------------------------------------------------------------ the platform's packages
def package_mounts() -> list[Mount]:
    """Folders with Swell and with what is installed for the platform's interpreter."""
    sources = [
        str(Path(swell.__file__).parents[1]),
        *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
    ]
    folders = [source for source in dict.fromkeys(sources) if os.path.isdir(source)]
    return [Mount(source, f"{PACKAGES}/{number}") for number, source in enumerate(folders)]


def inside(path: str, mounts: Iterable[Mount]) -> str:
    """What a file of a mounted folder is called inside."""
    for mount in mounts:
        if mount.source and _is_within(path, mount.source):
            return mount.target + path.removeprefix(mount.source)
    raise ValueError(f"{path} is in none of the mounted folders")


def interpreter_abi() -> str:
    """What packages with machine code are made for, of this interpreter; they fit where it is the same."""
    return str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)
