"""Control groups: where those of a process are, and what is done to their files and folders.

The kernel lists mounts and the groups of a process. All lies below a root: a test has a folder in place of
the machine's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: How the hierarchy of version 2 is called among those of version 1, which are called by controllers.
UNIFIED = ""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A process's group in one hierarchy."""

    folder: Path
    top: Path  #: the topmost group that can be seen here: the machine's, or a container's

    @property
    def is_top(self) -> bool:
        return self.folder == self.top

    @property
    def folders(self) -> list[Path]:
        """Its own and those of the groups around it."""
        return [one for one in (self.folder, *self.folder.parents) if one.is_relative_to(self.top)]


def group_places(files: GroupFiles, pid: int | None = None) -> dict[str, GroupPlace]:
    """Return the groups of a process by controller, or `UNIFIED`; only hierarchies that are mounted.

    `pid`: the process; None: this one. Empty if the process is gone.
    """
    try:
        mounts = files.read(files.at("/proc/self/mountinfo")).splitlines()
        groups = files.read(files.at(f"/proc/{pid or 'self'}/cgroup")).splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    own = {
        name: path for _, names, path in (line.split(":", 2) for line in groups) for name in names.split(",")
    }
    places: dict[str, GroupPlace] = {}
    for line in mounts:
        for name, root, point in _hierarchies(line):
            if name in own and name not in places:
                places[name] = _place(files, own[name], root, point)
    return places


def _hierarchies(line: str) -> list[tuple[str, str, str]]:
    """(controller, the group that is mounted, where) for each one of a line of mountinfo; see proc(5)."""
    first, _, last = line.partition(" - ")
    fields, about = first.split(), last.split()
    if about[:1] == ["cgroup2"]:
        return [(UNIFIED, fields[3], fields[4])]
    if about[:1] == ["cgroup"]:
        return [(name, fields[3], fields[4]) for name in about[2].split(",")]
    return []


def _place(files: GroupFiles, group: str, root: str, point: str) -> GroupPlace:
    """A group that does not lie in what is mounted cannot be seen: the topmost one that can stands for it."""
    try:
        inside = PurePosixPath(group).relative_to(root)
    except ValueError:
        inside = PurePosixPath()
    if ".." in inside.parts:
        inside = PurePosixPath()
    return GroupPlace(files.at(point) / inside, top=files.at(point))


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """`root` stands for `/` in every path that is asked for, and in those that /proc names."""

    root: Path = Path("/")

    def at(self, path: str) -> Path:
        """Where an absolute path of the machine lies."""
        return self.root / path.lstrip("/")

    def read(self, path: Path) -> str:
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """One write: the kernel takes it as one request, and its refusal is an OSError."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def add(self, folder: Path, pids: Iterable[int]) -> None:
        """Move processes to a group; one that is gone is no error. What they start later belongs to it."""
        for pid in pids:
            with suppress(ProcessLookupError):
                self.write(folder / "cgroup.procs", str(pid))

    def make(self, folder: Path) -> None:
        """A group; no effect if it is there."""
        folder.mkdir(exist_ok=True)

    def remove(self, folder: Path) -> None:
        """A group without processes; no effect if it is gone."""
        with suppress(FileNotFoundError):
            folder.rmdir()

    def inner(self, folder: Path) -> list[Path]:
        """Groups in a group; none if it is gone."""
        try:
            return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def can_write(self, path: Path) -> bool:
        return os.access(path, os.W_OK)

    def has_mark(self, folder: Path, name: str) -> bool:
        """Whether an extended attribute of the folder is `1`."""
        try:
            return os.getxattr(folder, name) == b"1"
        except OSError:
            return False

    def pids(self, folder: Path) -> list[int]:
        """Processes of a group."""
        return [int(word) for word in self.read(folder / "cgroup.procs").split()]


#: The machine's own.
MACHINE = GroupFiles()


def numbers(text: str) -> dict[str, int]:
    """Lines of a name and a number, as in `cpu.stat`."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
