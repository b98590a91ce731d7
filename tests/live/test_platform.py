"""The whole live room: real journal, real threads, obedient hands."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from swell.core import last_plan
from swell.core.kinds import KindAdmission
from swell.live import head_journal
from swell.live.platform import Platform
from swell.live.recovery import ReplayError, compare, replay
from swell.model.command import LaunchGang, StopGang
from swell.model.errors import InvalidJob, Unavailable
from swell.model.event import JobSubmitted, NodeJoined, Outcome
from swell.model.job import Elasticity, EndCondition, JobClass, Phase
from swell.model.node import Node
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.store import database
from swell.store.journal import SqlJournal

from .parts import (
    NODE,
    Hands,
    OneDeviceEach,
    new_core,
    new_platform,
    spec,
)

PATIENCE_S = 20.0


@contextmanager
def running(
    folder: Path, hands: Hands, journal: SqlJournal | None = None, **options: Any
) -> Iterator[Platform]:
    """A platform at work in a thread of its own; stopped in good order at the end. See `new_platform`."""
    platform, journal = new_platform(folder, hands, journal, **options)
    with at_work(platform, journal):
        yield platform


@contextmanager
def at_work(platform: Platform, journal: SqlJournal) -> Iterator[None]:
    """In a thread of its own; stopped in good order at the end."""
    platform.start()
    thread = threading.Thread(target=platform.run)
    thread.start()
    try:
        yield
    finally:
        platform.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        journal.close()


def run_job(platform: Platform, name: str = "a", **changes: Any) -> str:
    """Submit a job, and wait until it runs. Returns its id."""
    job_id = platform.submit(spec(name, **changes)).id
    until(lambda: platform.job(job_id).phase is Phase.RUNNING)
    return job_id


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread, as a user who polls does."""
    waiter = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if condition():
            return
        waiter.wait(0.01)
    raise AssertionError("waited in vain")


def test_a_job_is_profiled_launched_and_ended(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        job_id = run_job(platform)
        hands.deliver(hands.report(job_id, 60))
        until(lambda: platform.job(job_id).steps >= 60)
        hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
        until(lambda: platform.job(job_id).phase is Phase.SUCCEEDED)
        codes = [story.code for story in platform.stories(job_id)]
        assert codes[0] == "submitted" and codes[-1] == "succeeded" and "decided" in codes
        assert platform.cluster().num_free == 2


def test_hands_hear_how_many_devices_jobs_could_use_also_after_a_restart(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        ids = [platform.submit(spec(name, max_workers=2)).id for name in "ab"]
        until(lambda: hands.wanted[-1:] == [4])
        until(lambda: platform.job(ids[0]).phase is Phase.RUNNING)
        hands.deliver(hands.ended(ids[0], Outcome.SUCCEEDED))
        until(lambda: hands.wanted[-1:] == [2])
    hands.wanted.clear()
    with running(tmp_path, hands):
        until(lambda: hands.wanted[:1] == [2])


def test_stories_are_told_once_also_after_a_crash(tmp_path: Path) -> None:
    hands, folder, copy = Hands(), tmp_path / "site", tmp_path / "crashed"
    folder.mkdir()
    copy.mkdir()
    with running(folder, hands) as platform:
        job_id = run_job(platform)
        hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
        until(lambda: platform.job(job_id).phase is Phase.SUCCEEDED)
        told = platform.stories(job_id)
        platform.head_state()  # the turn is over
        database.copy_file(folder / "journal.db", copy / "journal.db")
    assert len(set(told)) == len(told)
    again, journal = new_platform(copy, Hands())
    assert again.stories(job_id) == told
    journal.close()


@pytest.mark.parametrize(("limit_s", "is_folded"), [(1e6, False), (0.0, True)])
def test_batches_that_would_take_long_to_be_handled_again_are_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float, is_folded: bool
) -> None:
    monkeypatch.setattr(head_journal, "TIMES_A_FOLD", 0)
    monkeypatch.setattr(head_journal, "FOLD_AFTER_S", limit_s)
    with running(tmp_path, Hands()) as platform:
        platform.submit(spec())
        platform.head_state()  # the turn is over
        with closing(SqlJournal(tmp_path / "journal.db")) as reader:
            until(lambda: not is_folded or reader.history().seq > 0)
            assert (reader.history().seq > 0) is is_folded


def test_stopping_suspends_jobs_and_the_next_platform_goes_on_with_them(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        job_id = run_job(platform)
    assert hands.gangs == {}
    with running(tmp_path, hands) as platform:
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        assert platform.job(job_id).generation == 3  # launched, suspended, launched


def as_if_killed(folder: Path, hands: Hands, name: str = "left") -> tuple[Path, Hands]:
    """What a kill -9 at this moment leaves: the journal on disk, and gangs that do not notice."""
    left = folder / name
    left.mkdir()
    with sqlite3.connect(folder / "journal.db") as source, sqlite3.connect(left / "journal.db") as target:
        source.backup(target)
    return left, hands.survivors()


def test_a_platform_that_was_killed_adopts_what_runs(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as first:
        job_id = run_job(first)
        left, survivors = as_if_killed(tmp_path, hands)
    with running(left, survivors) as second:
        until(lambda: second.cluster().num_free == 1)
        assert second.job(job_id).phase is Phase.RUNNING
        assert second.job(job_id).generation == 1
        assert survivors.performed == []


def test_a_deadline_that_was_promised_while_it_ran_is_one_after_a_kill(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as first:
        job_id = run_job(first)
        deadline_s = first.now_s() + 3600.0
        assert first.ask_deadline(job_id, deadline_s).is_promised
        left, survivors = as_if_killed(tmp_path, hands)
    with running(left, survivors) as second:
        until(lambda: second.cluster().num_free == 1)
        assert second.job(job_id).is_promised
        assert second.job(job_id).deadline_s == pytest.approx(deadline_s)
        assert survivors.performed == []


def test_a_command_that_was_never_answered_is_said_again(tmp_path: Path) -> None:
    hands = Hands()
    hands.is_obedient = False
    with running(tmp_path, hands) as first:
        job_id = first.submit(spec()).id
        until(lambda: len(hands.performed) == 1)
        left, survivors = as_if_killed(tmp_path, hands)
    with running(left, survivors) as second:
        until(lambda: second.job(job_id).phase is Phase.RUNNING)


def test_cancel_ends_a_waiting_and_a_running_job(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        ids = [platform.submit(spec(name)).id for name in "abc"]
        until(lambda: sum(platform.job(i).phase is Phase.RUNNING for i in ids) == 2)
        for job_id in ids:
            platform.cancel(job_id)
        until(lambda: all(platform.job(i).phase is Phase.CANCELLED for i in ids))
        platform.cancel(ids[0])  # no effect on a job that has ended
        assert platform.job(ids[0]).phase is Phase.CANCELLED


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"min_workers": 3}, "the cluster has 2"),
        ({"global_batch": 1, "min_workers": 2}, "powers of two"),
        (
            {
                "elasticity": Elasticity.RESTART,
                "end": EndCondition(),
                "job_class": JobClass.STRICT,
                "deadline_s": 9e9,
            },
            "submit it with --steps",
        ),
    ],
)
def test_a_job_that_can_never_run_is_refused_before_it_is_one(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with running(tmp_path, Hands()) as platform:
        with pytest.raises(InvalidJob, match=words):
            platform.submit(spec(**changes))
        assert platform.jobs() == []


def with_poison(folder: Path) -> None:
    """A second node with the same devices is no event that a machine sends."""
    journal = SqlJournal(folder / "journal.db")
    journal.append([NodeJoined(at_s=1.0, node=NODE)])
    journal.append([NodeJoined(at_s=2.0, node=Node(name="other", kind="cpu", devices=NODE.devices))])
    journal.append([JobSubmitted(at_s=3.0, job_id="a", spec=spec())])
    journal.close()


def test_a_batch_that_cannot_be_handled_is_named_and_the_next_platform_goes_on_without_it(
    tmp_path: Path,
) -> None:
    with_poison(tmp_path)
    journal = SqlJournal(tmp_path / "journal.db")
    with pytest.raises(ReplayError, match=r"batch 2 .*`swell up` sets aside"):
        compare(replay(new_core(), journal.history().entries))
    journal.close()
    hands = Hands()
    with running(tmp_path, hands) as platform:
        until(lambda: platform.job("a").phase is Phase.RUNNING)
        left, _ = as_if_killed(tmp_path, hands)
    journal = SqlJournal(left / "journal.db")
    core = new_core()
    assert compare(replay(core, journal.history().entries)).is_equal
    assert [type(aside.event) for aside in core.set_aside] == [NodeJoined]
    journal.close()


def test_a_request_that_is_set_aside_is_not_answered_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(self: KindAdmission, *kinds: str) -> list[Node]:
        raise ZeroDivisionError("of the scheduler")

    with running(tmp_path, Hands()) as platform:
        job_id = run_job(platform)
        with monkeypatch.context() as patch:
            patch.setattr(KindAdmission, "allow", raising)
            with pytest.raises(Unavailable, match=r"set aside .*ZeroDivisionError: of the scheduler"):
                platform.allow_kind("gpu")
        platform.cancel(job_id)
        until(lambda: platform.job(job_id).phase is Phase.CANCELLED)


def test_a_policy_that_raises_is_warned_of_and_jobs_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(self: OneDeviceEach, snapshot: Snapshot) -> Allocation:
        raise ZeroDivisionError("of the policy")

    monkeypatch.setattr(last_plan, "RETRY_S", 0.1)
    hands = Hands()
    with running(tmp_path, hands) as platform:
        first = run_job(platform)
        with monkeypatch.context() as patch:
            patch.setattr(OneDeviceEach, "decide", raising)
            second = platform.submit(spec("b")).id
            until(lambda: "ZeroDivisionError: of the policy" in platform.cluster().warnings.get("plan", ""))
            assert platform.job(first).phase is Phase.RUNNING
            assert platform.job(second).phase is Phase.QUEUED
        until(lambda: platform.job(second).phase is Phase.RUNNING)
        assert not platform.cluster().warnings.get("plan")


# ---------------------------------------------------------------- another journal
def first_index(hands: Hands, kind: type[LaunchGang | StopGang], job_id: str) -> int:
    return next(i for i, c in enumerate(hands.performed) if isinstance(c, kind) and c.job_id == job_id)


def test_with_an_empty_journal_what_runs_is_ended_before_others_get_its_devices(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as first:
        lost = [first.submit(spec(name)).id for name in "ab"]
        until(lambda: len(hands.gangs) == 2)
        survivors = hands.survivors()
    empty = tmp_path / "empty"
    empty.mkdir()
    survivors.trials = ("gone",)
    with running(empty, survivors) as second:
        job = run_job(second, "c")
        assert not survivors.gangs.keys() & set(lost)
        assert StopGang(job_id="gone", generation=0) in survivors.performed
        launched = first_index(survivors, LaunchGang, job)
        assert min(first_index(survivors, StopGang, job_id) for job_id in lost) < launched


def test_with_an_older_journal_jobs_go_on_under_a_newer_generation(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as first:
        job = run_job(first)
        older, _ = as_if_killed(tmp_path, hands, "older")
    with running(tmp_path, hands) as again:
        until(lambda: again.job(job).phase is Phase.RUNNING)
        assert hands.gangs == {job: 3}
        survivors = hands.survivors()
    with running(older, survivors) as second:
        until(lambda: second.job(job).phase is Phase.RUNNING and second.job(job).generation > 4)
        assert "found" in [story.code for story in second.stories(job)]
        assert [type(command) for command in survivors.performed] == [StopGang, LaunchGang]
