"""What a script takes for its batch, its end and its schedule, where the job says something else.

In a job the batch and the end come from what was submitted, and the script's own numbers are for a run by
itself. A schedule that was made for those numbers ends too early or too late, which shows at the end only.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from swell.wire.findings import ScriptFinding

#: A schedule that is longer than its job by no more than this share, or one step, is as long.
NEAR_SHARE = 0.01


#: Findings about the numbers of one job, which say nothing of another job of the same script.
OF_LENGTHS = frozenset({"job-differs", "schedule-length"})


class JobLength(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a job, or of its script; None: it does not name them."""

    batch: int  #: samples
    epochs: float | None
    steps: int | None
    schedules: list[tuple[str, int]] = []  #: of a script: each scheduler that has an end, and its steps


def differences(job: JobLength, script: JobLength, end: int | None) -> Iterator[ScriptFinding]:
    """Tell which numbers of a job differ from those that its script names.

    Args:
        end: steps of the job, however its end is told; None: not known.

    Raises:
        ValueError: a scheduler would be stepped beyond its end, which fails in the midst of the job.
    """
    pairs = {name: (getattr(job, name), getattr(script, name)) for name in ("batch", "epochs", "steps")}
    differ = {name: pair for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}
    if differ:
        told = ", ".join(f"{name} {given:g}, and the script {own:g}" for name, (given, own) in differ.items())
        text = f"the job says {told}; what was submitted counts"
        yield ScriptFinding(name="job-differs", text=text, holds=False)
    if end is None:
        return
    for name, total in script.schedules:
        text = (
            f"the scheduler, a {name}, is made for {total} steps, and the job has {end}, "
            f"of {job.batch} samples"
        )
        remedy = (
            f"make it with total_steps={end}, or submit the job with the batch and the end that it is for"
        )
        if total < end:
            raise ValueError(f"{text}: step {total + 1} would fail; {remedy}")
        if total - end > max(1, NEAR_SHARE * end):
            text = f"{text}: its last rates are never reached; {remedy}"
            yield ScriptFinding(name="schedule-length", text=text, holds=False)
