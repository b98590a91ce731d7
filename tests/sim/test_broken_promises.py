"""A promise is kept, or something has happened that it did not cover, and the job's story says what.

`make test-soak` tries it on 1,000 runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.sim.worlds import RATES, job

from swell.core.deadlines import UNKNOWN
from swell.model.event import AnyEvent, ClockStepped, NodeJoined, NodeLost, NodeWarned, QuotasSet
from swell.model.job import Phase
from swell.model.node import Node
from swell.model.quota import Quota
from swell.scheduler import new_core
from swell.settings import DEFAULT_POLICY, Settings
from swell.sim.change_cost import change_cost
from swell.sim.faults import NO_FAULTS, FaultRates, FaultSource
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome
from swell.sim.simulate import EventLog, cluster, simulate
from swell.sim.world import Scenario

NODES = cluster(3, 2, "gpu")
START_S, REPORT_S = 2.0, 20.0
#: By which true steps take longer than trial runs say.
SLOWER = (1.0, 0.9, 1.05, 1.4)
#: What may befall a platform, and what only that can be the cause of.
KINDS = {
    "node": (" was lost",),
    "leaving": ("to be left",),
    "quotas": ("quotas were set",),
    "clock": ("clock was set forward",),
    "faults": ("could not be", "was stopped"),
    "slow": ("longer than was believed", "slower than was believed"),
}


@dataclass(frozen=True)
class Lot:
    jobs: list[SimJob]
    others: list[AnyEvent]
    rates: FaultRates
    survive_nodes: int
    kinds: frozenset[str]


@st.composite
def jobs(draw: st.DrawFn, is_slow: bool) -> list[SimJob]:
    drawn = []
    for number in range(draw(st.integers(1, 6))):
        submit_s, steps = float(draw(st.integers(0, 100))), draw(st.integers(30, 300))
        slower = draw(pick(*SLOWER)) if is_slow else 1.0
        one = job(
            f"j{number}",
            submit_s,
            steps,
            deadline_s=submit_s + 10.0 + steps * draw(pick(0.4, 0.6, 0.9, 1.2)),
            rates={size: rate / slower for size, rate in RATES.items()},
            believed=RATES,
        )
        spec = msgspec.structs.replace(one.spec, tenant=draw(pick("", "a")))
        profile = msgspec.structs.replace(one.profile, start_s=START_S)
        drawn.append(dataclasses.replace(one, spec=spec, profile=profile))
    return sorted(drawn, key=lambda one: one.submit_s)


def happening(kind: str, node: Node, at_s: float, length_s: float) -> list[AnyEvent]:
    """Of the faults that are an event of the platform."""
    if kind == "node":
        return [NodeLost(at_s=at_s, name=node.name), NodeJoined(at_s=at_s + length_s, node=node)]
    events: dict[str, AnyEvent] = {
        "leaving": NodeWarned(at_s=at_s, name=node.name, why="drained"),
        "quotas": QuotasSet(at_s=at_s, quotas={"a": Quota(devices=1)}),
        "clock": ClockStepped(at_s=at_s, calendar_offset_s=length_s),
    }
    return [events[kind]] if kind in events else []


@st.composite
def lots(draw: st.DrawFn) -> Lot:
    """Faults of no kind, of some, or of all."""
    kinds = draw(st.one_of(st.frozensets(pick(*KINDS)), pick(frozenset(KINDS))))
    others: list[AnyEvent] = []
    for kind in sorted(kinds):
        others += happening(kind, draw(pick(*NODES)), draw(st.floats(0.0, 200.0)), draw(pick(30.0, 1000.0)))
    rate = draw(pick(0.2, 0.6)) if "faults" in kinds else 0.0
    rates = FaultRates(trial=rate, launch=rate, resize=rate, suspend=rate, loss=rate, warning=rate)
    return Lot(draw(jobs("slow" in kinds)), others, rates, draw(pick(0, 1)), kinds)


def run(lot: Lot) -> tuple[list[JobOutcome], EventLog]:
    chosen: dict[str, float | str] = {"survive_nodes": float(lot.survive_nodes), "promises_by": "work"}
    parameters = {f"{DEFAULT_POLICY}.{name}": value for name, value in chosen.items()}
    head = Settings(given={"min_hold_s": 0.0, "report_plan_s": REPORT_S}, parameters=parameters)
    diary = EventLog()
    scenario = Scenario(
        nodes=NODES,
        jobs=lot.jobs,
        cost=change_cost("2", sum(len(node.devices) for node in NODES)),
        timings=GangTimes(checkpoint_interval_s=20.0, report_s=REPORT_S),
        others=lot.others,
        faults=FaultSource(lot.rates),
    )
    outcome = simulate(new_core(DEFAULT_POLICY, head), scenario, listen=diary.listen)
    return list(outcome.jobs), diary


def told(diary: EventLog, job_id: str) -> str:
    """What its story said last of a promise that is late, or about to be."""
    lines = [story for name, story in diary.stories if name == job_id]
    late = [line for line in lines if line.code == "at_risk" or "promised deadline" in line.text]
    return late[-1].text if late else ""


def check(lot: Lot) -> None:
    outcomes, diary = run(lot)
    for one in outcomes:
        if not one.is_promised or one.is_kept or one.phase is Phase.FAILED:
            continue
        text = told(diary, one.id)
        assert lot.kinds and text and UNKNOWN not in text, (one, text)
        for kind in KINDS.keys() - lot.kinds:
            assert not any(words in text for words in KINDS[kind]), (kind, text)


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.25))
@given(lot=lots())
def test_a_broken_promise_has_a_cause_that_it_did_not_cover_and_tells_it(lot: Lot) -> None:
    check(lot)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@settings(max_examples=1000)
@given(lot=lots())
def test_so_it_is_in_a_thousand_runs(lot: Lot) -> None:
    check(lot)


#: With what little its promise leaves.
ALONE = job("alone", steps=100, deadline_s=132.0, rates={2: 1.0})


def story(others: list[AnyEvent], *jobs: SimJob) -> EventLog:
    return run(Lot(list(jobs), others, NO_FAULTS, 0, frozenset()))[1]


def lost(at_s: float, *nodes: Node) -> list[AnyEvent]:
    return [entry for node in nodes for entry in happening("node", node, at_s, 50.0)]


def test_its_own_slowness_is_told_with_the_margin() -> None:
    slow = job("slow", steps=100, deadline_s=132.0, rates={2: 1 / 1.4}, believed={2: 1.0})
    assert told(story([], slow), "slow") == (
        "met its end condition, 10 s after its promised deadline: "
        "its steps take 40% longer than was believed, with a margin of 9%"
    )


def test_what_befell_the_job_and_the_platform_is_told() -> None:
    text = told(story(lost(30.0, *NODES), ALONE), "alone")
    assert text.endswith("25 s after its promised deadline: it lost workers, node n2 was lost")


def test_as_soon_as_a_promise_is_at_risk_the_cause_is_told() -> None:
    diary = story(lost(30.0, *NODES), ALONE)
    first = next(line for _, line in diary.stories if line.code == "at_risk")
    assert first.at_s == 30.0 and first.text.endswith(
        "none of its allowed sizes fits: it lost workers, node n2 was lost"
    )


def test_what_was_so_before_the_promise_is_no_cause_of_its_end() -> None:
    late = job("late", 100.0, 100, deadline_s=232.0, rates={2: 1 / 1.4}, believed={2: 1.0})
    text = told(story(lost(30.0, NODES[0]), late), "late")
    assert "longer than was believed" in text and "node" not in text
