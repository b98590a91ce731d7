"""What a container has used, read from its control groups: the engines' own figures come once a second."""

from __future__ import annotations

from swell.executors.local.limits import cgroup_v1
from swell.executors.local.limits.cgroup_v1 import CgroupV1
from swell.executors.local.limits.cgroup_v2 import CgroupV2
from swell.executors.local.limits.group_files import GroupFiles
from swell.executors.local.limits.group_places import UNIFIED, group_places
from swell.executors.local.limits.limiter import CoreSharing
from swell.model.usage import GangUsage

#: The group itself, of those below it.
ITSELF = ""


class ContainerMeter:
    """Usage of one container. Once the container is gone, the last reading stands."""

    def __init__(self, pid: int, sharing: CoreSharing, files: GroupFiles | None = None) -> None:
        """`pid`: one of its processes."""
        files = files or GroupFiles()
        places = group_places(files, pid)
        self._version: CgroupV1 | CgroupV2 | None = None
        if cgroup_v1.CPU in places:
            self._version = CgroupV1(files, places, sharing)
        elif UNIFIED in places:
            self._version = CgroupV2(files, places[UNIFIED].folder, sharing)
        self._has_memory = UNIFIED in places or cgroup_v1.MEMORY in places
        self._usage = GangUsage(cpu_s=0.0)
        self._num_killed = 0

    def usage(self) -> GangUsage:
        """Since it was started, the import of what its workers need included."""
        if self._version is not None:
            try:
                self._usage = self._version.usage(ITSELF, self._has_memory)
            except FileNotFoundError:
                self._version = None
        return self._usage

    def num_killed(self) -> int:
        """Processes that the kernel has ended because of its memory limit."""
        if self._version is not None:
            try:
                self._num_killed = self._version.num_killed(ITSELF)
            except FileNotFoundError:
                self._version = None
        return self._num_killed
