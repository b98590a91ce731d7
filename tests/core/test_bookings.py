"""Bookings: devices that are their owner's at some times, and other jobs' until then."""

from __future__ import annotations

from typing import Any

from tests.core.bench import only
from tests.core.fakes import node, spec
from tests.core.test_fixed_jobs import entries_of, fixed, reserved
from tests.core.test_fixed_promises import Promising, strict, strict_fixed

from swell.model.booking import Booking
from swell.model.command import LaunchGang, Reconfigure, SuspendGang
from swell.model.event import (
    BookingMade,
    BookingRemoved,
    ClockStepped,
    HostRuledOut,
    NodeJoined,
    NodeLost,
    Outcome,
    QuotasSet,
)
from swell.model.job import JobClass, Phase
from swell.model.quota import Quota

#: From so long before its begin on others leave the devices of a booking.
LEAD_S = 10.0


def booking(b: Promising, num: int, *times_s: tuple[float, float], **fields: Any) -> Booking:
    """From and until so many seconds from now."""
    times = tuple((b.now_s + from_s, b.now_s + until_s) for from_s, until_s in times_s)
    return Booking(**{"id": "b-1", "num_devices": num, "times_s": times, **fields})


def book(b: Promising, num: int, *times_s: tuple[float, float], **fields: Any) -> list[Any]:
    made = booking(b, num, *times_s, **fields)
    assert b.core.weigh_booking(made) is None
    return b.say(BookingMade(at_s=b.now_s, booking=made))


def test_others_have_the_devices_until_then_and_after() -> None:
    b = Promising(4)
    generation = b.begin("a", spec(100_000))
    assert book(b, 3, (100.0, 200.0)) == []
    assert b.tick(80.0) == []
    shrink = only(b.tick(10.0), Reconfigure)
    assert len(shrink.target.devices) == 1 and shrink.generation > generation
    b.resized(shrink.generation, steps=1000)
    assert set(reserved(b.core).values()) == {"b-1"}
    assert b.tick(50.0) == []
    growth = only(b.tick(70.0), Reconfigure)
    assert len(growth.target.devices) == 4
    assert b.core.bookings == [] and entries_of(b.core) == []


def test_one_that_breaks_a_promise_is_refused_with_the_nearest_moment_that_does_not() -> None:
    b = Promising(4)
    b.begin("a", strict(3000, b.now_s + 130.3))
    refused = b.core.weigh_booking(booking(b, 3, (50.0, 100.0)))
    assert refused is not None and "the promise of a" in refused.text
    assert refused.earliest_s is not None and refused.earliest_s % 1.0 == 0.0
    in_s = refused.earliest_s - b.now_s
    assert 50.0 < in_s <= 145.0
    assert b.core.weigh_booking(booking(b, 3, (in_s, in_s + 50.0))) is None


def test_one_that_a_fixed_job_or_another_booking_is_in_the_way_of_is_refused() -> None:
    b = Promising(4)
    b.begin("f", fixed(2, time_s=300.0, grace_s=0.0))
    refused = b.core.weigh_booking(booking(b, 3, (100.0, 200.0)))
    assert refused is not None and "f may still have devices" in refused.text
    assert refused.earliest_s is not None and 300.0 < refused.earliest_s - b.now_s < 330.0
    book(b, 2, (100.0, 200.0))
    again = b.core.weigh_booking(booking(b, 2, (150.0, 160.0), id="b-2"))
    assert again is not None and "b-1" in again.text
    assert b.core.weigh_booking(booking(b, 9, (0.0, 1.0), id="b-3")) is not None
    passed = b.core.weigh_booking(booking(b, 1, (-20.0, -10.0), id="b-3"))
    assert passed is not None and "passed" in passed.text


def test_promises_that_are_made_later_count_on_it() -> None:
    b = Promising(4)
    book(b, 4, (100.0, 1000.0))
    b.enter("a", strict(3000, b.now_s + 150.0))
    assert b.phase("a") is Phase.REJECTED
    b.enter("c", strict(300, b.now_s + 150.0))
    assert b.job("c").is_promised
    b.submit("f", strict_fixed(2, 50.0, b.now_s + 500.0))
    assert b.job("f").is_promised
    assert max(one.until_s for one in entries_of(b.core) if one.owner == "f") <= b.now_s + 100.0
    b.submit("g", fixed(2, time_s=500.0))
    assert b.phase("g") is Phase.QUEUED


def test_jobs_of_the_booking_run_in_it_and_only_then() -> None:
    b = Promising(4)
    book(b, 3, (100.0, 1000.0))
    assert b.submit("mine", fixed(2, time_s=500.0, grace_s=0.0, booking="b-1")) == []
    assert "booking b-1 begins in" in b.job("mine").reason
    b.submit("long", fixed(1, time_s=5000.0, booking="b-1"))
    b.tick(95.0)
    assert b.phase("mine") is Phase.QUEUED
    launch = only(b.tick(10.0), LaunchGang)
    assert launch.job_id == "mine"
    b.started(launch.generation, "mine")
    assert "ends before its limit would" in b.job("long").reason
    assert b.submit("other", fixed(2, is_session=True, time_s=100.0)) == []
    assert b.gone(launch.generation, Outcome.SUCCEEDED, "mine") == []
    assert set(reserved(b.core).values()) == {"b-1"} and len(reserved(b.core)) == 3


def test_an_elastic_job_of_a_booking_has_its_largest_size_there_and_goes_on_as_any_other() -> None:
    b = Promising(4)
    book(b, 3, (20.0, 500.0))
    assert b.enter("mine", spec(100_000, booking="b-1")) == []
    launch = only(b.tick(30.0), LaunchGang)
    assert len(launch.target.devices) == 2
    b.started(launch.generation, "mine")
    assert b.tick(100.0) == []
    growth = only(b.tick(500.0), Reconfigure)
    assert (growth.job_id, len(growth.target.devices)) == ("mine", 4)
    assert b.job("mine").job_class is JobClass.BEST_EFFORT


def test_a_job_of_a_booking_is_told_that_it_gets_no_promise() -> None:
    b = Promising(4)
    book(b, 3, (20.0, 500.0))
    b.enter("mine", strict(1000, b.now_s + 1000.0, booking="b-1"))
    assert b.job("mine").reason.endswith("begins in 19 s; jobs of a booking get no promise")


def test_a_booking_that_is_removed_gives_its_devices_back() -> None:
    b = Promising(4)
    b.begin("a", spec(100_000))
    suspend = only(book(b, 4, (5.0, 500.0)), SuspendGang)
    assert b.suspended(suspend.generation) == []
    launch = only(b.say(BookingRemoved(at_s=b.now_s, booking_id="b-1")), LaunchGang)
    assert len(launch.target.devices) == 4
    assert reserved(b.core) == {} and entries_of(b.core) == []


def test_a_node_under_maintenance_has_no_jobs() -> None:
    b = Promising(4)
    b.say(NodeJoined(at_s=b.now_s, node=node("n1", 4)))
    b.begin("f", fixed(4, time_s=50.0, grace_s=0.0))
    assert b.core.weigh_booking(booking(b, 0, (20.0, 100.0), node="n0")) is not None
    book(b, 0, (100.0, 200.0), node="n0")
    b.begin("a", spec(100_000))
    b.gone(1, Outcome.SUCCEEDED, "f")
    b.tick(95.0)
    n0 = {device for device, owner in reserved(b.core).items() if owner == "b-1"}
    assert n0 == {"n0.0", "n0.1", "n0.2", "n0.3"}


def test_maintenance_of_a_node_that_is_not_there_is_refused_with_the_names_of_those_that_are() -> None:
    b = Promising(4)
    refused = b.core.weigh_booking(booking(b, 0, (100.0, 200.0), node="node0"))
    names = ", ".join(one.name for one in b.core.cluster.nodes)
    assert refused is not None and refused.text == f"there is no node 'node0'; nodes are {names}"
    assert refused.earliest_s is None


def test_one_that_recurs_reserves_each_of_its_times() -> None:
    b = Promising(2)
    book(b, 2, (100.0, 200.0), (300.0, 400.0))
    seen = []
    for _ in range(9):
        b.tick(50.0)
        seen.append(len(reserved(b.core)))
    assert seen == [0, 2, 2, 0, 0, 2, 2, 0, 0]
    assert b.core.bookings == []


def test_a_suspendable_job_leaves_for_a_booking() -> None:
    b = Promising(2)
    b.begin("low", fixed(2, may_suspend=True, retries=3))
    book(b, 2, (100.0, 200.0))
    suspend = only(b.tick(95.0), SuspendGang)
    assert suspend.job_id == "low"
    assert b.suspended(suspend.generation, "low") == []
    assert only(b.tick(120.0), LaunchGang).job_id == "low"


def test_a_suspendable_job_is_told_its_grace_before_a_booking_and_an_elastic_one_is_not() -> None:
    b = Promising(4)
    b.begin("low", fixed(2, grace_s=40.0, may_suspend=True, retries=3))
    b.begin("a", spec(100_000))
    book(b, 4, (200.0, 300.0))
    assert b.tick(140.0) == []
    suspend = only(b.tick(11.0), SuspendGang)
    assert suspend.job_id == "low"
    assert set(reserved(b.core).values()) == {"b-1"}
    assert len(reserved(b.core)) == 2


def test_a_booking_moves_to_other_nodes_when_its_own_is_lost() -> None:
    b = Promising(4)
    b.say(NodeJoined(at_s=b.now_s, node=node("n1", 4)))
    book(b, 4, (100.0, 200.0))
    (entry,) = entries_of(b.core)
    b.say(NodeLost(at_s=b.now_s, name=entry.node))
    assert b.submit("long", fixed(4, time_s=500.0)) == []
    b.tick(110.0)
    assert set(reserved(b.core).values()) == {"b-1"} and len(reserved(b.core)) == 4


def test_its_times_are_of_the_calendar() -> None:
    b = Promising(2)
    book(b, 2, (1000.0, 2000.0))
    b.say(ClockStepped(at_s=b.now_s, calendar_offset_s=900.0))
    b.tick(110.0)
    assert len(reserved(b.core)) == 2
    b.say(ClockStepped(at_s=b.now_s, calendar_offset_s=0.0))
    assert reserved(b.core) == {}


def test_the_state_is_the_same_after_a_restart() -> None:
    b = Promising(4)
    b.begin("a", spec(100_000))
    book(b, 3, (100.0, 200.0), (500.0, 600.0))
    b.submit("mine", fixed(2, time_s=50.0, grace_s=0.0, booking="b-1"))
    for _ in range(6):
        b.tick(40.0)
        reborn = b.reborn()
        assert reborn.save() == b.core.save()
        assert entries_of(reborn) == entries_of(b.core)


def test_a_turn_that_comes_late_costs_a_promised_job_nothing_but_its_allowance() -> None:
    b = Promising(4)
    generation = b.begin("g", fixed(4, time_s=100.0, grace_s=0.0))
    b.submit("f", strict_fixed(4, 50.0, b.now_s + 200.0))
    (window,) = [entry for entry in entries_of(b.core) if entry.owner == "f"]
    book(b, 4, (window.until_s + 10.0 - b.now_s, window.until_s + 1000.0 - b.now_s))
    b.now_s = window.from_s + 0.5
    assert only(b.gone(generation, Outcome.TIMED_OUT, "g"), LaunchGang).job_id == "f"


def test_a_tenants_quota_holds_for_promised_jobs_and_for_those_of_bookings() -> None:
    b = Promising(4)
    b.say(QuotasSet(at_s=b.now_s, quotas={"t": Quota(devices=1)}))
    b.submit("f", strict_fixed(4, 50.0, b.now_s + 300.0, tenant="t"))
    assert b.phase("f") is Phase.REJECTED
    book(b, 4, (20.0, 400.0))
    b.tick(25.0)
    assert b.submit("h", fixed(4, time_s=50.0, tenant="t", booking="b-1")) == []
    assert "quota" in b.job("h").reason


def test_a_job_that_cannot_run_on_a_node_keeps_no_other_from_it() -> None:
    b = Promising(4)
    b.say(NodeJoined(at_s=b.now_s, node=node("n1", 4)))
    b.begin("x", fixed(4))
    (idle,) = {"n0", "n1"} - {device.partition(".")[0] for device in reserved(b.core)}
    launch = only(b.submit("a", fixed(4, time_s=100.0)), LaunchGang)
    own = tuple(f"{idle}.{number}" for number in range(4))
    ruled = HostRuledOut(at_s=b.now_s, job_id="a", devices=own, message="no data")
    b.say(ruled)
    b.gone(launch.generation, Outcome.LOST, "a")
    assert b.phase("a") is Phase.QUEUED
    assert only(b.submit("c", fixed(4, time_s=200.0)), LaunchGang).job_id == "c"
