"""Which local batches a trial run measures, and what follows where memory runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import hear_exited, hear_said, make_spec, make_stage

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY
from swell.executors.gang.host_messages import Effect, TellWorker, WorkerOrder
from swell.executors.gang.trial_controller import QueuedTrial, Trial
from swell.executors.gang.trial_plan import ALONE, MOST_OF_RANGE, GroupTimes, local_batches
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, Outcome, ProfilingFailed
from swell.model.job import JobSpec, Profile
from swell.wire.messages import FromWorker, Hello, Profiled, Ready, Welcome

TIMES = GroupTimes(allreduce_s={size: {1000: 0.1} for size in (2, 4, 8)})


class Tries:
    """The script's own runs of one trial: a worker for each, the next with what the one before has shown."""

    def __init__(self, sizes: Sequence[int] = (1, 2, 4, 8), **changes: Any) -> None:
        job = make_stage(**changes)
        command = ProfileJob(job_id="digits-1", spec=job.spec, sizes=tuple(sizes), device_kind="cpu")
        self.trial = Trial(job, QueuedTrial(command), 8, TIMES)
        self.worker, self.now_s = -1, 0.0
        self.trial.begin_part(ALONE, ["node0/0"], 0.0)
        self.begin()

    def begin(self) -> None:
        """The next worker says hello, and what it trains."""
        self.worker += 1
        (effect,) = self.say(Hello(token="", worker=self.worker, pid=1))
        assert isinstance(effect, TellWorker) and isinstance(effect.message, Welcome)
        self.welcome = effect.message
        self.say(Ready())

    def say(self, message: FromWorker) -> list[Effect]:
        self.now_s += 1.0
        return hear_said(self.trial, self.worker, message, self.now_s)

    def end(self, message: FromWorker | None, status: int) -> None:
        """The worker ends; another begins if the trial goes on."""
        if message is not None:
            self.say(message)
        effects = hear_exited(self.trial, self.worker, status, "", self.now_s)
        self.told = [effect for effect in effects if not isinstance(effect, WorkerOrder)]
        if not self.trial.is_over:
            self.begin()

    @property
    def profile(self) -> Profile:
        (event,) = self.told
        assert isinstance(event, JobProfiled)
        return event.profile

    @property
    def failure(self) -> ProfilingFailed:
        (event,) = self.told
        assert isinstance(event, ProfilingFailed)
        return event

    def measure(self) -> None:
        compute_s = dict.fromkeys(self.welcome.local_batches, 0.1)
        self.end(Profiled(compute_s=compute_s, grad_bytes=4, state_bytes=8, samples_per_epoch=512), 0)


@pytest.mark.parametrize("status", [OUT_OF_MEMORY, OVER_MEMORY])
def test_a_trial_that_is_killed_again_without_its_comparison_has_too_little_memory(status: int) -> None:
    tries = Tries(sizes=(1, 2))
    assert tries.welcome.compares
    tries.end(None, status)
    assert not tries.welcome.compares
    tries.end(None, status)
    assert tries.failure.outcome is Outcome.LOST, "others may have had the memory"
    assert "worker 1 was killed" in tries.failure.message


def test_a_trial_that_lacks_memory_comes_again_without_its_comparison() -> None:
    tries = Tries()
    tries.end(None, OUT_OF_MEMORY)
    assert not tries.welcome.compares
    tries.measure()
    assert [finding.name for finding in tries.profile.findings or ()] == ["not-compared"]


# ---------------------------------------------------------------- local batches
sizes = st.sets(st.sampled_from([1, 2, 4, 8, 16]), min_size=1).map(sorted)


def job(
    own: int, least: int | None = None, most: int | None = None, per_worker: int | None = None
) -> JobSpec:
    return make_spec(global_batch=own, min_batch=least, max_batch=most, batch_per_worker=per_worker)


def test_a_batch_for_each_worker_is_one_point() -> None:
    assert local_batches(job(32, per_worker=48), (1, 2, 4), None) == (48,)


def test_an_open_batch_is_measured_over_its_range() -> None:
    assert local_batches(job(64, 32, 512), (1, 2, 4), None) == (8, 16, 32, 64, 128, 256, 512)


@given(
    least=st.integers(1, 10_000),
    more=st.integers(1, 100_000),
    share=st.floats(0.0, 1.0),
    sizes=sizes,
    bound=st.none() | st.integers(1, 1000),
)
def test_parts_of_an_open_batch_cover_what_fits(
    least: int, more: int, share: float, sizes: list[int], bound: int | None
) -> None:
    most = least + more
    own = least + round(share * more)
    batches = local_batches(job(own, least, most), sizes, bound)
    parts_of_own = {math.ceil(own / size) for size in sizes}
    assert list(batches) == sorted(set(batches)) and batches[0] >= 1
    assert parts_of_own <= set(batches) and len(batches) <= MOST_OF_RANGE + 2 + len(sizes)
    low, high = math.ceil(least / max(sizes)), math.ceil(most / min(sizes))
    assert low in batches and max(batches) <= high
    if bound is None:
        assert high in batches
    else:
        assert all(batch <= max(bound, low) for batch in set(batches) - parts_of_own)
