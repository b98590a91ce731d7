"""What a job's resizes cost and brought, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swell.cli.clock import Times
    from swell.model.resize import Resize
    from swell.model.view import JobView

HEADINGS = ("AT", "SIZE", "WAIT", "COST", "HELD", "GAIN", "HOPED", "VERDICT", "WHY")


def totals(view: JobView) -> str:
    """`3, took 0.21 s from training; growing saved 14 s`."""
    took = f"{view.resizes}, took {view.resize_pause_s:.2f} s from training"
    if not view.resize_saved_s:
        return took
    saved_s = view.resize_saved_s
    return f"{took}; growing {'saved' if saved_s >= 0 else 'cost'} {seconds(abs(saved_s))}"


def resize_row(resize: Resize, times: Times) -> tuple[str, ...]:
    """One line of `swell show`: cells of HEADINGS."""
    held = "-" if resize.wait_s is None else seconds(resize.held_s)
    return (
        times.clock(resize.at_s),
        f"{resize.before}->{resize.after}",
        seconds(resize.wait_s),
        seconds(resize.cost_s),
        f"{held}+" if resize.is_held else held,
        seconds(resize.gain_s, signed=True),
        seconds(resize.expected_gain_s, signed=True),
        resize.verdict,
        resize.reason_code,
    )


def seconds(time_s: float | None, signed: bool = False) -> str:
    """Two digits at least: `0.12 s`, `7.3 s`, `143 s`; `+7.3 s` where it may be a loss."""
    if time_s is None:
        return "-"
    digits = 2 if abs(time_s) < 1 else 1 if abs(time_s) < 10 else 0
    return f"{time_s:{'+' if signed else ''}.{digits}f} s"
