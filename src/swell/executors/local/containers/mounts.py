"""What a container sees of this machine's files, at the paths that they have here."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

import swell
from swell.executors.local.containers.engine import ContainerEngine
from swell.model.code import decode_tree, job_tree_path
from swell.model.job import JobSpec
from swell.wire.lease_end import LEASE_FILE

#: Of our own, inside: the sockets of the agent, and the platform's packages.
ROOM = "/run/swell/agent"
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
    hidden = [Mount("", path) for path in sorted(own) if any(_is_within(path, root) for root in roots)]
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
        if not any(_is_within(path, other) for other in kept):
            kept.append(path)
    return kept


def _is_within(path: str, root: str) -> bool:
    return f"{path}/".startswith(f"{root.rstrip('/')}/")


# ------------------------------------------------------------ the platform's packages
def package_mounts() -> list[Mount]:
    """Folders with Swell and with what is installed for the platform's interpreter.

    Those of its own environment, and beside them those that it finds by a `.pth` file or in an outer
    environment, as far as they hold something that Swell or torch needs.
    """
    own = [
        str(Path(swell.__file__).parents[1]),
        *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
    ]
    sources = dict.fromkeys([*own, *needed_folders(("torch", "swell"))])
    folders = [source for source in sources if os.path.isdir(source)]
    return [Mount(source, f"{PACKAGES}/{number}") for number, source in enumerate(folders)]


@cache
def needed_folders(names: tuple[str, ...]) -> tuple[str, ...]:
    """Where this interpreter finds these packages, and all that they need, in the order of its path.

    What is not installed is left out: a container says what it lacks.
    """
    folders = {folder for name in names if (folder := _folder_of_module(name))}
    seen, open_names = set[str](), list(names)
    while open_names:
        name = re.sub(r"[-_.]+", "-", open_names.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        folders.add(str(found.locate_file("")))
        needed = [line for line in found.requires or () if not re.search(r"\bextra\s*==", line)]
        open_names += [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed]
    return tuple(folder for folder in dict.fromkeys(sys.path) if folder in folders)


def _folder_of_module(name: str) -> str:
    """Return the folder in which a package is found, without importing it; empty if there is none."""
    found = importlib.util.find_spec(name)
    return "" if found is None or found.origin is None else str(Path(found.origin).parents[1])


def inside(path: str, mounts: Iterable[Mount]) -> str:
    """What a file of a mounted folder is called inside."""
    for mount in mounts:
        if mount.source and _is_within(path, mount.source):
            return mount.target + path.removeprefix(mount.source)
    raise ValueError(f"{path} is in none of the mounted folders")


def interpreter_abi() -> str:
    """What packages with machine code are made for, of this interpreter; they fit where it is the same."""
    return str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)
