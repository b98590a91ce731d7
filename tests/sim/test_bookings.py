"""Bookings of a simulation: read, weighed by the head, and kept free of all jobs but their owners'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.sim.worlds import fixed, head, job

from swell.model.booking import Booking
from swell.model.errors import InvalidInput
from swell.model.event import BookingMade
from swell.sim.change_cost import change_cost
from swell.sim.job import SimJob
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.pool import read_bookings
from swell.sim.simulate import cluster, simulate
from swell.sim.world import Scenario

RATES = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def booked(num_devices: int, *times_s: tuple[float, float], at_s: float = 0.0, node: str = "") -> BookingMade:
    return BookingMade(
        at_s=at_s, booking=Booking(id="b", num_devices=num_devices, node=node, times_s=times_s)
    )


def run(jobs: Sequence[SimJob], *bookings: BookingMade) -> SimOutcome:
    """On one node of 8 devices, where changes cost nothing."""
    scenario = Scenario(nodes=cluster(1, 8, "gpu"), jobs=jobs, cost=change_cost("none", 8), others=bookings)
    return simulate(head("unified"), scenario)


def test_elastic_jobs_use_booked_devices_until_then_and_after() -> None:
    (one,) = run([job("a", steps=16_000, rates=RATES)], booked(4, (1000.0, 1500.0), at_s=100.0)).jobs
    assert [size for _, size in one.sizes] == [8, 4, 8, 0]
    (_, left_s, back_s, _) = [at_s for at_s, _ in one.sizes]
    assert 980.0 <= left_s <= 1000.0 and back_s == 1500.0


def test_a_job_of_a_booking_has_its_devices_alone() -> None:
    user = fixed("user", 200.0, 4, 300, time_s=400.0)
    user = replace(user, spec=msgspec.structs.replace(user.spec, booking="b"))
    jobs = {
        one.id: one
        for one in run([job("a", steps=16_000, rates=RATES), user], booked(4, (1000.0, 1500.0))).jobs
    }
    assert (jobs["user"].start_s, jobs["user"].end_s) == (1000.0, 1300.0)


def test_a_booking_that_would_break_a_promise_is_refused_and_counted() -> None:
    promised = job("a", steps=8000, rates=RATES, deadline_s=1200.0)
    outcome = run([promised], booked(8, (100.0, 900.0), at_s=50.0))
    assert outcome.jobs[0].is_kept and "promise of a" in outcome.refused_bookings["b"].text
    assert metrics_of(outcome).refused_bookings == 1


def test_rows_of_one_id_are_times_of_one_booking(tmp_path: Path) -> None:
    file = tmp_path / "bookings.csv"
    file.write_text("id,begin_s,end_s,devices,node,made_s\nb,500,600,4,,10\nm,50,60,,n0,\nb,100,200,4,,10\n")
    assert read_bookings(file) == [
        booked(4, (100.0, 200.0), (500.0, 600.0), at_s=10.0),
        BookingMade(at_s=0.0, booking=Booking(id="m", node="n0", times_s=((50.0, 60.0),))),
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("b,100,50,4", "line 2: a booking has an id, and ends after its begin"),
        (",100,150,4", "line 2: a booking has an id"),
        ("b,100,150,", "line 2: a booking is of a number of devices, or of a node"),
        ("b,100,soon,4", "line 2: end_s is not a number: 'soon'"),
    ],
)
def test_rows_that_are_no_bookings_are_refused(tmp_path: Path, rows: str, told: str) -> None:
    file = tmp_path / "bookings.csv"
    file.write_text(f"id,begin_s,end_s,num_devices\n{rows}\n")
    with pytest.raises(InvalidInput, match=told):
        read_bookings(file)
