"""Who has jobs here, or had some lately, each by a small number."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, read_only
from swell.model.quota import NO_QUOTA, Quotas

#: A tenant whose last job ended, or was refused, so long ago is forgotten; its number goes to another one.
MEMORY_S = 86_400.0


class Tenants(msgspec.Struct, kw_only=True):
    """Numbers of tenants: those of jobs that have not ended, and of jobs that ended within MEMORY_S.

    A plain value, kept with the head's state: after a restart everybody has the number it had.
    """

    codes: dict[str, int] = {}
    num_jobs: dict[str, int] = {}  #: of those that have any
    left_s: dict[str, float] = {}  #: when the others had their last one, in order
    #: Since when each has had its number; another tenant may have had it before. None of one of long ago.
    since_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self.codes)

    def join(self, name: str, at_s: float) -> int:
        """Note a job of this tenant. Returns its number: the lowest that is free if it has none."""
        self.left_s.pop(name, None)
        self.num_jobs[name] = self.num_jobs.get(name, 0) + 1
        if name not in self.codes:
            taken = set(self.codes.values())
            self.codes[name] = next(code for code in range(len(taken) + 1) if code not in taken)
            self.since_s[name] = at_s
        return self.codes[name]

    def leave(self, name: str, at_s: float) -> None:
        """One job less; `at_s` is never before that of an earlier call."""
        self.num_jobs[name] -= 1
        if self.num_jobs[name] == 0:
            del self.num_jobs[name]
            self.left_s[name] = at_s

    def forget(self, now_s: float) -> None:
        """Let go of those who have had no job for so long."""
        while self.left_s:
            name, at_s = next(iter(self.left_s.items()))
            if now_s - at_s <= MEMORY_S:
                return
            del self.left_s[name], self.codes[name]
            self.since_s.pop(name, None)

    def numbers_since_s(self) -> FloatArray:
        """(T,) since when each number has been its tenant's; inf: no tenant's; -inf: that is not known."""
        since_s = np.full(max(self.codes.values(), default=-1) + 1, np.inf)
        for name, code in self.codes.items():
            since_s[code] = self.since_s.get(name, -np.inf)
        return read_only(since_s)

    def quota_devices(self, quotas: Quotas, num_devices: int) -> IntArray | None:
        """Most devices of each tenant by its number, NO_QUOTA for any; None if none of these has a quota.

        Args:
            num_devices: that are there.
        """
        limited = quotas.keys() & self.codes.keys()
        if not limited:
            return None
        column = np.full(max(self.codes.values()) + 1, NO_QUOTA, dtype=np.int64)
        for name in limited:
            column[self.codes[name]] = quotas[name].most_devices(num_devices)
        return read_only(column)
