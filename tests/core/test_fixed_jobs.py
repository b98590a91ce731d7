"""Fixed jobs: any command, on devices that are its own from its start to its end."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import Fixed, node, spec

from swell.core.platform_core import PlatformCore
from swell.core.state import HeadState
from swell.model.calendar import CalendarEntry
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    DeadlineChangeAsked,
    DrainRequested,
    HoldRequested,
    NodeJoined,
    NodeLost,
    NodeWarned,
    Opened,
    Outcome,
    PriorityChanged,
    ResumeRequested,
    Woke,
)
from swell.model.job import Elasticity, FixedTerms, JobSpec, Phase
from swell.model.options import Domain
from swell.placement.best_fit import BestFitPlacer
from swell.throughput.belief import FittedBelief


def fixed(num_devices: int = 2, time_s: float = 3600.0, parts: int = 1, **fields: Any) -> JobSpec:
    """A fixed job of so many devices for each part; `fields` are of its terms, or of its request."""
    terms = {name: fields.pop(name) for name in FixedTerms.__struct_fields__ if name in fields}
    return spec(
        None,
        entry="swell.executors.local.command:run",
        args=("sh", "-c", "true"),
        elasticity=Elasticity.FIXED,
        fixed=FixedTerms(time_s=time_s, **terms),
        global_batch=1,
        min_workers=parts,
        max_workers=parts,
        devices_per_worker=num_devices,
        **fields,
    )


def bench(num_devices: int = 8) -> Bench:
    return Bench(num_devices, placer=BestFitPlacer())


def reserved(core: PlatformCore) -> dict[str, str]:
    """Device -> the fixed job, or the booking, that has it alone."""
    [kind] = core._cores
    return kind.state.reserved


def entries_of(core: PlatformCore) -> list[CalendarEntry]:
    """What fixed jobs and bookings have, and will have, the earliest first."""
    [kind] = core._cores
    known = chain.from_iterable(kind.state.entries.values())
    return sorted((one for one in known if one.until_s > core.now_s), key=lambda one: one.from_s)


def test_a_fixed_job_starts_without_a_trial_run_and_ends_with_its_command() -> None:
    b = bench()
    launch = only(b.submit("f", fixed(4)), LaunchGang)
    assert len(set(launch.target.devices)) == 4 and launch.spec.fixed is not None
    assert b.phase("f") is Phase.STARTING
    assert b.started(launch.generation, "f") == []
    assert b.phase("f") is Phase.RUNNING
    assert b.job("f").estimated_finish_s == pytest.approx(b.now_s - 1.0 + 3600.0)
    assert b.gone(launch.generation, Outcome.SUCCEEDED, "f") == []
    assert b.phase("f") is Phase.SUCCEEDED
    assert not b.core.is_draining and b.core.is_idle


def test_its_parts_are_on_several_nodes_and_share_one_only_where_no_other_has_room() -> None:
    b = bench(8)
    b.say(NodeJoined(at_s=b.now_s, node=node("n1", 8)))
    launch = only(b.submit("f", fixed(4, parts=2)), LaunchGang)
    nodes = [device.partition(".")[0] for device in launch.target.devices]
    assert [len(set(nodes[:4])), len(set(nodes[4:])), len(set(nodes))] == [1, 1, 2]
    other = only(b.submit("g", fixed(2, parts=4)), LaunchGang)
    nodes = [device.partition(".")[0] for device in other.target.devices]
    assert sorted(nodes) == ["n0"] * 4 + ["n1"] * 4
    assert nodes[::2] == nodes[1::2]  # both devices of a part are on one node


def test_elastic_jobs_leave_its_devices_first_and_do_not_come_back_before_it_ends() -> None:
    b = bench()
    generation = b.run("a", 8)
    assert isinstance(b.policy, Fixed)
    b.policy.wanted["a"] = 4
    change = only(b.submit("f", fixed(4)), Reconfigure)
    assert len(change.target.devices) == 4
    assert b.phase("f") is Phase.QUEUED and "waits until others have left" in b.job("f").reason
    told = [story.code for _, story in b.core.stories()]
    for number in range(3):
        b.submit(f"later-{number}", fixed(8))
        told += [story.code for job_id, story in b.core.stories() if job_id == "f"]
    assert told.count("starting") == 1, "a reason that has not changed is told once"
    launch = only(b.resized(change.generation, steps=50), LaunchGang)
    assert set(launch.target.devices).isdisjoint(change.target.devices)
    b.started(launch.generation, "f")
    assert reserved(b.core) == dict.fromkeys(launch.target.devices, "f")
    b.policy.wanted["a"] = 8
    growth = only(b.gone(launch.generation, Outcome.FAILED, "f"), Reconfigure)
    assert len(growth.target.devices) == 8 and growth.generation > generation
    assert b.phase("f") is Phase.FAILED


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (Outcome.SUCCEEDED, Phase.SUCCEEDED),
        (Outcome.FAILED, Phase.FAILED),
        (Outcome.TIMED_OUT, Phase.TIMED_OUT),
        (Outcome.LOST, Phase.FAILED),
    ],
)
def test_how_it_ends(outcome: Outcome, phase: Phase) -> None:
    b = bench()
    launch = only(b.submit("f", fixed()), LaunchGang)
    b.started(launch.generation, "f")
    b.gone(launch.generation, outcome, "f", message="exit status 3")
    assert b.phase("f") is phase
    assert reserved(b.core) == {}


def test_one_that_is_lost_starts_again_as_often_as_its_owner_has_said() -> None:
    b = bench()
    launch = only(b.submit("f", fixed(retries=3)), LaunchGang)
    b.started(launch.generation, "f")
    waited_s = []
    for _ in range(3):
        b.gone(launch.generation, Outcome.LOST, "f")
        assert "waits to start from its beginning in " in b.job("f").reason
        begun_s = b.now_s
        while not (told := [one for one in b.say(Woke(at_s=b.now_s)) if isinstance(one, LaunchGang)]):
            b.now_s += 0.5
        launch = only(told, LaunchGang)
        b.started(launch.generation, "f")
        waited_s.append(b.now_s - begun_s)
    assert waited_s[0] < waited_s[1] < waited_s[2], "each time longer"
    b.gone(launch.generation, Outcome.LOST, "f")
    assert b.phase("f") is Phase.FAILED


def test_a_start_that_comes_to_nothing_is_no_retry() -> None:
    b = bench()
    launch = only(b.submit("f", fixed(retries=0)), LaunchGang)
    assert b.gone(launch.generation, Outcome.LOST, "f") == []
    assert b.phase("f") is Phase.QUEUED and "could not be started" in b.job("f").reason
    assert reserved(b.core) == {}
    b.now_s += 10.0
    only(b.say(Woke(at_s=b.now_s)), LaunchGang)


def test_one_that_is_cancelled_is_stopped() -> None:
    b = bench()
    launch = only(b.submit("f", fixed()), LaunchGang)
    b.started(launch.generation, "f")
    stop = only(b.cancel("f"), StopGang)
    b.gone(stop.generation, Outcome.STOPPED, "f")
    assert b.phase("f") is Phase.CANCELLED
    b.submit("g", fixed(16))
    b.cancel("g")
    assert b.phase("g") is Phase.CANCELLED


def test_one_that_is_held_waits_and_begins_again() -> None:
    b = bench()
    launch = only(b.submit("f", fixed()), LaunchGang)
    b.started(launch.generation, "f")
    suspend = only(b.say(HoldRequested(at_s=b.now_s, job_id="f")), SuspendGang)
    assert b.suspended(suspend.generation, "f") == []
    assert b.phase("f") is Phase.QUEUED and "held" in b.job("f").reason
    assert reserved(b.core) == {}
    only(b.say(ResumeRequested(at_s=b.now_s, job_id="f")), LaunchGang)


@pytest.mark.parametrize(("is_session", "phase"), [(False, Phase.QUEUED), (True, Phase.CANCELLED)])
def test_all_are_suspended_where_the_platform_stops_and_a_session_is_over_then(
    is_session: bool, phase: Phase
) -> None:
    b = bench()
    launch = only(b.submit("f", fixed(is_session=is_session)), LaunchGang)
    b.started(launch.generation, "f")
    suspend = only(b.say(DrainRequested(at_s=b.now_s)), SuspendGang)
    b.suspended(suspend.generation, "f")
    assert b.phase("f") is phase
    again = b.say(Opened(at_s=b.now_s))
    assert [type(command) for command in again] == ([] if is_session else [LaunchGang])


def test_a_kill_in_its_grace_is_no_loss_of_one_that_is_suspended() -> None:
    b = bench()
    launch = only(b.submit("f", fixed(grace_s=600.0)), LaunchGang)
    b.started(launch.generation, "f")
    suspend = only(b.say(DrainRequested(at_s=b.now_s)), SuspendGang)
    b.gone(suspend.generation, Outcome.LOST, "f")
    assert b.phase("f") is Phase.QUEUED
    only(b.say(Opened(at_s=b.now_s)), LaunchGang)


def test_the_head_ends_one_whose_limit_nobody_keeps() -> None:
    b = bench()
    launch = only(b.submit("f", fixed(time_s=60.0, grace_s=10.0)), LaunchGang)
    b.started(launch.generation, "f")
    b.now_s += 69.0
    assert b.say(Woke(at_s=b.now_s)) == []
    b.now_s += 10.0
    stop = only(b.say(Woke(at_s=b.now_s)), StopGang)
    b.gone(stop.generation, Outcome.STOPPED, "f")
    assert b.phase("f") is Phase.TIMED_OUT


def test_sessions_come_first_then_by_class_priority_and_arrival() -> None:
    b = bench(2)
    first = only(b.submit("first", fixed(2)), LaunchGang)
    b.started(first.generation, "first")
    b.submit("low", fixed(2))
    b.submit("high", fixed(2, priority=5))
    b.submit("shell", fixed(2, is_session=True))
    order = []
    generation, running = first.generation, "first"
    while True:
        launches = b.gone(generation, Outcome.SUCCEEDED, running)
        if not launches:
            break
        launch = only(launches, LaunchGang)
        generation, running = launch.generation, launch.job_id
        b.started(generation, running)
        order.append(running)
    assert order == ["shell", "high", "low"]


def test_a_node_that_gets_no_more_work_gets_no_fixed_job_and_lets_the_one_it_has_end() -> None:
    b = bench(4)
    launch = only(b.submit("f", fixed(2)), LaunchGang)
    b.started(launch.generation, "f")
    assert b.say(NodeWarned(at_s=b.now_s, name="n0")) == []
    assert b.submit("g", fixed(2)) == []
    [other] = b.say(NodeJoined(at_s=b.now_s, node=node("n1", 4)))
    assert isinstance(other, LaunchGang) and other.target.devices[0].startswith("n1")
    b.gone(launch.generation, Outcome.SUCCEEDED, "f")
    assert b.phase("f") is Phase.SUCCEEDED


def test_one_that_waits_for_devices_of_a_lost_node_starts_elsewhere() -> None:
    b = bench(4)
    b.run("a", 4)
    b.want(a=2)
    only(b.submit("f", fixed(2)), Reconfigure)
    b.say(NodeJoined(at_s=b.now_s, node=node("n1", 3)))
    launches = b.say(NodeLost(at_s=b.now_s, name="n0"))
    assert [one.target.devices for one in launches if isinstance(one, LaunchGang)] == [("n1.0", "n1.1")]


def test_questions_that_other_jobs_are_asked_do_not_disturb_it() -> None:
    b = bench(2)
    launch = only(b.submit("f", fixed(2)), LaunchGang)
    b.started(launch.generation, "f")
    b.submit("g", fixed(2))
    for job_id in "fg":
        assert b.say(PriorityChanged(at_s=b.now_s, job_id=job_id, priority=3, weight=2.0)) == []
        assert b.say(DeadlineChangeAsked(at_s=b.now_s, job_id=job_id, deadline_s=1e9)) == []
    assert b.core.throughput("f") is None
    assert (b.phase("f"), b.phase("g")) == (Phase.RUNNING, Phase.QUEUED)


def test_trial_runs_avoid_its_devices() -> None:
    b = bench(4)
    launch = only(b.submit("f", fixed(2)), LaunchGang)
    trial = only(b.submit("a"), ProfileJob)
    assert trial.avoid == tuple(sorted(launch.target.devices))
    assert max(trial.sizes) == 2


def test_the_state_is_the_same_after_a_restart() -> None:
    b = bench(8)
    b.run("a", 8)
    b.want(a=4)
    change = only(b.submit("f", fixed(4, retries=2)), Reconfigure)
    for turn in (0, 1, 2):
        reborn = b.reborn()
        assert reborn.save() == b.core.save()
        assert [view for view in reborn.views() if view.id == "f"] == [b.job("f")]
        assert reborn.under_way() == b.core.under_way()
        if turn == 0:
            launch = only(b.resized(change.generation, steps=50), LaunchGang)
        if turn == 1:
            b.started(launch.generation, "f")
    b.gone(launch.generation, Outcome.LOST, "f")
    assert b.reborn().save() == b.core.save()


def test_a_job_has_its_devices_in_rank_order_whoever_had_them_before() -> None:
    state = HeadState(belief=FittedBelief(), domain=Domain())
    wanted = ["n1.0", "n1.1", "n0.0", "n0.1"]
    state.reserve("suspended", ["n0.0", "n1.0"])
    state.reserve("a", wanted)
    assert [device for device, owner in state.reserved.items() if owner == "a"] == wanted
