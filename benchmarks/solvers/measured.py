"""CPU time of calls, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np
from tests.solvers.highs import Answer

Found = TypeVar("Found")


def cpu_ms(call: Callable[[], Found], repeats: int = 1) -> tuple[Found, float]:
    """The answer, and the least CPU time of the process in milliseconds: HiGHS may use several threads."""
    least_s = np.inf
    for _ in range(repeats):
        began_s = time.process_time()
        found = call()
        least_s = min(least_s, time.process_time() - began_s)
    return found, 1e3 * float(least_s)


@dataclass(frozen=True)
class Rival:
    """A general solver on the first instances."""

    name: str = ""
    answers: tuple[Answer, ...] = ()
    spent_ms: tuple[float, ...] = ()

    @property
    def num_at_limit(self) -> int:
        return sum(answer.is_at_limit for answer in self.answers)

    @property
    def median_ms(self) -> float:
        return float(np.median(self.spent_ms))

    @property
    def is_median_bound(self) -> bool:
        """Whether the median could be larger without the time limit."""
        pairs = zip(self.answers, self.spent_ms, strict=True)
        most_ms = [np.inf if answer.is_at_limit else spent_ms for answer, spent_ms in pairs]
        return bool(np.median(most_ms) > self.median_ms)


def rival_of(name: str, calls: Iterable[Callable[[], Answer]]) -> Rival:
    """Measure a solver; without instances it has no name."""
    timed = [cpu_ms(call) for call in calls]
    answers, spent_ms = tuple(answer for answer, _ in timed), tuple(spent for _, spent in timed)
    return Rival(name if timed else "", answers, spent_ms)


@dataclass(frozen=True)
class Row:
    """One size of one problem."""

    problem: str
    size: str
    ours: str  #: which of our paths
    ours_ms: tuple[float, ...]  #: of each instance
    values: tuple[float, ...] = ()  #: of our answers
    proof: str = ""  #: how good our answers are by their own account
    rival: Rival = Rival()

    @property
    def ratio(self) -> float | None:
        """Median over median; None without a rival."""
        return self.rival.median_ms / float(np.median(self.ours_ms)) if self.rival.answers else None

    def told(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def cells(self) -> tuple[str, ...]:
        median_ms, p99_ms = np.quantile(self.ours_ms, (0.5, 0.99))
        ours = (self.ours, f"{len(self.ours_ms)}", _shown(median_ms), _shown(p99_ms))
        return self.problem, self.size, *ours, *self._cells_of_rival(), self._answers()

    def _cells_of_rival(self) -> tuple[str, ...]:
        rival = self.rival
        if self.ratio is None:
            return ("",) * 5
        median, most = "> " * rival.is_median_bound, "> " * (rival.num_at_limit > 0)
        return (
            rival.name,
            f"{len(rival.answers)}",
            median + _shown(rival.median_ms),
            most + _shown(max(rival.spent_ms)),
            f"{median}{self.ratio:,.0f}",
        )

    def _answers(self) -> str:
        """Our proof, then by how much of ours the rival's answers are worse."""
        num, said = len(self.rival.answers), [self.proof] * bool(self.proof)
        pairs = zip(self.values, self.rival.answers, strict=False)
        found = [(ours, theirs.value) for ours, theirs in pairs if np.isfinite(theirs.value)]
        lost = [(ours - theirs) / max(abs(ours), 1e-12) for ours, theirs in found]
        if lost:
            ends = dict.fromkeys(f"{share:z.2%}" for share in (min(lost), max(lost)))
            said.append(f"others worse by {' to '.join(ends)}")
        if self.rival.num_at_limit:
            said.append(f"{self.rival.num_at_limit} of {num} at the limit")
        if len(lost) < num:
            said.append(f"no answer to {num - len(lost)} of {num}")
        return "; ".join(said)


def _shown(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 10.0 else f"{ms:.3f}"
