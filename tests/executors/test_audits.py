"""Audits: when they come, what they may cost, and that the gang does not feel how they end."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.fake_hosts import FakeWorker, Fleet, change, launch, of_kind
from tests.executors.puppets import JOB, make_spec
from tests.executors.test_gang_laws import OTHER

from swell.executors.controller.audits import GROWTH, LEAST_S, AuditSchedule
from swell.executors.gang.host_messages import TellWorker
from swell.executors.gang.job_context import GangSettings
from swell.model.command import ProfileJob, StopGang
from swell.model.event import GangEnded, GangResized, Outcome, ScriptVerified, WorkersLost
from swell.model.job import DifferenceAction
from swell.wire import messages as m

AUDIT = f"audit:{JOB}"
Lives = st.lists(st.tuples(st.floats(0, 500), st.integers(1, 8), st.integers(0, 100)), max_size=200)


@given(st.sampled_from([0.0, 0.005, 0.3, 1.0]), st.integers(1, 4), st.floats(LEAST_S, 100), Lives)
def test_audits_stay_within_their_share_and_their_distances_grow(
    share: float, num_devices: int, took_s: float, lives: list[tuple[float, int, int]]
) -> None:
    schedule, now_s, steps, verified = AuditSchedule(share, 0.0, 1, expected_s=took_s), 0.0, 0, list[int]()
    for passed_s, num_workers, num_steps in lives:
        now_s, steps = now_s + passed_s, steps + num_steps
        schedule.pass_time(now_s, num_workers * num_devices)
        if schedule.is_due(steps, num_devices):
            schedule.audit_device_s += took_s * num_devices
            schedule.known_steps = steps
            verified.append(steps)
    assert schedule.audit_device_s <= share * schedule.gang_device_s
    assert all(later >= GROWTH * earlier for earlier, later in itertools.pairwise(verified))
    schedule.pass_time(1e12, 1)
    assert schedule.is_due(2 * steps + 2, num_devices) == (share > 0.0), "there is always another one"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A gang on one of the four devices of host a."""
    fleet = Fleet(tmp_path, "ab", GangSettings(audit_share=0.1, silence_s=1e9))
    fleet.proves = False
    fleet.perform(launch("a/0"))
    return fleet


def go_on(fleet: Fleet, seconds: int = 60) -> list[FakeWorker]:
    """The gang makes and saves a step each second until it is audited; returns the audit's process."""
    for _ in range(seconds):
        fleet.pass_time(1.0)
        fleet.save(JOB)
        if audits := fleet.workers(AUDIT):
            return audits
    return []


def test_an_audit_that_finds_a_difference_tells_it_and_goes(fleet: Fleet) -> None:
    (audit,) = go_on(fleet)
    assert audit.devices == ("a/1",) and LEAST_S / 0.1 <= fleet.time_s < LEAST_S / 0.1 + 2.0
    audit.say(m.Proved(steps=20, findings=(OTHER,)))
    (told,) = of_kind(fleet, ScriptVerified)
    assert (told.job_id, told.steps, told.findings) == (JOB, 20, (OTHER,))
    assert not fleet.workers(AUDIT) and AUDIT not in fleet.hosts["a"].runs
    gang = fleet.controller._runs.gang(JOB)
    assert gang is not None and gang.gang.known_findings == (OTHER.name,)
    assert go_on(fleet) and fleet.steps[JOB] >= GROWTH * 20


def test_a_gang_that_is_to_roll_back_ends_when_an_audit_finds_what_was_not_known(fleet: Fleet) -> None:
    fleet.perform(StopGang(job_id=JOB, generation=2))
    order = launch("a/0", generation=3)
    spec = msgspec.structs.replace(order.spec, on_difference=DifferenceAction.ROLL_BACK)
    order = msgspec.structs.replace(order, spec=spec)
    fleet.perform(order)
    (audit,) = go_on(fleet)
    audit.say(m.Proved(steps=20))
    said = [told.message for told in fleet.hosts["a"].told if isinstance(told, TellWorker)]
    assert m.Verified(steps=20) in said
    (audit,) = go_on(fleet)
    audit.say(m.Proved(steps=40, findings=(OTHER,)))
    stopped, ended = of_kind(fleet, GangEnded)
    assert stopped.outcome is ended.outcome is Outcome.STOPPED
    assert ended.message == "a new process computes something else"
    fleet.perform(
        msgspec.structs.replace(order, generation=4, known_findings=(OTHER.name,), verified_steps=20)
    )
    (audit,) = go_on(fleet)
    audit.say(m.Proved(steps=40, findings=(OTHER,)))
    assert len(of_kind(fleet, GangEnded)) == 2, "what is known ends nothing"


def test_a_gang_that_a_joiner_has_verified_needs_no_audit_then(fleet: Fleet) -> None:
    fleet.pass_time(30.0)
    fleet.steps[JOB] = 100
    fleet.perform(change(2, "a/0", "a/1"))
    fleet.workers(JOB)[1].say(m.Proved(steps=100))
    assert of_kind(fleet, GangResized)
    assert not go_on(fleet, seconds=40) and 140 < fleet.steps[JOB] < 150
    assert go_on(fleet)


@pytest.mark.parametrize("trouble", ["dies", "is wanted", "trial", "growth", "hangs", "takeover"])
def test_how_an_audit_ends_is_nothing_to_its_gang(fleet: Fleet, trouble: str) -> None:
    (audit,) = go_on(fleet)
    steps, fleet.proves = fleet.steps[JOB], True
    trial = ProfileJob(job_id="new", spec=make_spec(), sizes=(1,), device_kind="cpu")
    happen: dict[str, Callable[[], None]] = {
        "dies": lambda: audit.host.exit(audit, 1),
        "hangs": lambda: fleet.pass_time(130.0),
        "takeover": fleet.replace_controller,
        "trial": lambda: fleet.perform(trial),
        "growth": lambda: fleet.perform(change(2, "a/0", "a/1")),
        "is wanted": lambda: fleet.perform(launch("a/1", job="other")),
    }
    happen[trouble]()
    assert not fleet.workers(AUDIT) and AUDIT not in fleet.hosts["a"].runs, "its devices are given up"
    assert audit.signals == ([] if trouble == "dies" else [signal.SIGKILL])
    fleet.step(JOB)
    assert fleet.steps[JOB] > steps and not of_kind(fleet, WorkersLost) and not of_kind(fleet, GangEnded)
    assert bool(of_kind(fleet, GangResized)) == (trouble == "growth")


def test_there_is_no_audit_on_devices_that_others_have_or_are_about_to_have(fleet: Fleet) -> None:
    fleet.perform(launch("a/1", "a/2", "a/3", job="other"))
    assert not go_on(fleet)
    fleet.hosts["b"].is_held = True
    fleet.perform(StopGang(job_id="other", generation=1))
    fleet.perform(launch("a/1", "a/2", "a/3", "b/0", job="third"))  # which waits for its host b
    assert not go_on(fleet)
    fleet.hosts["b"].let_through()
    fleet.perform(StopGang(job_id="third", generation=1))
    assert go_on(fleet)
    fleet.perform(StopGang(job_id=JOB, generation=1))
    assert not fleet.workers(AUDIT) and not fleet.hosts["a"].runs, "it goes with its gang"
