"""Gangs of another journal are ended, and nothing is given their devices before they are gone."""

from __future__ import annotations

from tests.core.bench import Bench
from tests.core.fakes import spec

from swell.model.command import LaunchGang, StopGang
from swell.model.event import GangFound, Outcome
from swell.model.job import Phase


def found(bench: Bench, job_id: str, generation: int, *numbers: int) -> GangFound:
    devices = tuple(f"n0.{number}" for number in numbers)
    return GangFound(at_s=bench.now_s, job_id=job_id, generation=generation, devices=devices, steps=9)


def test_a_gang_of_a_job_that_is_not_in_the_journal_is_ended_and_its_devices_are_waited_for() -> None:
    bench = Bench()
    assert bench.say(found(bench, "lost", 3, 0, 1)) == [StopGang(job_id="lost", generation=4)]
    assert bench.core.unknown_owner == {"n0.0": "lost", "n0.1": "lost"} and not bench.core.is_idle
    bench.want(a=8)
    bench.submit("a")
    assert bench.profiled("a") == []
    assert bench.job().reason_code == "waiting"
    [launch] = bench.gone(4, Outcome.STOPPED, "lost")
    assert isinstance(launch, LaunchGang) and launch.job_id == "a"
    assert bench.core.unknown_owner == {}


def test_a_job_whose_gang_is_ahead_of_the_journal_goes_on_after_it() -> None:
    """An older copy of the journal was put back: generation 1 is believed, and generation 6 runs."""
    bench = Bench()
    bench.run(workers=2)
    assert bench.say(found(bench, "a", 6, 4, 5)) == [StopGang(job_id="a", generation=7)]
    assert (bench.phase(), bench.num_held()) == (Phase.QUEUED, 0)
    [launch] = bench.gone(7, Outcome.STOPPED, "a")
    assert isinstance(launch, LaunchGang) and launch.generation > 7
    bench.started(launch.generation, steps=500)
    assert (bench.phase(), bench.job().steps) == (Phase.RUNNING, 500)


def test_a_cancelled_job_ends_and_its_gang_with_it() -> None:
    bench = Bench()
    bench.run(job=spec(1000))
    bench.cancel("a")
    bench.say(found(bench, "a", 6, 4, 5))
    assert bench.phase() is Phase.CANCELLED
    bench.gone(7, Outcome.STOPPED, "a")
    assert bench.core.is_idle
