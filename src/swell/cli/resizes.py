"""What a job's resizes cost and brought, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.api.job_words import kept_for, told_span, told_verdict

if TYPE_CHECKING:
    from swell.cli.clock import Times
    from swell.model.resize import Resize

HEADINGS = ("AT", "SIZE", "WAIT", "COST", "KEPT", "GAIN", "EXPECTED", "RESULT", "WHY")


def resize_row(resize: Resize, times: Times) -> tuple[str, ...]:
    """One line of `swell show`: cells of HEADINGS."""
    return (
        times.clock(resize.at_s),
        f"{resize.before}->{resize.after}",
        told_span(resize.wait_s),
        told_span(resize.cost_s),
        kept_for(resize, " so far"),
        told_span(resize.gain_s, signed=True),
        told_span(resize.expected_gain_s, signed=True),
        told_verdict(resize.verdict),
        resize.reason_code,
    )
