"""What a job's owner states of its speed and its changes, in a head."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.core.bench import Bench
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, profile, spec
from tests.core.head import Head

from swell.core.costs import CostTable
from swell.core.planner import Planner
from swell.core.record import JobRecord
from swell.model.job import JobSpec, Phase
from swell.model.snapshot import Snapshot
from swell.policies.registry import new_policy
from swell.sim.faults import NO_FAULTS
from swell.throughput.belief import FittedBelief

NAN = float("nan")


@pytest.mark.parametrize(
    ("measured_s", "profiled_s", "stated_s", "keeps", "expected_s"),
    [
        (NAN, None, 3.0, False, 3.0),
        (NAN, 9.0, 3.0, False, 3.0),
        (2.0, 9.0, 3.0, False, 2.0),
        (2.0, 9.0, 3.0, True, 3.0),
        (NAN, 9.0, None, False, 9.0),
        (2.0, None, None, True, 2.0),
        (2.0, 9.0, 0.0, True, 0.0),
    ],
)
def test_a_stated_pause_counts_until_one_was_measured_or_for_good(
    measured_s: float, profiled_s: float | None, stated_s: float | None, keeps: bool, expected_s: float
) -> None:
    job = spec(resize_up_s=stated_s, keeps_estimates=keeps)
    known = msgspec.structs.replace(profile(), growth_s=profiled_s)
    table = CostTable()
    if not math.isnan(measured_s):
        record = JobRecord(id="a", spec=job, submitted_s=0.0, profile=known)
        table.learn("growth", record, 2, measured_s, 0.0)
    assert table.expected_s("growth", job, known, 2) == pytest.approx(expected_s)


def seen_of(job: JobSpec, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """The last that the policy of a head saw, once the job had trained for a while on two devices."""
    seen, plan = list[Snapshot](), Planner.plan

    def noted(self: Planner, snapshot: Snapshot, *more: object, **named: object) -> object:
        seen.append(snapshot)
        return plan(self, snapshot, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Planner, "plan", noted)
    head = Head(
        lambda: core_of(new_policy("bftrainer", {"corrected": 1}), None, FittedBelief),
        DrivenWorld(0, NO_FAULTS),
    )
    head.world.join(node("n0", 2))
    head.submit("a", job)
    head.turn()
    head.run_until(lambda: head.phase("a") is Phase.RUNNING and head.job("a").steps > 50)
    head.submit("b", spec(10))
    head.turn()
    head.run_until(lambda: head.phase("b") is not Phase.QUEUED)
    assert head.job("a").speed == job.speed and head.job("a").resize_up_s == job.resize_up_s
    return next(view for view in reversed(seen) if "a" in view.row_of)


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [False, True])
def test_policies_see_what_is_stated(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stated speed that is wrong by far is corrected once the job has trained, or counts for good."""
    job = spec(4000, speed={1: 1e6, 2: 1.9e6}, resize_up_s=7.0, resize_down_s=4.0, keeps_estimates=keeps)
    view = seen_of(job, monkeypatch)
    row = view.row_of["a"]
    options = view.options
    rates = options.rate_per_s[options.starts[row] : options.starts[row + 1]] * view.samples_per_step[row]
    if keeps:
        assert (view.growth_cost_s[row], view.shrink_cost_s[row]) == (7.0, 4.0)
        assert rates == pytest.approx([1e6, 1.9e6])
    else:
        assert (rates < 1e6).all()


# ---------------------------------------------------------------- beside what was measured
def test_a_live_job_has_all_its_steps_at_the_measured_time_of_one_worker() -> None:
    bench = Bench()
    job = msgspec.structs.replace(spec(1000), estimate_s=50.0)
    bench.run("a", 2, job)
    step_s = profile().compute_s[job.global_batch]
    assert bench.job().estimate_s == 50.0
    assert bench.job().alone_s == pytest.approx(1000 * step_s)
