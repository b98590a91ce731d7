"""Control groups as a limiter: one group for a platform, and below it one for each gang.

What both versions have in common. A version (`cgroup_v1`, `cgroup_v2`) tells which folders a group has, and
what is written to and read from which of their files.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from swell.executors.local.limits.process_usage import ProcessUsage, started_by
from swell.executors.local.processes.listing import is_alive
from swell.model.share_mode import FULL_SHARE
from swell.model.usage import GangUsage
from swell.wire.group_files import GroupFiles

PREFIX = "swell-"

log = logging.getLogger("swell.agent")


def platform_group(state_dir: Path, pid: int) -> str:
    """How the group of a platform is called whose agent is this process."""
    digest = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]
    return f"{PREFIX}{digest}-{pid}"


class GroupVersion(Protocol):
    """One version of control groups, for one platform. Groups are called by their paths below its own one."""

    @property
    def name(self) -> str:
        """Name of the version, for people."""

    @property
    def files(self) -> GroupFiles: ...

    @property
    def parents(self) -> tuple[Path, ...]:
        """Folders in which platforms make theirs, one for each hierarchy that is used."""

    def prepare(self, platform: str) -> None:
        """Make the platform's own group, so that groups can be made in it."""

    def folders(self, group: str, has_memory: bool) -> tuple[Path, ...]:
        """Return the folders of a gang's group, one for each hierarchy.

        The group is gone when the first of them is.
        """

    def share_settings(self, group: str, share: float) -> list[tuple[Path, str]]:
        """What to write where; the first failure means that the share is not in force."""

    def memory_settings(self, group: str, num_bytes: int) -> list[tuple[Path, str]]:
        """Likewise. A file that there is not on every kernel may be missing."""

    def cpu_s(self, group: str) -> float:
        """CPU time that the processes of a group have used."""

    def num_killed(self, group: str) -> int: ...


class ControlGroups:
    """See `limiter.Limiter`."""

    def __init__(self, version: GroupVersion, state_dir: Path) -> None:
        self._version = version
        self.platform = platform_group(state_dir, os.getpid())
        self._num_groups = 0

    lack = ""

    @property
    def name(self) -> str:
        return self._version.name

    def begin(self) -> None:
        """Make the platform's group, and remove those of agents that have ended. Raises OSError."""
        self._version.prepare(self.platform)
        for parent in self._version.parents:
            for folder in self._version.files.inner(parent):
                if folder.name != self.platform and _is_of_ended(folder.name):
                    remove_tree(self._version.files, folder)

    def group(self, name: str) -> ControlGroup:
        self._num_groups += 1
        group = f"{self.platform}/{name}.{self._num_groups}"
        return ControlGroup(self._version, self.platform, group)

    def close(self) -> None:
        for parent in self._version.parents:
            remove_tree(self._version.files, parent / self.platform)


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


class ControlGroup:
    """See `limiter.GangGroup`."""

    def __init__(self, version: GroupVersion, platform: str, group: str) -> None:
        self._version = version
        self._platform = platform
        self._group = group
        self._share = FULL_SHARE
        self._memory_bytes: int | None = None
        self._made: set[Path] = set()  #: folders that are there, as far as is known
        self._workers: set[int] = set()
        self._usage = ProcessUsage()
        self._seen_s = 0.0  #: CPU time, of the folders that there are
        self._lost_s = 0.0  #: of those before, which have vanished

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(str(folder / "cgroup.procs") for folder in self._folders)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return self._version.folders(self._group, self._has_memory)

    @property
    def _has_memory(self) -> bool:
        """Whether it needs a group of the memory controller."""
        return self._memory_bytes is not None

    # ------------------------------------------------------------ limits
    def set_share(self, share: float) -> None:
        self._ensure()
        self._write(self._version.share_settings(self._group, share))
        self._share = share

    def limit_memory(self, num_bytes: int) -> None:
        self._memory_bytes = num_bytes
        try:
            self._ensure()
            self._write_memory(num_bytes)
        except OSError:
            self._memory_bytes = None
            raise

    def _write_memory(self, num_bytes: int) -> None:
        first, *others = self._version.memory_settings(self._group, num_bytes)
        self._write([first])
        for setting in others:
            with suppress(FileNotFoundError):  # a kernel without swap accounting
                self._write([setting])

    def _write(self, settings: Iterable[tuple[Path, str]]) -> None:
        for path, text in settings:
            self._version.files.write(path, text)

    # ------------------------------------------------------------ processes
    def add(self, pid: int) -> None:
        self._ensure()
        for folder in self._folders:
            with suppress(ProcessLookupError):
                self._version.files.write(folder / "cgroup.procs", str(pid))

    def keep(self, pids: Iterable[int]) -> None:
        self._workers = pids = set(pids)
        self._ensure()
        inside = set.intersection(*(set(self._version.files.pids(folder)) for folder in self._folders))
        strangers = [pid for pid in pids if pid not in inside]
        for pid in [*strangers, *started_by(strangers)]:
            self.add(pid)

    # ------------------------------------------------------------ usage
    def usage(self) -> GangUsage:
        self._seen_s = self._version.cpu_s(self._group)
        started = set(self._version.files.pids(self._folders[0])) - self._workers
        used = self._usage.read(self._workers, started)
        return msgspec.structs.replace(used, cpu_s=self._lost_s + self._seen_s)

    def num_killed(self) -> int:
        return 0 if self._memory_bytes is None else self._version.num_killed(self._group)

    # ------------------------------------------------------------ folders
    def close(self) -> None:
        for folder in self._folders:
            self._version.files.remove(folder)

    def _ensure(self) -> None:
        """Make what there is not, with its limits.

        What a group that has vanished had used is kept as far as it was read.
        """
        missing = [folder for folder in self._folders if not folder.is_dir()]
        if not missing:
            return
        if self._folders[0] in missing:
            self._lost_s, self._seen_s = self._lost_s + self._seen_s, 0.0
        if vanished := self._made.intersection(missing):
            self._made -= vanished
            log.warning(
                "control group %s has vanished, and is made again", ", ".join(map(str, sorted(vanished)))
            )
        self._make(missing)
        self._made.update(missing)
        if self._memory_bytes is not None:
            self._write_memory(self._memory_bytes)
        self._write(self._version.share_settings(self._group, self._share))

    def _make(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            if not folder.parent.is_dir():  # the platform's group has vanished, or was of no use so far
                self._version.prepare(self._platform)
                self._version.files.make(folder.parent)
            self._version.files.make(folder)
