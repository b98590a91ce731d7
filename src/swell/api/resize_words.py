"""What the resizes of a job cost and brought, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swell.model.view import JobView


def totals(view: JobView) -> str:
    """`3, took 0.21 s from training; growing saved 14 s`."""
    took = f"{view.resizes}, took {view.resize_pause_s:.2f} s from training"
    if not view.resize_saved_s:
        return took
    saved_s = view.resize_saved_s
    return f"{took}; growing {'saved' if saved_s >= 0 else 'cost'} {seconds(abs(saved_s))}"


def seconds(time_s: float | None, signed: bool = False) -> str:
    """Two digits at least: `0.12 s`, `7.3 s`, `143 s`; `+7.3 s` where it may be a loss."""
    if time_s is None:
        return "-"
    digits = 2 if abs(time_s) < 1 else 1 if abs(time_s) < 10 else 0
    return f"{time_s:{'+' if signed else ''}.{digits}f} s"
