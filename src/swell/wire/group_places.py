"""Where the control groups of a process are, by what the kernel lists of mounts and of the process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from swell.wire.group_files import GroupFiles

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
