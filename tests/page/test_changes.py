"""What a page has put together of changes is what the platform shows, whichever it has missed."""

from __future__ import annotations

import asyncio
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.fake_control import FakeControl
from tests.api.stage import on_stage
from tests.live.test_platform import PATIENCE_S
from tests.store.views import job_view

from swell.api.page.changes import MAX_ENDED, WARNINGS_S, PageChanges, PageUpdate
from swell.api.page.rows import changes_only, job_row, tenant_rows
from swell.api.words import SIGNS
from swell.cli.jobs import row as listed
from swell.live import board as board_module
from swell.live.pruning import PruneRequest
from swell.model.coding import encode
from swell.model.errors import UnknownJob
from swell.model.job import JobClass, Phase
from swell.model.quota import TenantDevices
from swell.model.view import Story

from .conftest import Served

NOW_S = 1_800_000_050.0


class Reading:
    """A page: the state that it was loaded with, and what it has heard since, as its script does it."""

    def __init__(self, feed: PageChanges) -> None:
        self._feed = feed
        self.num_whole = -1
        self._take(as_json(feed.shown()))

    def _take(self, told: dict[str, Any]) -> None:
        if "version" in told:
            self.jobs: dict[str, Any] = {}
            self.stories: list[Any] = []
            self.num_whole += 1
        self.id: str = told["id"]
        self.jobs |= {job["id"]: job for job in told.get("jobs", ())}
        for job_id in told.get("gone", ()):
            self.jobs.pop(job_id, None)
        self.stories += told.get("stories", ())
        self.tenants: list[Any] = told.get("tenants", getattr(self, "tenants", []))

    def hear(self) -> None:
        self._take(as_json(self._feed.since(self.id)))


def as_json(told: PageUpdate) -> dict[str, Any]:
    """As a page gets it."""
    found: dict[str, Any] = json.loads(encode(told))
    return found


def end(control: FakeControl, job_id: str) -> None:
    control.put(job_view(id=job_id, phase=Phase.SUCCEEDED, finished_s=NOW_S))


STEPS_AND_FOLDS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["put", "end", "fold"]), st.booleans()), max_size=30
)


@given(STEPS_AND_FOLDS, st.integers(1, 6))
def test_a_feed_shows_each_job_as_it_is_however_seldom_it_looks(
    steps: list[tuple[int, str, bool]], turns_kept: int
) -> None:
    control, ended = FakeControl(Path("unused")), set[str]()
    control.turns_kept = turns_kept
    feed = PageChanges(control)
    page = Reading(feed)
    for number, what, is_look in steps:
        job_id = f"job-{number}"
        if what == "fold":
            control.fold()
        elif what == "end":
            end(control, job_id)
            ended.add(job_id)
        elif job_id not in ended:
            control.put(job_view(id=job_id))
        if is_look:
            feed.shown()
    feed.shown()
    page.hear()
    assert {job["id"]: job["phase"] for job in page.jobs.values()} == {
        view.id: str(view.phase) for view in control.jobs()
    }


@given(
    st.lists(st.integers(0, 9), unique=True, min_size=1),
    st.lists(st.integers(10, 80), max_size=70),
    st.booleans(),
)
def test_a_job_that_is_pruned_leaves_the_open_pages(
    pruned: list[int], later: list[int], is_dry_run: bool
) -> None:
    control = FakeControl(Path("unused"))
    feed = PageChanges(control)
    page = Reading(feed)
    for number in range(10):
        end(control, f"job-{number}")
    feed.shown()
    page.hear()
    request = PruneRequest(job_ids=tuple(f"job-{number}" for number in pruned), is_dry_run=is_dry_run)
    control.prune(request)
    feed.shown()
    page.hear()
    kept = {f"job-{number}" for number in range(10) if is_dry_run or number not in pruned}
    assert set(page.jobs) == kept
    for number in later:  # others end, and push the oldest out
        end(control, f"job-{number}")
        feed.shown()
    page.hear()
    assert set(page.jobs) == set(Reading(feed).jobs)
    assert len(page.jobs) == min(MAX_ENDED, len(kept) + len(set(later)))
    assert page.num_whole == 0


def cannot_read(*asked: object, **also: object) -> NoReturn:
    raise OSError("the disk cannot be read")


@pytest.mark.parametrize("failing", ["jobs", "stories", "metrics", "cluster", "tenant_devices"])
@pytest.mark.parametrize("has_begun", [False, True])
def test_a_look_that_fails_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, has_begun: bool
) -> None:
    control = FakeControl(tmp_path)
    control.turns_kept = 1
    feed = PageChanges(control)
    end(control, "earlier")
    control.fold()
    if has_begun:
        page = Reading(feed)
    control.put(job_view())
    control.put(job_view(id="other", workers=4))
    control.tell("other", Story(at_s=NOW_S, code="boosted", text="has 4 workers"))
    with monkeypatch.context() as broken:
        broken.setattr(control, failing, cannot_read)
        if has_begun and failing == "stories":
            feed.shown()  # reads them at first only
        else:
            with pytest.raises(OSError, match="disk"):
                feed.shown()
    feed.shown()
    fresh = Reading(feed)
    if has_begun:
        page.hear()
        assert (page.jobs, page.stories) == (fresh.jobs, fresh.stories)
    else:
        assert fresh.stories == Reading(PageChanges(control)).stories
    assert set(fresh.jobs) == {"earlier", "digits-1", "other"}
    assert [story["text"] for story in fresh.stories].count("has 4 workers") == 1


def test_who_waits_in_vain_is_answered_in_time_and_when_the_platform_stops(tmp_path: Path) -> None:
    async def scene() -> None:
        feed = PageChanges(FakeControl(tmp_path))
        last_id = feed.shown().id
        told = json.loads(await feed.wait(last_id, None, 0.0))
        assert (told.keys(), told["id"]) == ({"id", "now_s"}, last_id)
        asked = asyncio.ensure_future(feed.wait(last_id, None, 3600.0))
        await asyncio.sleep(0)
        feed.stop()
        assert json.loads(await asyncio.wait_for(asked, PATIENCE_S))["id"] == last_id

    asyncio.run(scene())


def test_the_page_of_a_job_hears_of_that_job_alone(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    control.put(job_view())
    feed = PageChanges(control)
    last_id = feed.since("", "digits-1").id
    control.put(job_view(id="other"))
    feed.shown()
    told = feed.since(last_id, "digits-1")
    assert (told.id != last_id, told.jobs, told.nodes) == (True, [], None)
    control.tell("digits-1", Story(at_s=NOW_S, code="boosted", text="has 4 workers"))
    control.put(job_view(workers=4))
    feed.shown()
    assert [row.size for row in feed.since(told.id, "digits-1").jobs] == [4]
    control.put(job_view(id="digits-1", phase=Phase.SUCCEEDED, finished_s=NOW_S))
    control.prune(PruneRequest(job_ids=("digits-1",)))
    feed.shown()
    with pytest.raises(UnknownJob):
        feed.since(told.id, "digits-1")


TENANTS = st.dictionaries(
    st.tuples(st.sampled_from(["speech", "vision"]), st.sampled_from(["slow", "fast"])),
    st.builds(TenantDevices, st.integers(0, 4), st.integers(1, 4)),
)


@given(TENANTS, st.lists(TENANTS, max_size=8))
def test_a_page_shows_what_tenants_hold_and_hears_of_it_only_when_it_changes(
    first: dict[tuple[str, str], TenantDevices], later: list[dict[tuple[str, str], TenantDevices]]
) -> None:
    clock = Clock()
    clock.tenants = first
    feed = PageChanges(clock, now=clock.now_s)
    page = Reading(feed)
    for before, clock.tenants in pairwise([first, *later]):
        clock.at_s += WARNINGS_S
        feed.shown()
        assert ("tenants" in as_json(feed.since(page.id))) == (
            tenant_rows(clock.tenants, ()) != tenant_rows(before, ())
        )
        page.hear()
        is_one_kind = len({kind for _, kind in clock.tenants}) == 1
        assert page.tenants == Reading(feed).tenants
        assert [(row["tenant"], row["kind"], row["num_held"], row["most"]) for row in page.tenants] == [
            (tenant, "" if is_one_kind else kind, *devices)
            for (tenant, kind), devices in clock.tenants.items()
        ]


class Clock(FakeControl):
    """A platform whose time is told."""

    def __init__(self) -> None:
        super().__init__(Path("unused"))
        self.at_s = NOW_S

    def now_s(self) -> float:
        return self.at_s


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, "on-track"),
        ({"is_promised": False, "job_class": JobClass.SOFT}, "unpromised"),
        ({"estimated_finish_s": 1_800_000_190.0}, "at-risk"),
        ({"estimated_finish_s": 1_800_000_190.0, "is_promised": False}, "late"),
        ({"reason_code": "at_risk"}, "at-risk"),
        ({"estimated_finish_s": None}, "at-risk"),
        ({"reason_code": "nowhere", "is_promised": False, "estimated_finish_s": None}, "late"),
        ({"deadline_s": NOW_S - 0.1}, "overdue"),
        ({"deadline_s": NOW_S - 0.1, "is_promised": False}, "overdue"),
        ({"reason_code": "profiling", "is_promised": False}, "measuring"),
        ({"deadline_s": None, "job_class": JobClass.BEST_EFFORT, "is_promised": False}, "free"),
        ({"phase": Phase.SUCCEEDED, "kept": True}, "kept"),
        ({"phase": Phase.SUCCEEDED, "kept": False}, "missed"),
        ({"phase": Phase.SUCCEEDED, "kept": False, "is_promised": False}, "ended-late"),
        ({"phase": Phase.FAILED, "kept": False, "finished_s": NOW_S - 1.0, "deadline_s": NOW_S}, "not-kept"),
        ({"phase": Phase.CANCELLED}, "void"),
        (
            {"phase": Phase.QUEUED, "is_held": True, "is_promised": False, "estimated_finish_s": None},
            "measuring",
        ),
        ({"phase": Phase.FAILED, "deadline_s": None}, "free"),
        ({"stalled_since_s": NOW_S - 90.0}, "at-risk"),
        ({"stalled_since_s": NOW_S - 90.0, "is_promised": False}, "late"),
        ({"phase": Phase.REJECTED}, "refused"),
    ],
)
def test_a_job_has_the_standing_that_its_view_tells(changes: dict[str, Any], standing: str) -> None:
    row = job_row(job_view(**changes), NOW_S)
    assert row.standing == standing
    assert row.sign == SIGNS[standing]


@pytest.mark.parametrize(
    ("changes", "word", "mood"),
    [
        ({}, "running", ""),
        ({"stalled_since_s": NOW_S - 90.0}, "running, no step for 90 s", "bad"),
        ({"phase": Phase.QUEUED, "is_held": True}, "held", ""),
        ({"phase": Phase.QUEUED, "awaits": ("a-1", "b-1")}, "after a-1, ...", ""),
        ({"phase": Phase.QUEUED, "reason_code": "profiling"}, "trial", ""),
        ({"phase": Phase.SUCCEEDED, "kept": True}, "succeeded", ""),
        ({"phase": Phase.SUCCEEDED, "kept": True, "loss": math.nan}, "ended, loss nan", "bad"),
        ({"phase": Phase.FAILED, "kept": False}, "failed", "bad"),
    ],
)
def test_the_page_and_the_command_line_tell_one_state(changes: dict[str, Any], word: str, mood: str) -> None:
    view = job_view(**changes)
    row = job_row(view, NOW_S)
    assert (row.phase_word, row.mood) == (word, mood)
    assert listed(view, NOW_S)["PHASE"] == word


def test_a_deadline_that_passes_without_a_turn_is_said_to_be_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"now_s": NOW_S, "clock_s": 0.0}
    control = FakeControl(tmp_path)
    monkeypatch.setattr(control, "now_s", lambda: times["now_s"])
    control.put(job_view(phase=Phase.QUEUED, deadline_s=NOW_S + 10.0, estimated_finish_s=NOW_S + 5.0))
    feed = PageChanges(control, lambda: times["clock_s"])
    page = Reading(feed)
    assert page.jobs["digits-1"]["standing"] == "on-track"
    for _ in range(3):
        times["now_s"] += 10.0
        times["clock_s"] += 10.0
        feed.shown()
    page.hear()
    assert page.jobs["digits-1"]["standing"] == "overdue"
    assert page.num_whole == 0


def test_a_page_goes_on_where_it_was(served: Served) -> None:
    served.control.put(job_view())
    with served.opened() as client:
        state_id = served.page.changes.shown().id
        served.control.put(job_view(workers=4))
        told = client.get("/v1/changes", params={"since": state_id, "wait_s": 30.0}).json()
        assert [job["size"] for job in told["jobs"]] == [4]
        assert client.get("/v1/changes", params={"since": state_id}).json() == told
        assert "jobs" not in client.get("/v1/changes", params={"since": told["id"]}).json()


def test_a_page_of_an_earlier_daemon_gets_the_whole_state(served: Served) -> None:
    served.control.put(job_view())
    with served.opened() as client:
        told = client.get("/v1/changes", params={"since": "00000000-7", "wait_s": 30.0}).json()
        assert [job["id"] for job in told["jobs"]] == ["digits-1"]
        assert client.get("/v1/changes", params={"job": "nobody"}).status_code == 404
        assert client.get("/v1/changes", params={"wait_s": "61"}).status_code == 422


def test_a_change_is_one_line() -> None:
    def at(at_s: float, code: str, text: str) -> tuple[str, Story]:
        return "a", Story(at_s=at_s, code=code, text=text)

    why = "has 2 workers: minimum 1, plus 1 to finish 59 s sooner"
    other = ("b", Story(at_s=1.0, code="boosted", text=why))
    stories = [
        at(0.5, "waiting", "waits: promises come first"),
        at(1.0, "boosted", why),
        other,
        at(1.0, "decided", f"is to go from 4 to 2 workers: {why}"),
        at(2.0, "resized", "went from 4 to 2 workers at step 43"),
        at(3.0, "finding", "may have any size: its trial run found random-draws"),
        at(4.0, "boosted", why),
        at(5.0, "sharing", "has 2 workers, its minimum"),
    ]
    shown = [stories[0], other, stories[3], stories[7]]
    assert changes_only(stories) == shown
    assert changes_only(stories[6:], {"a": stories[3][1].text}) == shown[3:]


def test_a_reader_that_was_away_for_long_is_told_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "TURNS_KEPT", 1)
    script = tmp_path / "train.py"
    script.write_text("print('training')\n")
    with on_stage(tmp_path / "state") as stage:
        job_id = stage.run(script, workers="1:1")
        stage.run(script, name="other", workers="1:1")
        found = stage.platform.changes(1)
        assert found.is_all
        assert job_id in {view.id for view in found.views}
