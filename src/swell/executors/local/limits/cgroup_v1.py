"""Control groups of version 1: CPU alone, whose controller has a hierarchy of its own."""

from __future__ import annotations

from swell.executors.local.limits.allocation import PERIOD_US, quota_us
from swell.executors.local.limits.control_groups import ControlGroups
from swell.model.share_mode import ShareMode

#: `cpu.shares` of a group for which none was chosen, and the least that the kernel takes.
FULL_WEIGHT, LEAST_WEIGHT = 1024, 2
#: The controller.
CPU = "cpu"


def weight(share: float) -> int:
    """`cpu.shares` of a share in (0, 1]."""
    return max(LEAST_WEIGHT, round(share * FULL_WEIGHT))


class CgroupV1(ControlGroups):
    """See `ControlGroups`."""

    name = "cgroup v1"

    def settings(self, share: float) -> dict[str, str]:
        if self.sharing.mode is ShareMode.QUOTA:
            quota = quota_us(share, self.sharing.cores)
            return {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
        return {"cpu.shares": str(weight(share))}
