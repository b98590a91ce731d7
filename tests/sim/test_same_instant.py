"""Two changes of one gang at one instant: between them no worker trains, and one pause is paid."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.sim.worlds import RATES, job

from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import AnyEvent, GangEnded, GangResized, GangStarted, StepsReported
from swell.model.job import JobSpec
from swell.model.target import Target
from swell.model.view import Story
from swell.sim.change_cost import Cost, GangChange
from swell.sim.simulate import cluster
from swell.sim.world import Scenario, SimulatedWorld
from swell.store.journal import RunRecord

NODES = cluster(1, 8, "gpu")
DEVICES = NODES[0].devices
STEPS = 1000
STARTED_S = 5.0


class AfterSizes:
    """A change to n devices pauses for a time of its own."""

    def __init__(self, pauses_s: dict[int, float]) -> None:
        self.pauses_s = pauses_s

    def __call__(self, change: GangChange) -> Cost:
        return Cost(STARTED_S, 0.0) if change.before == 0 else Cost(0.0, self.pauses_s[change.after])


class OneGang:
    """A job on one device of eight, in a world without a head."""

    def __init__(self, pauses_s: dict[int, float]) -> None:
        self.world = SimulatedWorld(
            Scenario(nodes=NODES, jobs=[job("a", steps=STEPS)], cost=AfterSizes(pauses_s))
        )
        self.world.next_events()
        self.generation = 1
        self.world.perform(
            LaunchGang(
                job_id="a", generation=1, spec=SPEC, total_steps=STEPS, target=Target(devices=DEVICES[:1])
            )
        )
        self.until(GangStarted)

    def move(self, num_devices: int) -> None:
        self.generation += 1
        target = Target(devices=DEVICES[:num_devices])
        self.world.perform(Reconfigure(job_id="a", generation=self.generation, target=target))
        self.until(GangResized)

    def until(self, kind: type[AnyEvent]) -> AnyEvent:
        while events := self.world.next_events():
            if found := next((event for event in events if isinstance(event, kind)), None):
                return found
        raise AssertionError(f"there was no {kind.__name__}")


SPEC: JobSpec = job("a").spec
PAUSES_S = st.dictionaries(st.just(2) | st.just(4), st.floats(0.0, 100.0), min_size=2)


@given(pauses_s=PAUSES_S)
def test_of_two_changes_at_one_instant_the_dearer_is_paid_once(pauses_s: dict[int, float]) -> None:
    gang = OneGang(pauses_s)
    gang.move(2)
    gang.move(4)
    told = gang.until(StepsReported)
    assert isinstance(told, StepsReported)
    assert told.pause_s == max(pauses_s.values())
    ended = gang.until(GangEnded)
    assert abs(ended.at_s - (STARTED_S + max(pauses_s.values()) + STEPS / RATES[4])) < 1e-6


@given(pauses_s=PAUSES_S)
def test_changes_at_two_instants_are_paid_both(pauses_s: dict[int, float]) -> None:
    gang = OneGang(pauses_s)
    gang.move(2)
    gang.until(StepsReported)
    gang.move(4)
    ended = gang.until(GangEnded)
    assert abs(ended.at_s - (STARTED_S + sum(pauses_s.values()) + STEPS / RATES[4])) < 1e-6


def test_a_record_keeps_lines_that_are_alike(tmp_path: Path) -> None:
    line = Story(at_s=1.0, code="moved", text="went from 1 to 1 worker at step 7")
    record = RunRecord(tmp_path / "run")
    record.write("fifo", b"{}", [], [("a", line), ("b", line), ("a", line)])
    assert record.stories("fifo", "a") == [line, line]
