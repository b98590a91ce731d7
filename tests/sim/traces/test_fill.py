"""What a trace lacks is filled by the stated rules, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import JobClass
from swell.sim.profiles.built_in import load
from swell.sim.profiles.curve import Curves, UnknownProfile, curve_of
from swell.sim.traces.entry import Trace, TraceError, TraceJob, Workload, WorkloadJob
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.read import read

#: `small` fits on 1 to 4 workers, `large` on 2 to 16.
PROFILES = Curves(
    "two",
    [
        curve_of("small", 32, {1: 1.0, 2: 1.8, 4: 3.0}),
        curve_of("small", 64, {1: 0.5, 2: 0.9, 4: 1.6}),
        curve_of("large", 128, {2: 1.0, 4: 1.9, 8: 3.5, 16: 3.0}),
    ],
)


def trace(*jobs: TraceJob) -> Trace:
    return Trace(jobs=jobs, format="plain", source="x")


def job(name: str = "a", **fields: object) -> TraceJob:
    return TraceJob(id=name, submit_s=100.0, **({"num_devices": 2, "duration_s": 1000.0} | fields))  # type: ignore[arg-type]


def only(workload: Workload) -> WorkloadJob:
    (found,) = workload.jobs
    return found


@st.composite
def jobs(draw: st.DrawFn) -> TraceJob:
    model, batch = draw(st.sampled_from([(None, None), ("small", None), ("small", 64), ("large", 128)]))
    return TraceJob(
        id=draw(st.text("abc", min_size=1, max_size=8)),
        submit_s=draw(st.floats(0, 1e6)),
        num_devices=draw(st.none() | st.integers(1, 64)),
        duration_s=draw(st.none() | st.floats(0.1, 1e6)),
        num_steps=draw(st.none() | st.floats(0.1, 1e6)),
        model=model,
        global_batch=batch,
        deadline_s=draw(st.none() | st.floats(0, 2e6)),
        is_best_effort=draw(st.none() | st.booleans()),
        is_soft=draw(st.none() | st.booleans()),
        status=draw(st.sampled_from([None, "completed", "killed", "failed"])),
        ended_after_s=draw(st.none() | st.floats(0, 1e6)),
    )


RULES = st.builds(
    FillRules,
    seed=st.integers(0, 2**32),
    deadlines=st.sampled_from(["missing", "all", "none"]),
    best_effort_share=st.floats(0, 1),
    soft_share=st.floats(0, 1),
    elastic_share=st.floats(0, 1),
    buggy_share=st.floats(0, 0.5),
    cancelled_share=st.floats(0, 0.5),
)


@given(given_jobs=st.lists(jobs(), max_size=8, unique_by=lambda entry: entry.id), rules=RULES)
def test_every_job_is_complete_or_named(given_jobs: list[TraceJob], rules: FillRules) -> None:
    workload = fill(trace(*given_jobs), PROFILES, rules)
    lost = [entry.id for entry in given_jobs if entry.duration_s is None and entry.num_steps is None]
    assert len(workload.dropped) == len(lost)
    assert "".join(workload.left_out()).partition(" (")[2].rstrip(".) ") == ", ".join(lost[:3])
    assert len(workload.jobs) + len(workload.dropped) == len(given_jobs)
    told = {entry.id: entry for entry in given_jobs}
    for found in workload.jobs:
        curve = PROFILES.curve(found.model, found.global_batch)
        assert curve.rate_at(found.num_devices) > 0
        assert found.num_steps >= 1
        assert (found.deadline_s is None) == (found.job_class is JobClass.BEST_EFFORT)
        assert found.dies_at_step is None or 1 <= found.dies_at_step <= found.num_steps
        assert found.cancel_s is None or found.cancel_s >= found.submit_s
        source = told[found.id]
        assert source.model in (None, found.model)
        assert source.duration_s in (None, found.duration_s)
        steps = source.num_steps
        if source.model is None and source.duration_s is not None:
            steps = source.duration_s * curve.rate_at(found.num_devices)  # the log's are no drawn model's
        assert steps is None or abs(steps - found.num_steps) <= 1
    assert fill(trace(*given_jobs), PROFILES, rules) == workload


def test_what_a_job_tells_is_kept_and_nothing_counts_as_filled() -> None:
    told = job(model="small", global_batch=32, num_steps=77, deadline_s=500.0)
    workload = fill(trace(told), PROFILES)
    found = only(workload)
    assert (found.num_steps, found.deadline_s, found.num_devices) == (77, 500.0, 2)
    assert workload.filled == ()
    assert msgspec.structs.asdict(found).items() >= msgspec.structs.asdict(told).items()


def test_iterations_are_duration_times_throughput_at_the_size_asked_for() -> None:
    workload = fill(trace(job(model="small", global_batch=32)), PROFILES)
    assert only(workload).num_steps == 1800
    assert workload.filled == (
        "1 job: deadline = submission + U[0.5, 1.5] x duration",
        "1 job: steps = duration x steps/s at the size asked for",
    )


def test_deadlines_are_uniform_between_half_and_one_and_a_half_durations() -> None:
    """ElasticFlow, section 6.1."""
    many = trace(*(job(str(at)) for at in range(4000)))
    shares = np.array([(found.deadline_s - 100.0) / 1000.0 for found in fill(many, PROFILES).jobs])  # type: ignore[operator]
    assert 0.5 <= shares.min() < 0.51
    assert 1.49 < shares.max() <= 1.5
    assert np.histogram(shares, 4, (0.5, 1.5))[0] == pytest.approx([1000] * 4, abs=100)


def test_models_are_drawn_among_those_measured_at_the_size_asked_for() -> None:
    def drawn(num_devices: int) -> set[tuple[str, int]]:
        many = trace(*(job(str(at), num_devices=num_devices) for at in range(200)))
        return {(found.model, found.global_batch) for found in fill(many, PROFILES).jobs}

    assert drawn(1) == {("small", 32), ("small", 64)}
    assert drawn(4) == {("small", 32), ("small", 64), ("large", 128)}
    assert drawn(8) == {("large", 128)}


def test_sizes_nobody_measured_are_moved_to_the_next_and_said() -> None:
    workload = fill(
        trace(
            job("many", num_devices=64, model="large", global_batch=128),
            job("few", num_devices=1, model="large", global_batch=128),
            job("none", num_devices=None, model="large", global_batch=128),
        ),
        PROFILES,
        FillRules(deadlines="none"),
    )
    assert [found.num_devices for found in workload.jobs] == [16, 2, 2]
    assert workload.filled[:3] == (
        "1 job: asked for fewer devices than its model fits on, set to the fewest it fits on",
        "1 job: asked for more devices than its model was measured on, set to the most measured",
        "1 job: devices asked for set to the fewest its model fits on",
    )


@given(num_steps=st.floats(1, 1e6), duration_s=st.floats(1, 1e6), seed=st.integers(0, 50))
def test_a_job_whose_model_is_drawn_keeps_its_duration(
    num_steps: float, duration_s: float, seed: int
) -> None:
    told = job(model="bert", global_batch=64, num_steps=num_steps, duration_s=duration_s)
    workload = fill(trace(told), PROFILES, FillRules(unknown="draw", seed=seed))
    found = only(workload)
    rate_per_s = PROFILES.curve(found.model, found.global_batch).rate_at(found.num_devices)
    assert found.duration_s == duration_s
    assert abs(found.num_steps - duration_s * rate_per_s) <= 1
    said = "1 job: steps of the log set aside, for its model was drawn: the logged duration is kept"
    assert said in workload.filled


def test_an_unknown_model_is_refused_drawn_or_dropped() -> None:
    unknown = trace(job("x", model="bert", global_batch=64))
    with pytest.raises(
        UnknownProfile, match="job 'x': profiles 'two' have no model 'bert'; they have large, small"
    ):
        fill(unknown, PROFILES)
    drawn = fill(unknown, PROFILES, FillRules(unknown="draw"))
    assert only(drawn).model in ("small", "large")
    assert "1 job: model or batch unknown to profiles 'two', drawn from them" in drawn.filled
    dropped = fill(unknown, PROFILES, FillRules(unknown="drop"))
    assert list(dropped.left_out()) == [
        "1 job: profiles 'two' have no model 'bert'; they have large, small (x)"
    ]
    with pytest.raises(UnknownProfile, match="have no global batch 99 of model 'small'; they have 32, 64"):
        fill(trace(job(model="small", global_batch=99)), PROFILES)


def test_a_job_whose_state_needs_several_devices_asks_for_so_many_at_least() -> None:
    made = fill(
        trace(
            job("a", model="small", min_devices=4),
            job("b", model="small", num_devices=4, min_devices=2),
            job("c", model="small", min_devices=8),
            job("d", num_devices=None, min_devices=16),
        ),
        PROFILES,
    )
    first, second, drawn = made.jobs
    assert (first.num_devices, second.num_devices) == (4, 4)
    assert (first.min_devices, second.min_devices) == (4, 2)
    assert (drawn.model, drawn.num_devices) == ("large", 16), "the only one that was measured there"
    assert [*made.dropped.values()] == ["its state needs more devices than its model was measured on"]


def test_bugs_and_cancellations_go_by_their_shares() -> None:
    """Hu et al., section 5.4: 15 % bugs within five minutes, 10 % given up at any time."""
    many = trace(*(job(str(at), duration_s=3000.0) for at in range(2000)))
    found = fill(many, PROFILES, FillRules(buggy_share=0.15, cancelled_share=0.1)).jobs
    buggy = [j for j in found if j.dies_at_step is not None]
    given_up = [j for j in found if j.cancel_s is not None]
    assert len(buggy) == pytest.approx(300, abs=50)
    assert len(given_up) == pytest.approx(200, abs=45)
    assert all(j.dies_at_step is not None and j.dies_at_step <= 0.1 * j.num_steps + 1 for j in buggy)
    assert all(j.cancel_s is not None and 100.0 <= j.cancel_s <= 3100.0 for j in given_up)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"soft_share": 1.5}, "--soft is 1.5; it must be between 0 and 1"),
        ({"buggy_share": 0.6, "cancelled_share": 0.6}, "more than 1 together"),
        ({"tightness": (1.5, 0.5)}, "tightness is 1.5:0.5; it must be LOW:HIGH"),
        ({"tightness": (float("nan"), 1.0)}, "tightness is"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        FillRules(**fields)  # type: ignore[arg-type]


def test_published_iterations_come_from_the_same_rule(data: Callable[[str], Path]) -> None:
    """So one can fill what the artifact filled: duration x throughput is what its traces say."""
    profiles = load(str(data("elasticflow/throughputs_A100")))
    workload = fill(read(data("elasticflow/traces/195job.csv")), profiles)
    assert workload.filled == ()
    for found in workload.jobs:
        rate_per_s = profiles.curve(found.model, found.global_batch).rate_at(found.num_devices)
        assert found.num_steps == pytest.approx(found.duration_s * rate_per_s, rel=1e-3)


@pytest.mark.slow
def test_all_of_philly_is_filled(data: Callable[[str], Path]) -> None:
    workload = fill(read(data("philly/philly.csv.gz")), load(str(data("elasticflow/throughputs_A100"))))
    assert (len(workload.jobs), len(workload.dropped)) == (111_539, 0)
    assert workload.filled[0] == (
        "11 jobs: asked for more devices than its model was measured on, set to the most measured"
    )


def test_a_range_of_batches_is_of_no_use_to_profiles_of_one_batch_a_job() -> None:
    ranged = job(model="small", global_batch=32, min_batch=16, max_batch=64)
    workload = fill(trace(ranged), PROFILES)
    assert only(workload).max_batch is None and only(workload).global_batch == 32
    assert any("range of batches is left out" in line for line in workload.filled)
    of_least = fill(trace(job(model="small", min_batch=32, max_batch=64)), PROFILES)
    assert only(of_least).global_batch == 32
