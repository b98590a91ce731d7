"""Control groups as a limiter: one group for a platform, and below it one for each gang.

What both versions have in common. A version (`cgroup_v1`, `cgroup_v2`) tells what is written to which files.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from swell.executors.local.limits.limiter import NO_MEMORY_LIMIT, CoreSharing, GangGroup, Limiter
from swell.executors.local.limits.process_usage import started_by
from swell.executors.local.processes.listing import is_alive
from swell.wire.group_files import GroupFiles, numbers

PREFIX = "swell-"

log = logging.getLogger("swell.agent")


def platform_prefix(state_dir: Path) -> str:
    """How all begins that is called after a state folder and lies outside of it."""
    return f"{PREFIX}{hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]}-"


def platform_group(state_dir: Path, pid: int) -> str:
    """How the group of a platform is called whose agent is this process, and its containers begin."""
    return f"{platform_prefix(state_dir)}{pid}"


class ControlGroups(Limiter):
    """A limiter by control groups of one version. Groups are told by their folders."""

    def __init__(self, files: GroupFiles, top: Path, sharing: CoreSharing, state_dir: Path) -> None:
        """`top`: the folder in which platforms make their groups."""
        super().__init__()
        self.files, self.sharing = files, sharing
        self.folder = top / platform_group(state_dir, os.getpid())
        self._numbers = itertools.count(1)

    def begin(self) -> None:
        """Make the platform's group, and remove those of agents that have ended. Raises OSError."""
        self.prepare()
        for folder in self.files.inner(self.folder.parent):
            if _is_of_ended(folder.name):
                remove_tree(self.files, folder)

    def group(self, name: str) -> ControlGroup:
        return ControlGroup(self, self.folder / f"{name}.{next(self._numbers)}")

    def close(self) -> None:
        remove_tree(self.files, self.folder)

    # ------------------------------------------------------------ of each version
    def prepare(self) -> None:
        """Make the platform's own group, so that groups can be made in it."""
        self.files.make(self.folder)

    def settings(self, share: float) -> dict[str, str]:
        """Return what to write to which files of a group for a share."""
        raise NotImplementedError


def _is_of_ended(name: str) -> bool:
    """Whether a group is called as one of an agent that no longer runs.

    Where the number is another process's now the group stays until that one ends, too.
    """
    pid = name.removeprefix(PREFIX).rpartition("-")[2]
    return name.startswith(PREFIX) and pid.isdecimal() and not is_alive(int(pid))


def remove_tree(files: GroupFiles, folder: Path) -> None:
    """A group and those in it; one that still has processes stays, and is told of."""
    for inner in files.inner(folder):
        remove_tree(files, inner)
    try:
        files.remove(folder)
    except OSError as error:
        log.warning("control group %s is left behind: %s", folder, error)


class ControlGroup(GangGroup):
    """A gang's control group. It is made when it is needed."""

    def __init__(self, groups: ControlGroups, folder: Path) -> None:
        super().__init__()
        self._groups, self._files = groups, groups.files
        self.folder = folder

    def set_share(self, share: float) -> None:
        self._files.make(self.folder)
        for name, text in self._groups.settings(share).items():
            self._files.write(self.folder / name, text)

    def limit_memory(self, num_bytes: int) -> None:
        self._files.make(self.folder)
        if not (self.folder / "memory.max").exists():  # version 1, or not delegated
            raise OSError(NO_MEMORY_LIMIT)
        self._files.write(self.folder / "memory.max", str(num_bytes))
        with suppress(FileNotFoundError):  # a kernel without swap accounting
            self._files.write(self.folder / "memory.swap.max", "0")

    def keep(self, pids: Iterable[int]) -> None:
        super().keep(pids)
        strangers = self._workers.difference(self._files.pids(self.folder))
        self._files.add(self.folder, [*strangers, *started_by(strangers)])

    def num_killed(self) -> int:
        events = self.folder / "memory.events"
        return numbers(self._files.read(events)).get("oom_kill", 0) if events.exists() else 0

    def close(self) -> None:
        self._files.remove(self.folder)
