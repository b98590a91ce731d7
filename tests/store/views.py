"""Views and events to store and to show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from swell.model.event import AnyEvent, JobProfiled, NodeJoined, StepsReported, Woke
from swell.model.job import JobClass, Phase, Profile
from swell.model.job_sums import OutcomeSums, device_s
from swell.model.node import Node
from swell.model.view import JobView
from swell.store.curves import CurvePoint, absorb
from swell.tally import tally_of

DEFAULTS: dict[str, Any] = {
    "id": "digits-1",
    "name": "digits",
    "job_class": JobClass.STRICT,
    "phase": Phase.RUNNING,
    "entry": "/home/ada/train.py",
    "args": ("--lr", "0.1"),
    "global_batch": 64,
    "min_workers": 1,
    "max_workers": 4,
    "devices_per_worker": 1,
    "submitted_s": 1_800_000_000.0,
    "deadline_s": 1_800_000_180.0,
    "is_promised": True,
    "counter_offer_s": None,
    "started_s": 1_800_000_004.0,
    "finished_s": None,
    "estimated_finish_s": 1_800_000_100.0,
    "kept": None,
    "workers": 2,
    "devices": ("paced0", "paced1"),
    "generation": 3,
    "sizes": ((1_800_000_004.0, 1), (1_800_000_020.0, 2)),
    "pids": (4001, 4002),
    "resizes": 1,
    "resize_pause_s": 0.21,
    "steps": 340,
    "total_steps": 1000,
    "step_s": 0.05,
    "loss": 0.31,
    "metrics": {"accuracy": 0.91},
    "reason_code": "promised",
    "reason": "2 workers keep its promise with 80 s to spare",
    "message": "",
}


def job_view(**changes: Any) -> JobView:
    return JobView(**(DEFAULTS | changes))


def report(steps: int, loss: float | None = 0.5) -> StepsReported:
    return StepsReported(
        at_s=1_800_000_000.0 + steps, job_id="digits-1", generation=1, steps=steps, num_workers=2, loss=loss
    )


def curve_report(job_id: str, first_step: int, values: Sequence[float], **changes: Any) -> StepsReported:
    """Of one value of the loss in each step."""
    tally = tally_of(enumerate(values, first_step), num_workers=2)
    assert tally is not None
    last_step = first_step + len(values) - 1
    told: dict[str, Any] = {
        "at_s": 1_800_000_000.0 + last_step,
        "generation": 1,
        "mark": last_step,
        "curves": {"loss": tally},
    }
    return StepsReported(job_id=job_id, steps=last_step, num_workers=2, **(told | changes))


def with_all(points: Iterable[CurvePoint], told: Iterable[CurvePoint]) -> list[CurvePoint]:
    """The curve after these reports, in their order."""
    curve = list(points)
    for point in told:
        absorb(curve, point)
    return curve


def outcome_of(view: JobView) -> OutcomeSums:
    """Outcome of one job that has ended."""
    return OutcomeSums(
        num_jobs=1,
        promises_kept=int(view.is_promised and view.kept is True),
        promises_missed=int(view.is_promised and view.kept is False),
        others_kept=int(not view.is_promised and view.kept is True),
        others_missed=int(not view.is_promised and view.kept is False),
        refused=int(view.phase is Phase.REJECTED),
        failed=int(view.phase is Phase.FAILED),
        device_s=device_s(view),
        resizes=view.resizes,
        pause_s=view.resize_pause_s,
        saved_s=view.resize_saved_s,
    )


def added_up(outcomes: Iterable[tuple[int, OutcomeSums]]) -> dict[int, OutcomeSums]:
    """Outcomes summed up for each period, by the period's number."""
    found: dict[int, OutcomeSums] = {}
    for number, outcome in outcomes:
        found[number] = found.get(number, OutcomeSums()) + outcome
    return found


PROFILE = Profile(
    device_kind="cpu",
    compute_s={16: 0.01, 32: 0.02},
    allreduce_s={1: 0.0, 2: 0.003},
    grad_bytes=4000,
    state_bytes=12000,
    samples_per_epoch=1797,
    start_s=0.4,
)
BATCHES: list[list[AnyEvent]] = [
    [NodeJoined(at_s=1.0, node=Node(name="here", devices=("cpu0", "cpu1"), kind="cpu"))],
    [JobProfiled(at_s=2.0, job_id="digits-1", profile=PROFILE), Woke(at_s=2.0)],
    [report(10, loss=math.inf)],
]
