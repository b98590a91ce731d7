"""What a container has used, as its control groups and its network interfaces count it.

The engines' own figures come once a second.
"""

from __future__ import annotations

import msgspec

from swell.executors.local.limits import cgroup_v1
from swell.executors.local.limits.cgroup_v1 import CgroupV1
from swell.executors.local.limits.cgroup_v2 import CgroupV2
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.local.limits.process_usage import ProcessUsage
from swell.model.usage import NO_USAGE, GangUsage
from swell.wire.group_files import GroupFiles
from swell.wire.group_places import UNIFIED, group_places

#: The group itself, of those below it.
ITSELF = ""


class ContainerMeter:
    """Usage of one container. Once the container is gone, the last reading stands."""

    def __init__(self, pid: int, sharing: CoreSharing, files: GroupFiles | None = None) -> None:
        """`pid`: one of its processes."""
        self._files = files = files or GroupFiles()
        self.pid = pid
        self._interfaces = files.at(f"/proc/{pid}/net/dev")
        places = group_places(files, pid)
        self._version: CgroupV1 | CgroupV2 | None = None
        if cgroup_v1.CPU in places:
            self._version = CgroupV1(files, places, sharing)
        elif UNIFIED in places:
            self._version = CgroupV2(files, places[UNIFIED].folder, sharing)
        self._processes = ProcessUsage()
        self._usage = NO_USAGE
        self._num_killed = 0

    def usage(self) -> GangUsage:
        """Since it was started, the import of what its workers need included."""
        if self._version is not None:
            try:
                received, sent = self._network()
                cpu_s = self._version.cpu_s(ITSELF)
                (folder, *_) = self._version.folders(ITSELF, has_memory=False)
                used = self._processes.read([self.pid], set(self._files.pids(folder)) - {self.pid})
                self._usage = msgspec.structs.replace(
                    used, cpu_s=cpu_s, received_bytes=received, sent_bytes=sent
                )
            except FileNotFoundError:
                self._version = None
        return self._usage

    def _network(self) -> tuple[int | None, int | None]:
        """Received and sent over all its interfaces, the loopback device on which its workers meet included.

        Once its first process is gone, the last reading stands.
        """
        try:
            lines = self._files.read(self._interfaces).splitlines()[2:]
        except OSError:
            return self._usage.received_bytes, self._usage.sent_bytes
        counts = [
            line.partition(":")[2].split() for line in lines
        ]  # see proc(5): 8 of receiving, 8 of sending
        return sum(int(one[0]) for one in counts), sum(int(one[8]) for one in counts)

    def num_killed(self) -> int:
        """Processes that the kernel has ended because of its memory limit."""
        if self._version is not None:
            try:
                self._num_killed = self._version.num_killed(ITSELF)
            except FileNotFoundError:
                self._version = None
        return self._num_killed
