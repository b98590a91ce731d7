"""Values of one name, in the order in which they were reported, told as one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

#: How the values of several workers become one. `rank0`: that of rank 0 counts.
Reduction = Literal["rank0", "mean", "sum", "min", "max"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


class Tally(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Summary of at least one value of one name.

    Steps never go back within it: what was done again replaces what it repeats.
    """

    first_step: int  #: after which the first of the values was reported
    last_step: int
    num_workers: int  #: when the last one was reported
    count: int  #: values that are finite numbers
    num_odd: int  #: values that are NaN or infinite
    mean: float | None = None  #: of the finite ones, as all below; None: there are none
    min: float | None = None
    max: float | None = None
    last: float | None = None
    reduction: Reduction = "rank0"

    @property
    def num_values(self) -> int:
        return self.count + self.num_odd

    def moved(self, steps: int) -> Tally:
        """The same, so many steps later."""
        first, last = self.first_step + steps, self.last_step + steps
        return msgspec.structs.replace(self, first_step=first, last_step=last)

    def plus(self, later: Tally) -> Tally:
        """Both as one. Values after the first step of `later` are dropped: it repeats those steps."""
        earlier = self.before(later.first_step) if later.first_step < self.last_step else self
        return later if earlier is None else _joined(earlier, later)

    def before(self, step: int) -> Tally | None:
        """What is left of it without this step and later ones; None: nothing.

        How many values each step has is not known: as many as each other one. What is left keeps the mean and
        the extremes of all.
        """
        if step > self.last_step:
            return self
        if step <= self.first_step:
            return None
        share = (step - self.first_step) / (self.last_step - self.first_step + 1)
        num_odd = round(self.num_odd * share)
        count = round(self.num_values * share) - num_odd
        if count + num_odd == 0:
            return None
        if count == 0:
            return Tally(self.first_step, step - 1, self.num_workers, 0, num_odd, reduction=self.reduction)
        return msgspec.structs.replace(self, last_step=step - 1, count=count, num_odd=num_odd)


def tally_of(
    values: Iterable[tuple[int, float]], num_workers: int, reduction: Reduction = "rank0"
) -> Tally | None:
    """Summarise (step, value) pairs, oldest first; None if there are none."""
    whole: Tally | None = None
    run: list[tuple[int, float]] = []
    for pair in values:
        if run and pair[0] < run[-1][0]:
            whole, run = _after(whole, _of_run(run, num_workers, reduction)), []
        run.append(pair)
    return _after(whole, _of_run(run, num_workers, reduction)) if run else None


def _of_run(run: list[tuple[int, float]], num_workers: int, reduction: Reduction) -> Tally:
    """Summarise pairs whose steps do not go back."""
    finite = [value for _, value in run if math.isfinite(value)]
    begin, end, num_odd = run[0][0], run[-1][0], len(run) - len(finite)
    if not finite:
        return Tally(begin, end, num_workers, 0, num_odd, reduction=reduction)
    least, most = min(finite), max(finite)
    mean = min(most, max(least, _mean(finite)))
    return Tally(begin, end, num_workers, len(finite), num_odd, mean, least, most, finite[-1], reduction)


def _mean(finite: list[float]) -> float:
    """May be infinite where the largest numbers there are have no room for rounding."""
    try:
        return math.fsum(value / len(finite) for value in finite)
    except OverflowError:
        return 2.0 * math.fsum(value / len(finite) / 2.0 for value in finite)


def _after(earlier: Tally | None, later: Tally) -> Tally:
    return later if earlier is None else earlier.plus(later)


def _joined(earlier: Tally, later: Tally) -> Tally:
    """Join two tallies whose steps follow each other."""
    count = earlier.count + later.count
    finite = [one for one in (earlier, later) if one.count]
    least = min((one.min for one in finite if one.min is not None), default=None)
    most = max((one.max for one in finite if one.max is not None), default=None)
    mean = None
    if least is not None and most is not None:
        mean = sum(one.mean * (one.count / count) for one in finite if one.mean is not None)
        mean = min(most, max(least, mean))  # rounding
    return Tally(
        first_step=earlier.first_step,
        last_step=later.last_step,
        num_workers=later.num_workers,
        count=count,
        num_odd=earlier.num_odd + later.num_odd,
        mean=mean,
        min=least,
        max=most,
        last=finite[-1].last if finite else None,
        reduction=later.reduction,
    )


def plus(earlier: dict[str, Tally], later: dict[str, Tally]) -> dict[str, Tally]:
    """The curves of two reports, by name, as those of one."""
    if not earlier or not later:
        return later or earlier
    return earlier | {name: _after(earlier.get(name), tally) for name, tally in later.items()}
