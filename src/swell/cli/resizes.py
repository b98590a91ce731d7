"""What a job's resizes cost and brought, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.api.job_words import held, seconds

if TYPE_CHECKING:
    from swell.cli.clock import Times
    from swell.model.resize import Resize

HEADINGS = ("AT", "SIZE", "WAIT", "COST", "HELD", "GAIN", "HOPED", "VERDICT", "WHY")


def resize_row(resize: Resize, times: Times) -> tuple[str, ...]:
    """One line of `swell show`: cells of HEADINGS."""
    return (
        times.clock(resize.at_s),
        f"{resize.before}->{resize.after}",
        seconds(resize.wait_s),
        seconds(resize.cost_s),
        held(resize, "+"),
        seconds(resize.gain_s, signed=True),
        seconds(resize.expected_gain_s, signed=True),
        resize.verdict,
        resize.reason_code,
    )
