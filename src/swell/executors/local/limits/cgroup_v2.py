"""Control groups of version 2: one hierarchy, in which a group hands its controllers down or has processes.

The group in which the agent was started has to be delegated to its user. Its processes are moved to a leaf
(`LEAF`) first, because a group that hands controllers down may have none of its own.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from swell.executors.local.limits.cores import PERIOD_US, is_part, quota_us
from swell.executors.local.limits.limiter import CoreSharing
from swell.model.share_mode import ShareMode
from swell.wire.group_files import GroupFiles, numbers

#: `cpu.weight` of a group for which none was chosen.
FULL_WEIGHT = 100
#: The group of the processes that were in the delegated one; an agent that is started in it goes back up.
LEAF = "swell-processes"
CPU, MEMORY = "cpu", "memory"
#: A process may be started while others are moved.
MOST_ROUNDS = 20


def weight(share: float) -> int:
    """`cpu.weight` of a share in (0, 1]."""
    return max(1, round(share * FULL_WEIGHT))


def top_of(own: Path) -> Path:
    """The group below which platforms make theirs, of a process that is in this one."""
    return own.parent if own.name == LEAF else own


class CgroupV2:
    """See `control_groups.GroupVersion`."""

    name = "cgroup v2"

    def __init__(self, files: GroupFiles, top: Path, sharing: CoreSharing) -> None:
        self.files = files
        self._top = top
        self._sharing = sharing

    @property
    def parents(self) -> tuple[Path, ...]:
        return (self._top,)

    # ------------------------------------------------------------ the platform's group
    def prepare(self, platform: str) -> None:
        self._hand_down(self._top)
        folder = self._top / platform
        self.files.make(folder)
        self._hand_down(folder)
        if is_part(self._sharing.cores):
            self.files.write(folder / "cpu.max", _cpu_max(1.0, self._sharing))

    def _hand_down(self, folder: Path) -> None:
        """Groups in this one are to have the controllers. Raises OSError if not even that of the CPU."""
        handed = self.files.read(folder / "cgroup.subtree_control").split()
        offered = self.files.read(folder / "cgroup.controllers").split()
        if CPU not in handed:
            self._clear(folder)
            self.files.write(folder / "cgroup.subtree_control", f"+{CPU}")
        if MEMORY in offered and MEMORY not in handed:
            with suppress(OSError):  # gangs can do without
                self.files.write(folder / "cgroup.subtree_control", f"+{MEMORY}")

    def _clear(self, folder: Path) -> None:
        """Move the processes of a group to its leaf; the topmost one of a machine may keep its own."""
        if is_root(self.files, folder):
            return
        for _ in range(MOST_ROUNDS):
            pids = self.files.pids(folder)
            if not pids:
                return
            self.files.make(folder / LEAF)
            for pid in pids:
                with suppress(ProcessLookupError):
                    self.files.write(folder / LEAF / "cgroup.procs", str(pid))
        raise OSError(f"processes are started in {folder} faster than they can be moved to {LEAF}")

    # ------------------------------------------------------------ limits
    def folders(self, group: str, has_memory: bool) -> tuple[Path, ...]:
        return (self._top / group,)

    def share_settings(self, group: str, share: float) -> list[tuple[Path, str]]:
        folder = self._top / group
        if self._sharing.mode is ShareMode.QUOTA:
            return [(folder / "cpu.max", _cpu_max(share, self._sharing))]
        return [(folder / "cpu.weight", str(weight(share)))]

    def memory_settings(self, group: str, num_bytes: int) -> list[tuple[Path, str]]:
        folder = self._top / group
        if not (folder / "memory.max").exists():
            raise OSError(f"the controller memory is not delegated to {self._top}")
        return [(folder / "memory.max", str(num_bytes)), (folder / "memory.swap.max", "0")]

    # ------------------------------------------------------------ usage
    def cpu_s(self, group: str) -> float:
        return numbers(self.files.read(self._top / group / "cpu.stat"))["usage_usec"] / 1e6

    def num_killed(self, group: str) -> int:
        return numbers(self.files.read(self._top / group / "memory.events")).get("oom_kill", 0)


def is_root(files: GroupFiles, folder: Path) -> bool:
    """Whether it is the machine's topmost group, and not just a container's: that one has no type."""
    return not (folder / "cgroup.type").exists()


def _cpu_max(share: float, sharing: CoreSharing) -> str:
    return f"{quota_us(share, sharing.cores)} {PERIOD_US}"
