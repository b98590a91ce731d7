"""Takers in one line each, for the solvers' tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from tests.examples import pick

from swell.solvers.capacity.plans import LATE, Plans, Takers
from swell.solvers.filling import FreeProfile, no_plans

#: (devices, work per second) of levels 1, 2, ...; strictly ascending
CURVES = (
    ([1, 2, 4], [1.0, 1.5, 2.0]),
    ([1, 2, 4], [5.0, 8.0, 12.0]),
    ([1, 2, 4, 8], [1.0, 2.0, 4.0, 8.0]),
    ([2, 6], [1.0, 4.0]),
    ([3], [2.0]),
)


@dataclass(frozen=True)
class Taker:
    """Costs are the same for all levels, and more by a tenth for each level above the first."""

    curve: tuple[Sequence[int], Sequence[float]]
    need: float  #: with the margin
    end_s: float
    just: float | None = None  #: work as believed; `need` if None
    believed: Sequence[float] = ()  #: rates of the levels; those of `curve` if empty
    start_s: float = 0.0
    resize_s: float = 0.0
    held: int = 0
    idle_s: float = 0.0
    is_bound: bool = False

    @property
    def devices(self) -> np.ndarray:
        return np.array([0, *self.curve[0]], dtype=np.int64)

    @property
    def rates(self) -> np.ndarray:
        return np.array([0.0, *self.curve[1]], dtype=float)

    @property
    def believed_rates(self) -> np.ndarray:
        return np.array([0.0, *(self.believed or self.curve[1])], dtype=float)

    def cost_s(self, before: int, after: int) -> float:
        if after in (0, before):
            return 0.0
        return (self.start_s if before == 0 else self.resize_s) * (0.9 + 0.1 * after)


def columns(tasks: Sequence[Taker]) -> Takers:
    num_levels = np.array([len(task.curve[0]) for task in tasks], dtype=np.int64)
    shape = len(tasks), max(num_levels, default=1)
    devices, rates, believed = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape)
    start_s, resize_s = np.zeros(shape), np.zeros(shape)
    for row, task in enumerate(tasks):
        of_row = slice(0, num_levels[row])
        devices[row, of_row], rates[row, of_row] = task.curve
        believed[row, of_row] = task.believed_rates[1:]
        start_s[row, of_row] = [task.cost_s(0, level + 1) for level in range(num_levels[row])]
        resize_s[row, of_row] = [task.cost_s(-1, level + 1) for level in range(num_levels[row])]
    just = [task.need if task.just is None else task.just for task in tasks]
    return Takers(
        devices=devices,
        rates=rates,
        believed_rates=believed,
        start_s=start_s,
        resize_s=resize_s,
        num_levels=num_levels,
        held=np.array([task.held for task in tasks], dtype=np.int64),
        idle_s=np.array([task.idle_s for task in tasks], dtype=float),
        is_bound=np.array([task.is_bound for task in tasks], dtype=bool),
        work=np.array([[task.need for task in tasks], just], dtype=float).T.copy(),
        until_s=np.array([task.end_s for task in tasks], dtype=float),
    )


def free_for(tasks: Sequence[Taker], num_devices: int) -> FreeProfile:
    """All devices but those of bound takers, which are theirs until they have their turn."""
    free = FreeProfile(num_devices)
    bound = [task for task in tasks if task.is_bound]
    num = np.array([task.devices[task.held] for task in bound], dtype=np.int64)
    free.take_now(num, np.array([task.idle_s for task in bound], dtype=float))
    return free


def fill_all(
    profile: FreeProfile, tasks: Sequence[Taker], how: int = LATE, is_late_served: bool = False
) -> Plans:
    plans = no_plans(len(tasks))
    assert profile.fill(columns(tasks), plans, np.arange(len(tasks)), how, is_late_served) == len(tasks)
    return plans


def free_at(profile: FreeProfile, at_s: float) -> int:
    starts_s, free = profile.steps
    return int(free[np.searchsorted(starts_s, at_s, side="right") - 1])


costs = st.sampled_from([0.0, 0.0, 0.3, 2.0])
curves = st.sampled_from(CURVES)


@st.composite
def some_tasks(
    draw: st.DrawFn, most: int = 7, longest_s: int = 30, num_devices: int = 0, bound: bool = False
) -> list[Taker]:
    """With `bound`, some are starting, on no more than `num_devices` devices."""
    tasks = []
    for _ in range(draw(st.integers(1, most))):
        curve, need = draw(curves), draw(st.integers(1, 3 * longest_s))
        held = draw(st.integers(-1, len(curve[0])))
        idle_s = draw(pick(0.0, 0.0, 1.0, 2.5)) if held != 0 else 0.0
        is_bound = bound and held > 0 and idle_s > 0.0 and curve[0][held - 1] <= num_devices
        if is_bound:
            num_devices -= curve[0][held - 1]
        tasks.append(
            Taker(
                curve,
                need=float(need),
                end_s=float(draw(st.integers(1, longest_s))),
                just=need * draw(pick(1.0, 0.9)),
                start_s=draw(costs),
                resize_s=draw(costs),
                held=held,
                idle_s=idle_s,
                is_bound=is_bound,
            )
        )
    return tasks
