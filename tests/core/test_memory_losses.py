"""A job that its memory limit ends again and again, and that gets no further, has failed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.bench import Bench, only
from tests.core.fakes import spec
from tests.examples import share_of_examples

from swell.core.setbacks import LONGEST_BACK_OFF_S, MAX_SETBACKS
from swell.model.command import AnyCommand, LaunchGang
from swell.model.event import GangEnded, Outcome, Woke
from swell.model.job import JobSpec, Phase

LIMITED = spec(10_000, memory_bytes=2_000_000_000)


class Losses(Bench):
    """One job, whose gangs train and are lost, one after the other."""

    def __init__(self, job: JobSpec = LIMITED) -> None:
        super().__init__()
        self.saved = 0
        self.generation = self.run("a", job=job)

    def lose(self, saves: int = 0, is_over_memory: bool = True, num_steps: int = 50) -> float:
        """It finishes steps, of which some are saved, and is lost; the next gang starts, if there is one.

        Returns for how long it was to wait until then.
        """
        if num_steps:
            self.reported(self.generation, self.saved + num_steps)
        self.saved += saves
        end = GangEnded(
            at_s=self.now_s,
            job_id="a",
            generation=self.generation,
            outcome=Outcome.LOST,
            steps=self.saved,
            message="worker 0 was killed",
            is_over_memory=is_over_memory,
        )
        launches = self.say(end)
        if self.phase().is_end:
            return 0.0
        wait_s = (self.job().retry_s or end.at_s) - end.at_s
        self.generation = only(launches or self.wait(), LaunchGang).generation
        self.started(self.generation, steps=self.saved)
        return wait_s

    def wait(self) -> list[AnyCommand]:
        """Longer than any back-off."""
        self.now_s += LONGEST_BACK_OFF_S + 1.0
        return self.say(Woke(at_s=self.now_s))


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.15))
@given(others=st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_losses_of_other_causes_never_fail_a_job_that_makes_steps(others: list[int]) -> None:
    """However many there are, also between those by the limit."""
    losses = Losses()
    for num in others:
        losses.lose(saves=1)
        for _ in range(num):
            losses.lose(is_over_memory=False)
    assert losses.phase() is Phase.RUNNING


@pytest.mark.slow
@given(lives=st.lists(st.integers(0, 3), max_size=60))
def test_the_limit_fails_a_job_once_so_many_gangs_in_a_row_have_saved_nothing_new(lives: list[int]) -> None:
    losses, num = Losses(), 0
    for saves in lives:
        losses.lose(saves)
        num = 1 if saves else num + 1
        assert (losses.phase() is Phase.FAILED) == (num == MAX_SETBACKS)
        if num == MAX_SETBACKS:
            return


@pytest.mark.parametrize("num_steps", [0, 50])
def test_the_failure_names_the_limit_the_rule_and_the_remedy(num_steps: int) -> None:
    losses = Losses()
    losses.lose(saves=20)
    for _ in range(MAX_SETBACKS - 1):
        assert losses.phase() is Phase.RUNNING
        losses.lose(num_steps=num_steps)
    failed = losses.job()
    assert failed.phase is Phase.FAILED
    for part in ("2.0 GB", f"{MAX_SETBACKS} times", "step 20", "--memory"):
        assert part in failed.reason
    assert failed.message == "worker 0 was killed"
