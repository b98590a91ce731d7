"""What the head says of a job is so."""

from __future__ import annotations

import pytest
from tests.core.bench import Bench
from tests.core.fakes import spec, strict

from swell.model.command import ProfileJob
from swell.model.event import GangEnded, Outcome, Woke
from swell.model.job import Phase


def test_a_trial_runs_at_no_size_that_the_job_may_not_have() -> None:
    bench = Bench(num_devices=8)
    [trial] = bench.submit("a", spec(min_workers=3, max_workers=4, devices_per_worker=2))
    assert isinstance(trial, ProfileJob) and trial.sizes == (4,)
    assert bench.submit("b", spec(min_workers=5, devices_per_worker=2)) == []  # fits nowhere: no trial


def test_a_job_that_ended_while_no_daemon_lived_ended_then() -> None:
    bench = Bench()
    generation = bench.run(job=strict(deadline_s=bench.now_s + 50.0))
    ended_s = bench.now_s + 10.0
    bench.say(Woke(at_s=bench.now_s + 500.0))
    bench.say(
        GangEnded(at_s=ended_s, job_id="a", generation=generation, outcome=Outcome.SUCCEEDED, steps=1000)
    )
    view = bench.ended["a"]
    assert view.finished_s == ended_s and view.kept


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.FAILED])
def test_a_script_that_hung_is_not_said_to_have_gone_on(outcome: Outcome) -> None:
    bench = Bench()
    generation = bench.run()
    bench.reported(generation, 40)
    bench.say(Woke(at_s=bench.now_s + 5000.0))
    if outcome is Outcome.STOPPED:
        bench.cancel("a")
    bench.gone(generation, outcome, steps=41)
    assert bench.ended["a"].phase is {Outcome.STOPPED: Phase.CANCELLED, Outcome.FAILED: Phase.FAILED}[outcome]
    assert bench.ended["a"].steps == 41
