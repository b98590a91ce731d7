"""Control groups of version 1: each controller has a hierarchy of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swell.executors.local.limits.cores import PERIOD_US, is_part, quota_us
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.local.limits.process_usage import resident_bytes
from swell.model.share_mode import ShareMode
from swell.model.usage import GangUsage
from swell.wire.group_files import GroupFiles, numbers
from swell.wire.group_places import GroupPlace

#: `cpu.shares` of a group for which none was chosen, and the least that the kernel takes.
FULL_WEIGHT, LEAST_WEIGHT = 1024, 2
CPU, ACCOUNTS, MEMORY, DISKS = "cpu", "cpuacct", "memory", "blkio"
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
        self._tops = {
            name: place.folder for name, place in places.items() if name in (CPU, ACCOUNTS, MEMORY, DISKS)
        }

    @property
    def parents(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._tops.values()))  # two controllers may have one hierarchy

    def prepare(self, platform: str) -> None:
        for name in self._usual:
            self.files.make(self._tops[name] / platform)
        if is_part(self._sharing.cores):
            self._write_quota(self._tops[CPU] / platform, 1.0)

    @property
    def _usual(self) -> tuple[str, ...]:
        """Controllers that every gang has groups of."""
        return tuple(name for name in (*NEEDED, DISKS) if name in self._tops)

    def folders(self, group: str, has_memory: bool) -> tuple[Path, ...]:
        names = (*self._usual, MEMORY) if has_memory else self._usual
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
    def usage(self, group: str, has_memory: bool) -> GangUsage:
        cpu_ns = int(self.files.read(self._tops[ACCOUNTS] / group / "cpuacct.usage"))
        if has_memory:
            memory_bytes = int(self.files.read(self._tops[MEMORY] / group / "memory.usage_in_bytes"))
        else:
            memory_bytes = resident_bytes(self.files.pids(self._tops[CPU] / group))
        read_bytes, written_bytes = self._disks(group)
        return GangUsage(
            cpu_s=cpu_ns / 1e9,
            memory_bytes=memory_bytes,
            read_bytes=read_bytes,
            written_bytes=written_bytes,
        )

    def _disks(self, group: str) -> tuple[int | None, int | None]:
        if DISKS not in self._tops:
            return None, None
        text = self.files.read(self._tops[DISKS] / group / "blkio.throttle.io_service_bytes")
        sums = {"Read": 0, "Write": 0}
        for words in map(str.split, text.splitlines()):
            if len(words) == 3 and words[1] in sums:  # device, kind, bytes
                sums[words[1]] += int(words[2])
        return sums["Read"], sums["Write"]

    def num_killed(self, group: str) -> int:
        return numbers(self.files.read(self._tops[MEMORY] / group / "memory.oom_control")).get("oom_kill", 0)
