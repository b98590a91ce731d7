"""Control groups of version 2: one hierarchy, in which a group hands its controllers down or has processes.

The group in which the agent was started has to be delegated to its user. Its processes are moved to a leaf
(`LEAF`) first, because a group that hands controllers down may have none of its own.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from swell.executors.local.limits.allocation import PERIOD_US, quota_us
from swell.executors.local.limits.control_groups import ControlGroups
from swell.model.share_mode import ShareMode

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


class CgroupV2(ControlGroups):
    """See `ControlGroups`."""

    name = "cgroup v2"

    def prepare(self) -> None:
        self._hand_down(self.folder.parent)
        super().prepare()
        self._hand_down(self.folder)

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
        if is_root(folder):
            return
        for _ in range(MOST_ROUNDS):
            pids = self.files.pids(folder)
            if not pids:
                return
            self.files.make(folder / LEAF)
            self.files.add(folder / LEAF, pids)
        raise OSError(f"processes are started in {folder} faster than they can be moved to {LEAF}")

    def settings(self, share: float) -> dict[str, str]:
        if self.sharing.mode is ShareMode.QUOTA:
            return {"cpu.max": f"{quota_us(share, self.sharing.cores)} {PERIOD_US}"}
        return {"cpu.weight": str(weight(share))}


def is_root(folder: Path) -> bool:
    """Whether it is the machine's topmost group, and not just a container's: that one has no type."""
    return not (folder / "cgroup.type").exists()
