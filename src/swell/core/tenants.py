"""Who has jobs here, or had some lately, each by a small number."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.arrays import IntArray, read_only
from swell.model.quota import NO_QUOTA, Quotas

#: A tenant whose last job ended, or was refused, so long ago does not count any more.
MEMORY_S = 86_400.0


class Tenants(msgspec.Struct, kw_only=True):
    """Numbers of all tenants that there ever were, and which of them have jobs, or had some lately.

    A plain value, kept with the head's state: after a restart everybody has the number it had.
    """

    codes: dict[str, int] = {}
    num_jobs: dict[str, int] = {}  #: of those that have any
    left_s: dict[str, float] = {}  #: when others had their last one, if that was lately, in order

    def __len__(self) -> int:
        """Number of tenants that have jobs, or had one within MEMORY_S."""
        return len(self.num_jobs) + len(self.left_s)

    def join(self, name: str) -> int:
        """Note a job of this tenant. Returns its number, which is its own for ever."""
        self.left_s.pop(name, None)
        self.num_jobs[name] = self.num_jobs.get(name, 0) + 1
        return self.codes.setdefault(name, len(self.codes))

    def leave(self, name: str, at_s: float) -> None:
        """One job less; `at_s` is never before that of an earlier call."""
        self.num_jobs[name] -= 1
        if self.num_jobs[name] == 0:
            del self.num_jobs[name]
            self.left_s[name] = at_s

    def forget(self, now_s: float) -> None:
        """Let those count no more who have had no job for so long."""
        while self.left_s:
            name, at_s = next(iter(self.left_s.items()))
            if now_s - at_s <= MEMORY_S:
                return
            del self.left_s[name]

    def quota_devices(self, quotas: Quotas, num_devices: int) -> IntArray | None:
        """Most devices of each tenant by its number, NO_QUOTA for any; None if none of these has a quota.

        Args:
            num_devices: that are there.
        """
        limited = quotas.keys() & (self.num_jobs.keys() | self.left_s.keys())
        if not limited:
            return None
        column = np.full(max(self.codes.values()) + 1, NO_QUOTA, dtype=np.int64)
        for name in limited:
            column[self.codes[name]] = quotas[name].most_devices(num_devices)
        return read_only(column)
