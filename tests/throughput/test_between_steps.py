"""Laws of the time between epochs: it comes once an epoch, at every size, on top of what steps take."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import BatchProfile, EndCondition, JobSpec, Profile
from swell.script_facts import BetweenSteps
from swell.throughput.belief import FittedBelief

SIZES = np.array([1, 2, 4, 8], dtype=np.int64)
BATCH = 64
MEASURED = Profile(
    device_kind="cpu",
    compute_s={64: 1.0, 32: 0.6, 16: 0.35, 8: 0.2},
    allreduce_s={2: 0.05, 4: 0.08, 8: 0.1},
    grad_bytes=1,
    state_bytes=1,
    samples_per_epoch=640,
    start_s=0.0,
)
STEP_S = np.array([1.0, 0.65, 0.43, 0.3])
between_steps = st.builds(
    BetweenSteps, time_s=st.floats(0.0, 60.0), num_steps=st.integers(1, 10_000), num_epochs=st.just(1)
)


def spec(**changes: object) -> JobSpec:
    return msgspec.structs.replace(
        JobSpec(name="j", entry="/job.py", workdir="/", global_batch=BATCH), **changes
    )


def believing(between: BetweenSteps | None, job: JobSpec | None = None) -> FittedBelief:
    belief = FittedBelief()
    belief.learn_profile("j", job or spec(), msgspec.structs.replace(MEASURED, between=between))
    return belief


def step_s(belief: FittedBelief) -> np.ndarray:
    return 1.0 / belief.of("j").rates_per_s(SIZES)


@given(between=between_steps)
def test_each_step_bears_its_part_of_an_epochs_end_at_every_size(between: BetweenSteps) -> None:
    assert step_s(believing(between)) == pytest.approx(STEP_S + between.time_s / between.num_steps)


@given(trial=st.none() | between_steps, run=between_steps, again=between_steps)
def test_what_a_run_shows_takes_the_place_of_the_trials(
    trial: BetweenSteps | None, run: BetweenSteps, again: BetweenSteps
) -> None:
    belief = believing(trial)
    belief.of("j").learn_between(run)
    assert step_s(belief) == pytest.approx(STEP_S + run.per_step_s, rel=1e-6)
    belief.learn_profile("j", spec(), msgspec.structs.replace(MEASURED, between=again))
    assert step_s(belief) == pytest.approx(STEP_S + run.per_step_s, rel=1e-6)
    saved = FittedBelief()
    saved.restore(belief.state())
    assert step_s(saved).tolist() == step_s(belief).tolist()


@pytest.mark.parametrize("is_told_by_batch", [False, True])
def test_an_open_batch_bears_it_at_whichever_batch(is_told_by_batch: bool) -> None:
    table = {
        batch: {size: batch / 64 / size + 0.2 for size in SIZES.tolist()} for batch in (32, 64, 128, 256)
    }
    batches = BatchProfile(step_s=table) if is_told_by_batch else None
    job = spec(min_batch=32, max_batch=256)
    profile = msgspec.structs.replace(MEASURED, batches=batches)
    plain, waiting = FittedBelief(), FittedBelief()
    plain.learn_profile("j", job, profile)
    waiting.learn_profile("j", job, profile)
    assert waiting.of("j").best_batches(SIZES, BATCH) is not None  # so that what is kept must be given up
    waiting.of("j").learn_between(BetweenSteps(time_s=3.0, num_steps=30))
    for batch in (32, 64, 128, 256):
        rates, before = (belief.of("j").rates_at_batch(SIZES, batch) for belief in (waiting, plain))
        assert rates is not None and before is not None
        assert 1.0 / rates == pytest.approx(1.0 / before + 0.1)
    best, best_before = (belief.of("j").best_batches(SIZES, BATCH) for belief in (waiting, plain))
    assert best is not None and best_before is not None
    assert best[1].tolist() == best_before[1].tolist()
    assert 1.0 / best[0] == pytest.approx(1.0 / best_before[0] + 0.1)


def test_what_follows_the_last_step_is_shared_out_among_all() -> None:
    profile = msgspec.structs.replace(MEASURED, between=BetweenSteps(time_s=4.0, num_steps=10), end_s=5.0)
    belief = FittedBelief()
    belief.learn_profile("j", spec(end=EndCondition(steps=50)), profile)
    assert step_s(belief) == pytest.approx(STEP_S + 0.4 + 0.1)
    belief.of("j").learn_between(BetweenSteps(time_s=2.0, num_steps=10))
    assert step_s(belief) == pytest.approx(STEP_S + 0.2 + 0.1)
    belief.learn_profile("j", spec(end=EndCondition()), profile)  # of unknown length
    assert step_s(belief) == pytest.approx(STEP_S + 0.2)
