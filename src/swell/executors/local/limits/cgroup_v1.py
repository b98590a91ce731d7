"""Control groups of version 1: each controller has a hierarchy of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swell.executors.local.limits.cores import PERIOD_US, is_part, quota_us
from swell.executors.local.limits.limiter import CoreSharing
from swell.model.share_mode import ShareMode
from swell.wire.group_files import GroupFiles, numbers
from swell.wire.group_places import GroupPlace

#: `cpu.shares` of a group for which none was chosen, and the least that the kernel takes.
FULL_WEIGHT, LEAST_WEIGHT = 1024, 2
CPU, ACCOUNTS, MEMORY = "cpu", "cpuacct", "memory"
#: Without these nothing can be divided, or nothing measured.
NEEDED = (CPU, ACCOUNTS)


def weight(share: float) -> int:
    """`cpu.shares` of a share in (0, 1]."""
    return max(LEAST_WEIGHT, round(share * FULL_WEIGHT))


class CgroupV1:
    """See `control_groups.GroupVersion`.

    A gang has a group of the memory controller only if its memory is limited: charges stay with the group in
    which a page was first touched, so that of forked workers would show little of what is resident.
    """

    name = "cgroup v1"

    def __init__(self, files: GroupFiles, places: Mapping[str, GroupPlace], sharing: CoreSharing) -> None:
        self.files = files
        self._sharing = sharing
        self._tops = {name: place.folder for name, place in places.items() if name in (CPU, ACCOUNTS, MEMORY)}

    @property
    def parents(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._tops.values()))  # two controllers may have one hierarchy

    def prepare(self, platform: str) -> None:
        for name in NEEDED:
            self.files.make(self._tops[name] / platform)
        if is_part(self._sharing.cores):
            self._write_quota(self._tops[CPU] / platform, 1.0)

    def folders(self, group: str, has_memory: bool) -> tuple[Path, ...]:
        names = (*NEEDED, MEMORY) if has_memory else NEEDED
        return tuple(dict.fromkeys(self._top(name) / group for name in names))

    def _top(self, name: str) -> Path:
        """Raises OSError: nothing can be done with that controller here."""
        if name not in self._tops:
            raise OSError(f"the controller {name} of cgroup v1 is not there, or not writable")
        return self._tops[name]

    # ------------------------------------------------------------ limits
    def share_settings(self, group: str, share: float) -> list[tuple[Path, str]]:
        folder = self._tops[CPU] / group
        if self._sharing.mode is ShareMode.QUOTA:
            return self._quota_settings(folder, share)
        return [(folder / "cpu.shares", str(weight(share)))]

    def _quota_settings(self, folder: Path, share: float) -> list[tuple[Path, str]]:
        quota = quota_us(share, self._sharing.cores)
        return [(folder / "cpu.cfs_period_us", str(PERIOD_US)), (folder / "cpu.cfs_quota_us", str(quota))]

    def _write_quota(self, folder: Path, share: float) -> None:
        for path, text in self._quota_settings(folder, share):
            self.files.write(path, text)

    def memory_settings(self, group: str, num_bytes: int) -> list[tuple[Path, str]]:
        folder = self._top(MEMORY) / group
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        return [(folder / name, str(num_bytes)) for name in names]

    # ------------------------------------------------------------ usage
    def cpu_s(self, group: str) -> float:
        return int(self.files.read(self._tops[ACCOUNTS] / group / "cpuacct.usage")) / 1e9

    def num_killed(self, group: str) -> int:
        return numbers(self.files.read(self._tops[MEMORY] / group / "memory.oom_control")).get("oom_kill", 0)
