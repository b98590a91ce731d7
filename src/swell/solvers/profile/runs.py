"""Runs: how much of what a taker could use is free, from when on."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import part
from swell.solvers.profile.segments import FreeSegments

MOST_RUNS = 512  #: stretches of one free level that are told apart; behind them the least that is free counts
FAR_S = 1e9  #: as good as never


@part
def write_runs(
    profile: FreeSegments, until_s: float, devices: IntArray, starts_s: FloatArray, fits: IntArray
) -> int:
    """Write from when on which level is the highest that fits, until then; returns how many there are."""
    num, most = 0, devices[len(devices) - 1]
    for position in range(profile.num_blocks[0]):
        block = profile.order[position]
        if profile.starts_s[block, 0] >= until_s:
            break
        is_all, is_none = profile.least[block] >= most, profile.most[block] < devices[0]
        for segment in range(1 if is_all or is_none else profile.used[block]):
            start_s = profile.starts_s[block, segment]
            if start_s >= until_s:
                break
            if is_all or is_none:
                fit = len(devices) if is_all else 0
            else:
                fit = _fitting(len(devices), profile.free[block, segment], devices)
            if num > 0 and fits[num - 1] == fit:
                continue
            if num == MOST_RUNS:
                fits[num - 1] = min(fits[num - 1], fit)
                continue
            starts_s[num], fits[num] = start_s, fit
            num += 1
    return num


@part
def _fitting(level: int, free: int, devices: IntArray) -> int:
    """The highest level up to `level` that so many devices are enough for."""
    while level > 0 and devices[level - 1] > free:
        level -= 1
    return level


@part
def coarsen(
    rates: FloatArray, until_s: float, starts_s: FloatArray, fits: IntArray, num: int, most: int
) -> int:
    """The same with fewer runs: neighbours become one of what is free in both, where that loses least."""
    if num <= most:
        return num
    losses = np.empty(num)
    for run in range(num - 1):
        losses[run] = _loss(rates, until_s, starts_s, fits, num, run)
    while num > most:
        best = int(np.argmin(losses[: num - 1]))
        fits[best] = min(fits[best], fits[best + 1])
        for run in range(best + 1, num - 1):
            starts_s[run], fits[run], losses[run] = starts_s[run + 1], fits[run + 1], losses[run + 1]
        num -= 1
        for run in range(max(best, 1) - 1, min(best + 1, num - 1)):
            losses[run] = _loss(rates, until_s, starts_s, fits, num, run)
    return num


@part
def _loss(
    rates: FloatArray, until_s: float, starts_s: FloatArray, fits: IntArray, num: int, run: int
) -> float:
    """Work that is lost if a run and the next one become one."""
    fit, middle_s = min(fits[run], fits[run + 1]), starts_s[run + 1]
    rate = rates[fit - 1] if fit > 0 else 0.0
    if fits[run] > fit:
        return (rates[fits[run] - 1] - rate) * (middle_s - starts_s[run])  # type: ignore[no-any-return]
    if fits[run + 1] > fit:
        end_s = min(starts_s[run + 2] if run + 2 < num else until_s, FAR_S)
        return (rates[fits[run + 1] - 1] - rate) * max(end_s - middle_s, 0.0)  # type: ignore[no-any-return]
    return 0.0


@part
def bind(idle_s: float, starts_s: FloatArray, fits: IntArray, num: int) -> int:
    """The same with one run until `idle_s`, of what is free all the while; returns how many there are."""
    last = 0
    while last + 1 < num and starts_s[last + 1] < idle_s:
        last += 1
        fits[0] = min(fits[0], fits[last])
    if last == 0:
        return num
    starts_s[1], fits[1] = idle_s, fits[last]
    for run in range(last + 1, num):
        starts_s[run - last + 1], fits[run - last + 1] = starts_s[run], fits[run]
    return num - last + 1
