"""Laws of the belief."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import JobSpec, Profile
from swell.throughput.belief import FittedBelief
from swell.throughput.estimate_margins import (
    OTHER_SIZES,
    SAME_SIZE,
    TRIAL,
    class_of,
    kind_of,
)
from swell.throughput.learnt import MEMORY_S, RETRY_RATIO

SIZES = np.array([1, 2, 4, 8, 16], dtype=np.int64)
LONG = 100_000  #: steps in a report that leaves nothing of what was believed before
RETRY_S = RETRY_RATIO * MEMORY_S  #: after which what such a report has measured is doubted


def spec(global_batch: int = 64, min_workers: int = 1, max_workers: int | None = None) -> JobSpec:
    return JobSpec(
        name="j",
        entry="/j.py",
        workdir="/",
        global_batch=global_batch,
        min_workers=min_workers,
        max_workers=max_workers,
    )


def profile(compute_s: dict[int, float], allreduce_s: dict[int, float]) -> Profile:
    return Profile(
        device_kind="cpu",
        compute_s=compute_s,
        allreduce_s=allreduce_s,
        grad_bytes=1,
        state_bytes=1,
        samples_per_epoch=100,
        start_s=1.0,
    )


def belief_of(
    compute_s: dict[int, float], allreduce_s: dict[int, float], job: JobSpec | None = None
) -> FittedBelief:
    belief = FittedBelief()
    belief.learn_profile("j", job or spec(), profile(compute_s, allreduce_s))
    return belief


def steady(belief: FittedBelief, job_id: str, workers: int, step_s: float, times: int = 3) -> None:
    for _ in range(times):
        belief.learn_rate(job_id, workers, step_s, LONG)


def test_between_and_beyond_measured_points_the_laws_are_linear() -> None:
    belief = belief_of({64: 1.0, 16: 0.4}, {2: 0.1, 4: 0.15})
    step_s = 1 / belief.of("j").rates_per_s(SIZES)
    # compute: 0.2 + 0.0125 b; all-reduce: 0.05 + 0.05 log2 w
    assert step_s == pytest.approx([1.0, 0.6 + 0.1, 0.4 + 0.15, 0.3 + 0.2, 0.25 + 0.25])


def test_a_profile_without_step_times_is_refused() -> None:
    with pytest.raises(ValueError, match="no step time"):
        belief_of({}, {})


@given(
    intercept_s=st.floats(0, 1),
    slope_s=st.floats(1e-4, 0.1),
    latency_s=st.floats(0, 0.2),
    growth_s=st.floats(0, 0.2),
    global_batch=st.integers(1, 200),
    measured=st.sets(st.sampled_from([1, 2, 3, 8, 20, 64, 130]), min_size=2),
)
def test_more_workers_never_cost_less_device_time(
    intercept_s: float,
    slope_s: float,
    latency_s: float,
    growth_s: float,
    global_batch: int,
    measured: set[int],
) -> None:
    belief = belief_of(
        {batch: intercept_s + slope_s * batch for batch in measured},
        {2: latency_s + growth_s, 4: latency_s + 2 * growth_s},
        spec(global_batch),
    )
    rates = belief.of("j").rates_per_s(SIZES)
    allowed = rates > 0
    device_s = SIZES[allowed] / rates[allowed]
    assert (np.diff(device_s) >= -1e-9).all()


@given(factor=st.floats(0.2, 5.0), num_reports=st.integers(1, 12))
def test_learning_ends_at_the_truth_and_carries_to_other_sizes(factor: float, num_reports: int) -> None:
    compute_s, allreduce_s = {64: 1.0, 32: 0.5, 16: 0.25}, {2: 0.1, 4: 0.2}
    belief = belief_of(compute_s, allreduce_s)
    before = belief.of("j").rates_per_s(SIZES)
    steady(belief, "j", 2, 0.6 * factor, num_reports)
    assert belief.of("j").rates_per_s(SIZES) == pytest.approx(before / factor)


@given(step_s=st.floats(0.01, 0.5), pause_s=st.floats(0.0, 2.0), steps_an_epoch=st.integers(5, 20))
def test_what_a_job_does_between_its_steps_counts_with_its_share_of_the_time(
    step_s: float, pause_s: float, steps_an_epoch: int
) -> None:
    """An evaluation after each epoch is in no step, and in every hour."""
    belief = belief_of({64: step_s}, {})
    for _ in range(1 + int(200 / (steps_an_epoch * step_s))):
        belief.learn_rate("j", 1, step_s, steps_an_epoch - 1)
        belief.learn_rate("j", 1, step_s + pause_s, 1)
    true_s = step_s + pause_s / steps_an_epoch
    cycle_s = steps_an_epoch * true_s
    assert 1 / belief.of("j").rates_per_s(SIZES[:1])[0] == pytest.approx(true_s, rel=0.05 + cycle_s / 10)


@given(
    slower=st.floats(0.2, 5.0), stretches_s=st.lists(st.floats(1.0, 2.0 * RETRY_S), min_size=1, max_size=20)
)
def test_a_larger_size_is_forgotten_only_if_it_was_no_faster_and_ever_more_seldom(
    slower: float, stretches_s: list[float]
) -> None:
    """Four workers take `slower` times as long as two, and are measured again when that is forgotten."""
    belief, four = belief_of({64: 1.0, 32: 0.5, 16: 0.25}, {}), np.array([4])
    steady(belief, "j", 2, 0.5)
    estimate_per_s = belief.of("j").rates_per_s(four)
    doubted_s, num_forgotten = 0.0, 0
    for elapsed_s in stretches_s:
        if not doubted_s:
            steady(belief, "j", 4, 0.5 * slower)
        is_no_faster = bool((belief.of("j").rates_per_s(np.array([4, 2])) @ [1.0, -1.0]) <= 0.0)
        doubted_s += elapsed_s if is_no_faster else 0.0
        forgotten = belief.of("j").doubt_larger(2, elapsed_s, None, 1)
        assert forgotten == ((4,) if is_no_faster and doubted_s >= RETRY_S * 2.0**num_forgotten else ())
        if forgotten:
            doubted_s, num_forgotten = 0.0, num_forgotten + 1
            assert belief.of("j").rates_per_s(four) == pytest.approx(estimate_per_s)
            assert belief.of("j").margin_classes(four) == class_of(kind_of("/j.py"), OTHER_SIZES)
        again = FittedBelief()
        again.restore(belief.state())
        belief = again


def margins_of(belief: FittedBelief, job_id: str = "j") -> list[float]:
    """At each size."""
    shares: list[float] = belief.margins[belief.of(job_id).margin_classes(SIZES)].tolist()
    return shares


def test_a_size_has_the_margin_of_what_is_known_of_it() -> None:
    """A trial run alone; other sizes of the same job; this very size."""
    belief = belief_of({64: 1.0}, {})
    assert belief.of("j").margin_classes(SIZES).tolist() == [class_of(kind_of("/j.py"), TRIAL)] * 5
    belief.learn_rate("j", 2, 1.0, 1)
    kind = kind_of("/j.py")
    assert belief.of("j").margin_classes(SIZES).tolist() == [class_of(kind, OTHER_SIZES)] * 5
    steady(belief, "j", 2, 1.0)
    other, same = class_of(kind, OTHER_SIZES), class_of(kind, SAME_SIZE)
    assert belief.of("j").margin_classes(SIZES).tolist() == [other, same, other, other, other]
    on_two = np.full(5, 2)
    assert belief.of("j").margin_classes(SIZES, on_two).tolist() == [other] * 5


@given(st.lists(st.floats(0.25, 0.5), max_size=40) | st.lists(st.floats(-0.5, 0.0), min_size=11, max_size=40))
def test_margins_are_learnt_from_how_wrong_estimates_of_other_jobs_were(errors: list[float]) -> None:
    """Estimates that were too slow count as right."""
    belief = FittedBelief()
    for number, error in enumerate(errors):
        belief.learn_profile(str(number), spec(), profile({64: 1.0}, {}))
        steady(belief, str(number), 1, float(np.exp(error)))
        belief.forget(str(number))
    belief.learn_profile("j", spec(), profile({64: 1.0}, {}))
    first = margins_of(FittedBelief())[0]
    if errors and min(errors) > 0.2:
        assert margins_of(belief)[0] > first
    elif errors:
        assert margins_of(belief)[0] < first


@given(
    st.lists(
        st.tuples(st.sampled_from("ab?"), st.sampled_from([1, 2, 4]), st.floats(0.01, 9), st.integers(1, 9)),
        max_size=25,
    )
)
def test_state_survives_json_and_goes_on_the_same(reports: list[tuple[str, int, float, int]]) -> None:
    first = FittedBelief()
    for job_id in "ab":
        first.learn_profile(job_id, spec(max_workers=4), profile({64: 1.0, 32: 0.6}, {2: 0.1}))
    half = len(reports) // 2
    for report in reports[:half]:
        first.learn_rate(*report)
    second = FittedBelief()
    second.restore(first.state())
    for report in reports[half:]:
        first.learn_rate(*report)
        second.learn_rate(*report)
    assert second.state() == first.state()
    assert second.margins.tolist() == first.margins.tolist()
    for job_id in "ab?":
        assert second.of(job_id).rates_per_s(SIZES).tolist() == first.of(job_id).rates_per_s(SIZES).tolist()


@pytest.mark.slow
@given(
    st.dictionaries(st.integers(1, 64), st.floats(0.01, 2.0), min_size=1, max_size=6),
    st.integers(1, 100),
    st.integers(1, 5),
)
def test_what_does_not_fit_takes_passes_of_what_does(
    compute_s: dict[int, float], room: int, num_passes: int
) -> None:
    def step_s(batch: int, bound: int | None, measured: dict[int, float]) -> float:
        known = msgspec.structs.replace(profile(measured, {}), max_local_batch=bound)
        belief = FittedBelief()
        belief.learn_profile("j", spec(batch), known)
        return float(1 / belief.of("j").rates_per_s(np.array([1]))[0])

    room = max(room, min(compute_s))
    fitting = {batch: time_s for batch, time_s in compute_s.items() if batch <= room}
    for batch in range(1, room + 1):
        assert step_s(batch, room, fitting) == step_s(batch, None, fitting)
    for one_pass in {room, max(1, room - 1)}:
        batch = num_passes * one_pass
        if -(-batch // room) == num_passes:
            expected_s = num_passes * step_s(one_pass, None, fitting)
            assert step_s(batch, room, fitting) == pytest.approx(expected_s)
    batch = (num_passes + 1) * room
    assert step_s(batch, room, {**fitting, batch: 7.0}) == pytest.approx(7.0), "it was measured"
    assert step_s(2 * batch, room, {batch: 7.0}) == pytest.approx(14.0), "nothing that fits was"


learnt = st.tuples(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([64, 128, 256]),
    st.sampled_from([1, 2]),
    st.floats(0.05, 5.0),
)
