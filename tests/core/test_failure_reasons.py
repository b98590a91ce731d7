"""The reason of a failed job is the error's own sentence, in the view and in the story."""

from __future__ import annotations

import pytest
from tests.core.bench import Bench

from swell.model.command import ProfileJob
from swell.model.event import GangEnded, Outcome, ProfilingFailed
from swell.model.job import Phase

TRACE = """worker 1 (rank 1 of 2) failed in step 7:
Traceback (most recent call last):
  File "/home/ada/train.py", line 12, in <module>
    cfg["lr"]
KeyError: 'lr'
"""


def test_a_job_that_fails_while_it_trains_says_why() -> None:
    bench = Bench()
    bench.want(a=2)
    bench.submit("a")
    bench.profiled("a")
    bench.started(1)
    bench.say(
        GangEnded(at_s=bench.now_s, job_id="a", generation=1, outcome=Outcome.FAILED, steps=7, message=TRACE)
    )
    _check(bench, "KeyError: 'lr' (train.py:12); `swell logs a` shows how")


def test_a_job_that_fails_in_its_trial_run_says_why() -> None:
    bench = Bench()
    [command] = bench.submit("a")
    assert isinstance(command, ProfileJob)
    bench.say(
        ProfilingFailed(
            at_s=bench.now_s, job_id="a", message=TRACE, outcome=Outcome.FAILED, attempt=command.attempt
        )
    )
    _check(bench, "its trial run failed: KeyError: 'lr' (train.py:12); `swell logs a` shows how")


def _check(bench: Bench, reason: str) -> None:
    view = bench.ended["a"]
    assert (view.phase, view.reason, view.message) == (Phase.FAILED, reason, TRACE)
    assert [story.text for _, story in bench.core.stories() if story.code == "failed"] == [reason]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("the script ended by itself after 300 of 1000 steps", "was ended by its own script"),
        ("", "met its end condition"),  # on a stream whose epochs are shorter than was known
    ],
)
def test_a_job_of_fewer_steps_than_was_known_has_met_its_end_unless_its_script_left(
    message: str, reason: str
) -> None:
    bench = Bench()
    generation = bench.run()
    bench.gone(generation, Outcome.SUCCEEDED, steps=300, message=message)
    assert bench.ended["a"].reason.startswith(reason)
