"""What a page has put together of changes is what the platform shows, whichever it has missed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.fake_control import FakeControl
from tests.live.test_platform import PATIENCE_S
from tests.store.views import job_view

from swell import __version__
from swell.api.page.changes import MAX_ENDED, WARNINGS_S, PageChanges, Told
from swell.api.page.rows import HISTORY_S, SPARK_LENGTH, changes_only, job_row, tenant_rows, thinned
from swell.api.words import SIGNS
from swell.live.board import BoardChanges
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


def as_json(told: Told) -> dict[str, Any]:
    """As a page gets it."""
    found: dict[str, Any] = json.loads(encode(told))
    return found


STEPS = st.tuples(
    st.integers(0, 5),
    st.sampled_from([Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED]),
    st.integers(0, 4),
    st.floats(-9, 9) | st.just(float("nan")),
)


@given(st.lists(STEPS, max_size=20), st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_page_that_hears_now_and_then_shows_what_a_new_one_shows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, Phase, int, float]], heard: list[bool]
) -> None:
    control = FakeControl(Path("unused"))
    feed = PageChanges(control)
    page = Reading(feed)
    for (number, phase, workers, loss), is_heard in zip(steps, heard, strict=False):
        ended = NOW_S if phase.is_end else None
        view = job_view(id=f"job-{number}", phase=phase, workers=workers, loss=loss, finished_s=ended)
        control.put(view)
        feed.shown()
        if is_heard:
            page.hear()
    page.hear()
    fresh = Reading(feed)
    assert page.jobs == fresh.jobs


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


@pytest.mark.parametrize("turns_kept", [1, 1024])
def test_a_job_that_was_pruned_while_no_page_was_open_is_gone(tmp_path: Path, turns_kept: int) -> None:
    control = FakeControl(tmp_path)
    control.turns_kept = turns_kept
    feed = PageChanges(control)
    control.put(job_view())
    page = Reading(feed)
    end(control, "digits-1")
    control.put(job_view(id="other"))
    control.prune(PruneRequest(job_ids=("digits-1",)))
    feed.shown()
    page.hear()
    assert set(page.jobs) == set(Reading(feed).jobs) == {"other"}


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


def test_jobs_that_were_folded_unseen_do_not_displace_later_ones(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    control.turns_kept = 1
    feed = PageChanges(control)
    page = Reading(feed)
    for number in range(2 * MAX_ENDED):  # those that were submitted last end first
        view = job_view(id=f"job-{number:03}", submitted_s=NOW_S + number)
        control.put(msgspec.structs.replace(view, phase=Phase.SUCCEEDED, finished_s=NOW_S + 999 - number))
    feed.shown()
    shown = set(Reading(feed).jobs)
    control.fold()
    control.put(job_view(id="a", phase=Phase.SUCCEEDED, finished_s=NOW_S + 2000))
    control.put(job_view(id="b"))
    feed.shown()
    page.hear()
    assert {"a", "b"} < set(page.jobs)
    assert len(shown & set(page.jobs)) == MAX_ENDED - 1


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


class FailingOnce(FakeControl):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.has_failed = threading.Event()

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        if not self.has_failed.is_set():
            self.has_failed.set()
            cannot_read()
        return super().changes(since, also)


@pytest.mark.slow
def test_pages_can_be_opened_after_a_look_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swell.api.page.changes.AFTER_FAILURE_S", 3600.0)
    control = FailingOnce(tmp_path)
    feed = PageChanges(control)
    feed._follow()
    assert control.has_failed.wait(PATIENCE_S)
    opened = threading.Thread(target=feed.shown, daemon=True)
    opened.start()
    opened.join(PATIENCE_S)
    assert not opened.is_alive()
    feed.stop()


def test_a_page_hears_of_a_turn_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not because it is time for another look."""

    async def scene() -> None:
        monkeypatch.setattr("swell.api.page.changes.LEAST_PAUSE_S", 0.0)
        monkeypatch.setattr("swell.api.page.changes.WARNINGS_S", 3600.0)
        control = FakeControl(tmp_path)
        feed = PageChanges(control)
        last_id = feed.shown().id
        for name in ("first", "second"):
            asked = asyncio.ensure_future(feed.wait(last_id, None, PATIENCE_S))
            control.put(job_view(id=name))
            told = json.loads(await asked)
            assert [job["id"] for job in told["jobs"]] == [name]
            last_id = told["id"]
        feed.stop()

    asyncio.run(scene())


def test_pages_that_have_heard_the_same_get_one_answer(tmp_path: Path) -> None:
    async def scene() -> None:
        control = FakeControl(tmp_path)
        feed = PageChanges(control)
        last_id = feed.shown().id
        control.put(job_view())
        answers = await asyncio.gather(*(feed.wait(last_id, None, PATIENCE_S) for _ in range(5)))
        assert all(one is answers[0] for one in answers)
        feed.stop()

    asyncio.run(scene())


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


def test_the_page_of_a_job_that_ended_long_ago_can_follow_it(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    for number in range(MAX_ENDED + 1):
        end(control, f"job-{number:03}")
    feed = PageChanges(control)
    feed.shown()
    told = feed.since("", "job-000")
    assert [row.id for row in told.jobs] == ["job-000"]
    assert feed.since(told.id, "job-000").jobs == []


@given(st.integers(1, 12), st.integers(1, 5))
def test_estimates_of_all_jobs_are_renewed_however_often_it_is_planned_again(
    num_jobs: int, part: int
) -> None:
    control = FakeControl(Path("unused"))
    for number in range(num_jobs):
        control.put(job_view(id=f"job-{number}", estimated_finish_s=NOW_S))
    feed = PageChanges(control)
    page = Reading(feed)
    num_looks = 1 + -(-num_jobs // part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("swell.api.page.changes.LOOKED_AT_TOGETHER", part)
        for number in range(1, num_looks + 1):  # a plan between any two looks
            control.plan(NOW_S + number)
            feed.shown()
    page.hear()
    assert all(job["expected_s"] > NOW_S for job in page.jobs.values())


@given(st.lists(st.tuples(st.floats(0, HISTORY_S), st.integers(1, 3)), min_size=1, max_size=30))
def test_the_number_of_devices_is_known_for_the_last_hour_and_no_longer(
    steps: list[tuple[float, int]],
) -> None:
    clock = Clock()
    feed, changes = PageChanges(clock, now=clock.now_s), list[tuple[float, int]]()
    for passed_s, clock.num_devices in steps:
        clock.at_s += WARNINGS_S + passed_s
        if not changes or changes[-1][1] != clock.num_devices:
            changes.append((round(clock.at_s, 1), clock.num_devices))
        shown = list(feed.shown().capacity or ())
    begin_s = clock.at_s - HISTORY_S
    assert shown == [one for one, after in pairwise([*changes, (inf, 0)]) if after[0] > begin_s]


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
            tenant_rows(clock.tenants) != tenant_rows(before)
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


def test_nothing_new_is_no_event(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    feed = PageChanges(control)
    control.put(job_view())
    before = feed.shown().id
    assert feed.shown().id == before


def test_an_id_of_another_life_is_answered_with_the_whole_state(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    control.put(job_view())
    former, feed = PageChanges(control), PageChanges(control)
    feed.shown()
    for last_id in (former.shown().id, "", "x", "-", "é-1", f"{feed.shown().id}9", "a" * 40):
        told = feed.since(last_id)
        assert told.version == __version__
        assert told.id == feed.shown().id
        assert [job.id for job in told.jobs] == ["digits-1"]


@pytest.mark.parametrize("path", ["/", "/jobs/digits-1"])
def test_a_page_knows_which_version_has_made_it(served: Served, path: str) -> None:
    """Its script tells by it that a whole state comes from another one."""
    served.control.put(job_view())
    with served.opened() as client:
        text = client.get(path).text
    state = text.partition('<script type="application/json" id="state">')[2].partition("</script>")[0]
    assert json.loads(state)["version"] == __version__


@given(st.integers(1, 5), st.integers(0, 12))
def test_jobs_that_have_left_are_told_of_as_long_as_they_are_known(kept: int, number: int) -> None:
    """A page that was away for longer gets the whole state."""
    control = FakeControl(Path("unused"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("swell.api.page.changes.GONE_KEPT", kept)
        feed = PageChanges(control)
        for name in range(number):
            end(control, f"job-{name}")
        page = Reading(feed)
        for name in range(number):
            control.prune(PruneRequest(job_ids=(f"job-{name}",)))
            feed.shown()
        page.hear()
        assert page.jobs == {}
        assert page.num_whole == (number >= kept)


@given(st.lists(st.floats(-9, 9), max_size=500))
def test_a_history_is_thinned_to_what_a_spark_line_has(values: list[float]) -> None:
    thin = thinned(values)
    assert len(thin) <= SPARK_LENGTH
    assert thin[-1:] == tuple(values[-1:])
    rest = iter(values)
    assert all(value in rest for value in thin)  # in order


def test_ended_jobs_make_room_for_later_ones(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    feed = PageChanges(control)
    page = Reading(feed)
    for number in range(MAX_ENDED + 3):
        control.put(job_view(id=f"job-{number:03}", phase=Phase.SUCCEEDED, finished_s=NOW_S + number))
        feed.shown()
    page.hear()
    assert len(page.jobs) == MAX_ENDED
    assert "job-002" not in page.jobs


def test_a_story_is_told_once(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    control.put(job_view())
    feed = PageChanges(control)
    page = Reading(feed)
    before = len(page.stories)
    control.tell("digits-1", Story(at_s=NOW_S, code="boosted", text="has 3 workers: <b>why</b>"))
    feed.shown()
    page.hear()
    page.hear()
    assert [story["text"] for story in page.stories[before:]] == ["has 3 workers: <b>why</b>"]


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, "on-track"),
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
        ({"phase": Phase.SUCCEEDED}, "done"),
        ({"phase": Phase.FAILED}, "failed"),
        ({"phase": Phase.CANCELLED}, "cancelled"),
        ({"phase": Phase.REJECTED}, "refused"),
    ],
)
def test_a_job_has_the_standing_that_its_view_tells(changes: dict[str, Any], standing: str) -> None:
    row = job_row(job_view(**changes), NOW_S)
    assert row.standing == standing
    assert row.sign == SIGNS[standing]


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


def test_a_promise_without_slack_says_so() -> None:
    from swell.policies.wording import barely_keeps_promise

    view = job_view(reason=barely_keeps_promise(2, 30.0))
    assert job_row(view, NOW_S).standing == "no-slack"


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60))
def test_the_spark_line_holds_numbers_only(losses: list[float]) -> None:
    row = None
    for steps, loss in enumerate(losses):
        row = job_row(job_view(loss=loss, steps=steps), NOW_S, row)
    assert row is not None
    json.dumps(row.spark, allow_nan=False)


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


def test_what_happens_to_a_job_in_one_second_is_one_line() -> None:
    told = [("warned", "its disk is slow"), ("priority", "its owner changes its priority from 0 to 5")]
    stories = [
        ("a", Story(at_s=1.0 + number / 10, code=code, text=text)) for number, (code, text) in enumerate(told)
    ]
    ((job_id, story),) = changes_only(stories)
    assert (job_id, story.code, story.text) == ("a", "priority", "; ".join(text for _, text in told))


def test_more_steps_are_told_after_a_while_and_all_else_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.api.page.changes.LEAST_PAUSE_S", 0.0)
    monkeypatch.setattr("swell.api.page.changes.PROGRESS_S", 3600.0)

    async def scene() -> None:
        control = FakeControl(tmp_path)
        control.put(job_view())
        feed = PageChanges(control)
        last_id = feed.shown().id
        asked = asyncio.ensure_future(feed.wait(last_id, None, PATIENCE_S))
        control.put(job_view(steps=900))
        while feed.last_id == last_id:
            await asyncio.sleep(0)
        assert not asked.done()
        control.put(job_view(steps=900, workers=7))
        (job,) = json.loads(await asked)["jobs"]
        assert (job["steps"], job["size"]) == (900, 7)
        monkeypatch.setattr("swell.api.page.changes.PROGRESS_S", 0.0)
        last_id = feed.last_id
        control.put(job_view(steps=950, workers=7))
        (job,) = json.loads(await feed.wait(last_id, None, PATIENCE_S))["jobs"]
        assert job["steps"] == 950
        feed.stop()

    asyncio.run(scene())
