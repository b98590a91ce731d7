"""`swell book`, against a real server over a fake platform."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run

from swell.api.fields import InvalidField
from swell.cli.book import times_of

ZONE = ZoneInfo("Europe/Berlin")


@pytest.fixture
def zone() -> Iterator[ZoneInfo]:
    """The submitter's time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = str(ZONE)
    time.tzset()
    yield ZONE
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def test_a_booking_is_made_listed_used_and_removed(here: Run, control: FakeControl) -> None:
    control.booked.clear()
    made = here("book", "--devices", 4, "--from", "now+1h", "--for", "3h")
    assert made.returncode == 0
    assert made.stdout.startswith("b-0: 4 devices, from ") and " for 3 h\n" in made.stdout
    assert made.stdout.endswith("  to use it: swell submit --booking b-0\n")
    listed = here("book", "--list").stdout
    assert listed.splitlines()[0].split() == ["BOOKING", "WHAT", "FROM", "FOR", "MORE", "TIMES"]
    assert "b-0" in listed and "4 devices" in listed
    assert "booked: b-0: 4 devices, from " in here("nodes").stdout
    (one,) = json.loads(here("book", "--list", "--json").stdout)
    assert one["times_s"][0][1] - one["times_s"][0][0] == pytest.approx(3 * 3600)
    assert here("book", "--remove", "b-0").stdout == "b-0: removed\n"
    assert here("book", "--list").stdout == "no bookings\n"
    gone = here("book", "--remove", "b-0")
    assert gone.returncode == 2 and "there is no booking 'b-0'" in gone.stderr


def test_a_node_is_kept_free_for_maintenance(here: Run, control: FakeControl) -> None:
    made = here("book", "--maintenance", "node0", "--from", "now+1h", "--for", "30m", "--every", "week")
    assert "node node0, for maintenance, from " in made.stdout and ", and 59 more, the last " in made.stdout
    assert "--booking" not in made.stdout


def test_what_is_in_the_way_is_told_in_the_submitter_s_zone(
    here: Run, control: FakeControl, zone: ZoneInfo
) -> None:
    refused = here("book", "--devices", 9, "--for", "1h")
    assert refused.returncode == 1
    assert refused.stderr == (
        "swell: the promise of job vae-0001 needs 8 of them; they are free from 2030-01-31T19:00:00 on\n"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--devices", 2), "--for: missing; give the length, such as 3h"),
        (("--devices", 2, "--for", "1h", "--from", "yesterday"), "--from: 'yesterday' is not a time"),
        (("--devices", 2, "--for", "1h", "--from", "2020-01-01"), "--from: 2020-01-01 is "),
        (("--for", "1h"), "swell: --devices: give a number of devices, or the node"),
        (("--devices", 2, "--for", "2d", "--every", "day"), "swell: --from, --for and --every: each time"),
        (("--devices", 2, "--for", "1h", "--for-user", "eve"), "swell: --for-user: 'eve' is no user"),
    ],
)
def test_what_is_wrong_is_told(here: Run, control: FakeControl, words: tuple[object, ...], text: str) -> None:
    refused = here("book", *words)
    assert refused.returncode == 2 and text in refused.stderr


def test_each_week_has_the_same_time_of_day_where_the_clocks_change(zone: ZoneInfo) -> None:
    """In 2030 summer time ends in Berlin on October 27th."""
    now_s = datetime(2030, 10, 1, tzinfo=zone).timestamp()
    times = [*times_of("2030-10-20T09:00", "3h", "week", "2030-11-04", now_s)]
    told = [datetime.fromtimestamp(begin_s, zone).strftime("%m-%d %H:%M %Z") for begin_s, _ in times]
    assert told == ["10-20 09:00 CEST", "10-27 09:00 CET", "11-03 09:00 CET"]
    assert {end_s - begin_s for begin_s, end_s in times} == {3 * 3600.0}
    assert times[1][0] - times[0][0] == 7 * 86400 + 3600


def test_a_recurrent_booking_has_sixty_times_at_most(zone: ZoneInfo) -> None:
    now_s = datetime(2030, 10, 1, tzinfo=zone).timestamp()
    assert len([*times_of("now", "3h", "day", None, now_s)]) == 60
    assert [*times_of("now", "3h", None, None, now_s)] == [(now_s, now_s + 3 * 3600)]
    with pytest.raises(InvalidField, match="--until"):
        list(times_of("now", "3h", "day", "2030-09-01", now_s))
