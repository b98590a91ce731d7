"""What a job's story tells of estimates of its speed that were checked by a run, and are to be once more."""

from __future__ import annotations

from collections.abc import Sequence

from swell.model.counted import told_workers
from swell.model.throughput import CheckedEstimate, EstimateSource

#: Estimates from measurements of the same number of workers are told of if they were wrong by so much.
NOTABLE_SHARE = 0.1


def is_worth_telling(checked: CheckedEstimate) -> bool:
    """An estimate that was no measurement always is."""
    is_guess = checked.source in (EstimateSource.INTERPOLATED, EstimateSource.EXTRAPOLATED)
    return is_guess or abs(checked.error) >= NOTABLE_SHARE


def told_check(num_workers: int, checked: CheckedEstimate) -> str:
    """`with 8 workers a step takes 0.12 s, 14% more than extrapolated: ...`."""
    made_from = {
        EstimateSource.TRIAL: "measured in its trial run",
        EstimateSource.PARTS: "estimated from the step and the all-reduce that its trial run measured",
    }.get(checked.source, f"{checked.source}")
    share = round(100 * abs(checked.error))
    compared = f"{share}% {'more' if checked.error > 0 else 'less'} than" if share else "as"
    return (
        f"with {told_workers(num_workers)} a step takes {checked.step_s:.3g} s, {compared} {made_from}: "
        f"plans count on what was measured, with a margin of {checked.margin:.1%}"
    )


def told_doubt(num_workers: int, doubted: Sequence[int]) -> str:
    """`4 workers were no faster than 2 when they were last measured: ...`."""
    sizes = ", ".join(map(str, doubted))
    return (
        f"{sizes} workers were no faster than {num_workers} when they were last measured: "
        "plans count on their estimate once more, and may try them again"
    )
