"""What fails at given rates, and workers that are lost so: the scheduler backs off, and no job is lost."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.worlds import job, run

from swell.core.backoff import MAX_SETBACKS
from swell.core.platform_core import PlatformCore
from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.sim.faults import MESSAGE, FaultRates, InjectedFaults, parse_fault_rates
from swell.sim.job import SimJob

RATES = {1: 1.0, 2: 1.9, 4: 3.6, 8: 6.4}


class Ears:
    """What the head tells of jobs, by job and code."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, str, str]] = []

    def __call__(self, core: PlatformCore) -> None:
        self.told += [(story.at_s, job_id, story.code, story.text) for job_id, story in core.stories()]

    def times_s(self, code: str) -> list[float]:
        return [at_s for at_s, _, told, _ in self.told if told == code]


def crowd() -> list[SimJob]:
    """Jobs that make each other grow, shrink and wait."""
    return [
        job(f"j{number}", submit_s=40.0 * number, steps=400, deadline_s=deadline_s, rates=RATES)
        for number, deadline_s in enumerate([None, 900.0, None, 1500.0, None, 1200.0])
    ]


def test_resizes_that_fail_are_tried_again_after_pauses_that_grow() -> None:
    """One job holds what it began with; the next one leaves the devices that it would grow to."""
    ears = Ears()
    jobs = [
        job("first", steps=60, rates={4: 4.0}),
        job("second", submit_s=1.0, steps=4000, rates={1: 1.0, 4: 4.0, 8: 8.0}),
    ]
    outcome = run(jobs, faults=InjectedFaults(FaultRates(resize=1.0)), listen=ears)
    assert [each.phase for each in outcome.jobs] == [Phase.SUCCEEDED] * 2
    assert not ears.times_s("resized")
    failed_s = ears.times_s("resize_failed")
    assert len(failed_s) >= 3
    pauses_s = [later - sooner for sooner, later in pairwise(failed_s)]
    assert pauses_s[0] < pauses_s[-1] and max(pauses_s) >= 60.0


def test_a_trial_run_that_is_lost_is_repeated_and_ten_losses_fail_the_job() -> None:
    ears = Ears()
    (lost,) = run([job("a")], faults=InjectedFaults(FaultRates(trial=1.0)), listen=ears).jobs
    assert lost.phase is Phase.FAILED and len(ears.times_s("trial_lost")) == MAX_SETBACKS - 1
    assert any(MESSAGE in text for _, _, _, text in ears.told)


def test_a_suspend_that_fails_leaves_its_job_training_and_keeps_its_progress() -> None:
    """The short job comes first by the policy, and waits until a suspend of the long one works."""
    ears, rates = Ears(), {8: 8.0}
    jobs = [job("long", steps=4000, rates=rates), job("short", submit_s=20.0, steps=80, rates=rates)]
    plain = run(jobs, "srtf")
    for seed in range(10):
        outcome = run(jobs, "srtf", faults=InjectedFaults(FaultRates(suspend=0.5), seed), listen=ears)
        long, short = outcome.jobs
        assert long.phase is short.phase is Phase.SUCCEEDED
        assert long.end_s == pytest.approx(plain.jobs[0].end_s, abs=1.0)
    assert len(ears.times_s("suspend_failed")) >= 3 and len(ears.times_s("suspended")) >= 10


def test_a_launch_that_is_lost_is_repeated_and_ten_losses_fail_the_job() -> None:
    ears = Ears()
    (lost,) = run([job("a")], faults=InjectedFaults(FaultRates(launch=1.0)), listen=ears).jobs
    assert lost.phase is Phase.FAILED and len(ears.times_s("requeued")) == MAX_SETBACKS - 1
    assert lost.why == MESSAGE and not ears.times_s("started")


def test_a_gang_that_loses_a_worker_in_a_resize_goes_on_with_those_that_are_left() -> None:
    """Each resize and each repair loses one, until none is left and the job begins at its checkpoint."""
    ears = Ears()
    jobs = [job("first", steps=60, rates={4: 4.0}), job("second", submit_s=1.0, steps=400, rates=RATES)]
    outcome = run(jobs, faults=InjectedFaults(FaultRates(loss=1.0)), listen=ears)
    assert [each.phase for each in outcome.jobs] == [Phase.SUCCEEDED] * 2
    _, second = outcome.jobs
    assert [workers for _, workers in second.sizes[:5]] == [4, 3, 2, 1, 0]
    assert len(ears.times_s("workers_lost")) >= 3 and not ears.times_s("resized")


def test_a_gang_that_loses_a_worker_in_a_suspend_is_saved_by_those_that_are_left() -> None:
    """The short job comes first by the policy."""
    ears, rates = Ears(), {8: 8.0}
    jobs = [job("long", steps=4000, rates=rates), job("short", submit_s=20.0, steps=80, rates=rates)]
    faults = InjectedFaults(FaultRates(loss=0.5), seed=0)
    long, short = run(jobs, "srtf", faults=faults, listen=ears).jobs
    assert long.phase is short.phase is Phase.SUCCEEDED
    assert len(ears.times_s("workers_lost")) == len(ears.times_s("suspended")) == 1
    assert long.end_s == pytest.approx(4080 / 8.0, abs=1.0), "no step is done twice"


def test_a_warning_is_told_with_each_start() -> None:
    ears = Ears()
    run([job("a")], faults=InjectedFaults(FaultRates(warning=1.0)), listen=ears)
    assert len(ears.times_s("warned")) == 1


@pytest.mark.slow
@settings(max_examples=fewer_if_quick(25), deadline=None)
@given(
    rates=st.builds(
        FaultRates,
        trial=st.floats(0, 0.4),
        launch=st.floats(0, 0.4),
        resize=st.floats(0, 1),
        loss=st.floats(0, 1),
        suspend=st.floats(0, 0.6),
        warning=st.floats(0, 1),
    ),
    seed=st.integers(0, 10),
    policy=st.sampled_from(["elasticflow", "srtf", "equal_share", "gandiva"]),
)
def test_every_job_ends_and_the_same_faults_have_the_same_outcome(
    rates: FaultRates, seed: int, policy: str
) -> None:
    first, second = (run(crowd(), policy, faults=InjectedFaults(rates, seed)) for _ in range(2))
    assert first.jobs == second.jobs
    for each in first.jobs:
        assert each.phase in (Phase.SUCCEEDED, Phase.REJECTED, Phase.FAILED)
        if each.phase is Phase.FAILED:
            assert each.why == MESSAGE


def test_rates_are_read_and_what_is_none_is_refused() -> None:
    assert parse_fault_rates("resize=0.1, trial=1") == FaultRates(resize=0.1, trial=1.0)
    assert parse_fault_rates("") == FaultRates()
    for text, part in (
        ("crash=1", "'crash' is not known; write NAME=SHARE with trial, launch"),
        ("resize", "'resize' has no number; write resize=0.1"),
        ("resize=2", "resize is 2.0; it must be within 0 and 1"),
        ("trial=nan", "trial is nan"),
    ):
        with pytest.raises(InvalidInput, match=part):
            parse_fault_rates(text)


def test_of_survivors_that_go_on_no_change_of_size_is_told() -> None:
    ears = Ears()
    run(crowd(), faults=InjectedFaults(FaultRates(loss=0.3)), listen=ears)
    texts = [text for _, _, code, text in ears.told if code == "resized"]
    assert any(text.startswith("goes on with 3 workers at step") for text in texts)
    assert any(text.startswith("went from") for text in texts)
    assert not any(re.match(r"went from (\d+) to \1 ", text) for text in texts)
