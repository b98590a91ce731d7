"""CPU time of calls, and tables of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np

Answer = TypeVar("Answer")


def cpu_ms(call: Callable[[], Answer], repeats: int = 1) -> tuple[Answer, float]:
    """The answer, and the least CPU time of the process in milliseconds: HiGHS may use several threads."""
    least_s = np.inf
    for _ in range(repeats):
        began_s = time.process_time()
        answer = call()
        least_s = min(least_s, time.process_time() - began_s)
    return answer, 1e3 * float(least_s)


@dataclass(frozen=True)
class Row:
    """One size of one problem."""

    problem: str
    size: str
    ours: str  #: which of our paths
    ours_ms: tuple[float, ...]  #: of each instance
    rival: str
    rival_ms: tuple[float, ...]  #: of the instances that the rival solved too; empty: of none
    agree: str  #: how far the answers are from each other

    @property
    def ratio(self) -> float | None:
        """Median over median; None without a rival."""
        return float(np.median(self.rival_ms) / np.median(self.ours_ms)) if self.rival_ms else None

    def told(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def cells(self) -> tuple[str, ...]:
        rival = f"{np.median(self.rival_ms):,.0f}, {max(self.rival_ms):,.0f}" if self.rival_ms else ""
        return (
            self.problem,
            self.size,
            f"{len(self.ours_ms)}",
            self.ours,
            f"{np.median(self.ours_ms):.3f}",
            f"{np.quantile(self.ours_ms, 0.99):.3f}",
            self.rival,
            rival,
            "" if self.ratio is None else f"{self.ratio:,.0f}",
            self.agree,
        )
