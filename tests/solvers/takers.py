"""Takers in one line each, for the solvers' tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swell.solvers.filling import FreeProfile, no_plans
from swell.solvers.profile import Plans, Takers

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
    curve: tuple[Sequence[int], Sequence[float]]
    need: float
    end_s: float

    @property
    def devices(self) -> np.ndarray:
        return np.array(self.curve[0], dtype=np.int64)

    @property
    def rates(self) -> np.ndarray:
        return np.array(self.curve[1], dtype=float)


def columns(tasks: Sequence[Taker]) -> Takers:
    """Each taker has one try: to be done in time. Those whom it fails are served early, if anybody is."""
    num_levels = np.array([len(task.devices) for task in tasks], dtype=np.int64)
    devices = np.zeros((len(tasks), max(num_levels, default=1)), dtype=np.int64)
    rates = np.zeros(devices.shape)
    for row, task in enumerate(tasks):
        devices[row, : num_levels[row]], rates[row, : num_levels[row]] = task.devices, task.rates
    need = np.array([task.need for task in tasks], dtype=float)
    ends_s = np.array([task.end_s for task in tasks], dtype=float)
    return Takers(
        devices=devices,
        rates=rates,
        num_levels=num_levels,
        work=need[:, None],
        ends_s=ends_s[:, None],
        grades=np.array([0, 1]),
        is_at_once=np.array([False]),
        is_early=np.array([False]),
        held=np.zeros(len(tasks), dtype=np.int64),
        stop_s=np.zeros(len(tasks)),
        shrink_s=np.zeros(len(tasks)),
        easy_s=ends_s,
        left=need,
    )


def fill_all(
    profile: FreeProfile, tasks: Sequence[Taker], hold_s: float = 0.0, is_late_served: bool = False
) -> Plans:
    plans = no_plans(len(tasks))
    rows = np.arange(len(tasks))
    assert profile.fill(columns(tasks), plans, rows, hold_s, is_late_served) == len(tasks)
    return plans


def free_at(profile: FreeProfile, at_s: float) -> int:
    starts_s, free = steps_of(profile)
    return int(free[np.searchsorted(starts_s, at_s, side="right") - 1])


def steps_of(profile: FreeProfile) -> tuple[np.ndarray, np.ndarray]:
    """(S,) starts of segments, and what is free in each."""
    of = profile.columns
    blocks = of.order[: of.num_blocks[0]]
    starts_s = np.concatenate([of.starts_s[block, : of.used[block]] for block in blocks])
    free = np.concatenate([of.free[block, : of.used[block]] for block in blocks])
    return starts_s, free


def taken(before: FreeProfile, after: FreeProfile) -> tuple[np.ndarray, np.ndarray]:
    """(Q,) starts of stretches, and how much was taken in each; the last one has no end."""
    starts_s = np.union1d(steps_of(before)[0], steps_of(after)[0])
    return starts_s, np.array([free_at(before, at_s) - free_at(after, at_s) for at_s in starts_s])
