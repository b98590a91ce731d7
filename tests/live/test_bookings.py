"""Bookings on a platform with a real head and journal: made, refused, used, kept, removed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.live.parts import NODE, Hands, spec
from tests.live.test_platform import as_if_killed, running, until

from swell.live.platform import Platform
from swell.model.booking import Booking
from swell.model.errors import BookingRefused, InvalidInput, InvalidJob, UnknownBooking, UnknownNode
from swell.model.job import FIXED_ENTRY, Elasticity, FixedTerms, JobClass, JobSpec, Origin, Phase

HOUR_S = 3600.0


@contextmanager
def up(folder: Path, hands: Hands | None = None) -> Iterator[Platform]:
    with running(folder, hands or Hands()) as platform:
        until(lambda: platform.cluster().num_devices == 2)
        yield platform


def booking(platform: Platform, *hours: float, **said: Any) -> Booking:
    """Two hours from each of these hours from now on."""
    now_s = platform.now_s()
    times_s = tuple((now_s + HOUR_S * one, now_s + HOUR_S * (one + 2)) for one in hours)
    given: dict[str, Any] = {"id": "", "num_devices": 2, "times_s": times_s}
    return Booking(**given | said)


def command(booking_id: str, time_s: float = 60.0, devices: int = 1) -> JobSpec:
    return spec(
        entry=FIXED_ENTRY,
        args=("sleep", "9"),
        elasticity=Elasticity.FIXED,
        fixed=FixedTerms(time_s=time_s),
        max_workers=1,
        devices_per_worker=devices,
        global_batch=1,
        booking=booking_id,
    )


def test_the_next_one_stands_first_and_one_that_is_removed_is_no_more(tmp_path: Path) -> None:
    with up(tmp_path) as platform:
        later = platform.book(booking(platform, 5, 30, user="ann", booked_by="bob"))
        sooner = platform.book(booking(platform, 1))
        assert platform.bookings() == platform.cluster().bookings == (sooner, later)
        assert later.kind == NODE.kind and later.id.startswith("b-") and later.id != sooner.id
        assert platform.remove_booking(later.id) == later
        assert platform.bookings() == (sooner,)
        with pytest.raises(UnknownBooking, match=f"no booking '{later.id}'"):
            platform.remove_booking(later.id)


def test_what_is_in_the_way_is_named_with_the_nearest_time(tmp_path: Path) -> None:
    with up(tmp_path) as platform:
        made = platform.book(booking(platform, 1, num_devices=1))
        with pytest.raises(BookingRefused, match=rf"{made.id}.*; they are free from .* on$") as refused:
            platform.book(booking(platform, 2))
        begin_s = datetime.fromisoformat(str(refused.value).split()[-2]).timestamp()
        offered = booking(platform, 0, times_s=((begin_s, begin_s + 60.0),))
        assert platform.book(offered).times_s == offered.times_s
        platform.book(booking(platform, 1, num_devices=1))  # the other device
        assert len(platform.bookings()) == 3


def test_of_those_who_book_the_same_devices_at_once_one_has_them(tmp_path: Path) -> None:
    with up(tmp_path) as platform:

        def book(user: str) -> Booking | None:
            try:
                return platform.book(booking(platform, 1, user=user))
            except BookingRefused:
                return None

        with ThreadPoolExecutor(8) as pool:
            made = [one for one in pool.map(book, "abcdefgh") if one is not None]
        assert tuple(made) == platform.bookings() and len(made) == 1


def test_a_node_is_booked_for_maintenance(tmp_path: Path) -> None:
    with up(tmp_path) as platform:
        made = platform.book(booking(platform, 1, num_devices=0, node=NODE.name))
        assert str(made) == "node node0, for maintenance"
        with pytest.raises(InvalidJob, match="is a booking of node node0, for maintenance, not yours"):
            platform.submit(command(made.id))
        with pytest.raises(UnknownNode, match="there is no node 'far'"):
            platform.book(booking(platform, 1, num_devices=0, node="far"))


def test_what_there_is_not_cannot_be_booked(tmp_path: Path) -> None:
    with up(tmp_path) as platform:
        with pytest.raises(InvalidInput, match="--devices: the platform has 2 of kind 'cpu'"):
            platform.book(booking(platform, 1, num_devices=3))
        with pytest.raises(InvalidInput, match="--devices: the platform has 0 of kind 'h100'"):
            platform.book(booking(platform, 1, kind="h100"))


def test_a_job_runs_in_the_booking_of_its_user_and_in_no_other(tmp_path: Path) -> None:
    ann = Origin(user="ann")
    with up(tmp_path) as platform:
        now = platform.book(booking(platform, 0, user="ann", num_devices=1))
        for asked, origin, text in (
            (command("b-none"), ann, "'b-none' is no booking; `swell book --list` lists all"),
            (command(now.id), Origin(user="bob"), "is a booking of 1 device, for ann, not yours"),
            (command(now.id, devices=2), ann, "has 1 device, and job 'a' needs 2; book more"),
            (
                command(now.id, time_s=3 * HOUR_S),
                ann,
                "has no time of 3 h left, which --time and --grace may",
            ),
        ):
            with pytest.raises(InvalidJob, match=text):
                platform.submit(asked, origin)
        job_id = platform.submit(command(now.id), ann).id
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        assert platform.job(job_id).booking == now.id
        later = platform.book(booking(platform, 3, user="ann", num_devices=1))
        waiting = platform.submit(command(later.id), ann).id
        until(lambda: later.id in platform.job(waiting).reason)
        assert platform.job(waiting).phase is Phase.QUEUED


def test_a_daemon_that_is_killed_keeps_its_bookings(tmp_path: Path) -> None:
    hands = Hands()
    with up(tmp_path, hands) as first:
        made = first.book(booking(first, 1))
        left, survivors = as_if_killed(tmp_path, hands)
    with up(left, survivors) as second:
        assert second.bookings() == (made,)


@pytest.mark.slow
def test_an_elastic_job_goes_on_as_any_other_when_its_booking_is_over(tmp_path: Path) -> None:
    with up(tmp_path) as platform:
        made = platform.book(booking(platform, 0, times_s=((platform.now_s(), platform.now_s() + 8.0),)))
        job_id = platform.submit(spec(booking=made.id)).id
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        assert platform.job(job_id).booking == made.id
        until(lambda: not platform.job(job_id).booking)
        view = platform.job(job_id)
        assert (view.phase, view.job_class, view.is_unpromised) == (
            Phase.RUNNING,
            JobClass.BEST_EFFORT,
            False,
        )
