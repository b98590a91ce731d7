"""Ended jobs are removed by name, age and size, and never any other."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.views import job_view

from swell.live.pruning import DAY_S, HistoryLimits, PruneRequest, choose, prune
from swell.model.errors import UnknownJob, Unwritable, WrongPhase
from swell.model.event import Outcome
from swell.model.job import Phase
from swell.model.view import PrunedJob
from swell.store.journal import SqlJournal

from .parts import Hands, spec
from .test_platform import running, until

KILOBYTE = 4096


def archive_with(folder: Path, sizes: dict[str, int], ended_s: float = 100.0) -> SqlJournal:
    """Jobs that ended one second after the other, each with so many pages in its folder."""
    journal = SqlJournal(folder / "journal.db")
    views = []
    for number, (job_id, num_pages) in enumerate(sizes.items()):
        (folder / "jobs" / job_id / "checkpoints").mkdir(parents=True)
        (folder / "jobs" / job_id / "checkpoints" / "step").write_bytes(b"x" * num_pages * KILOBYTE)
        views.append(job_view(id=job_id, phase=Phase.SUCCEEDED, finished_s=ended_s + number))
    journal.keep(views)
    return journal


def ids(pruned: list[PrunedJob]) -> list[str]:
    return [job.job_id for job in pruned]


def test_jobs_are_pruned_by_name_age_and_size_and_their_ids_stay_known(tmp_path: Path) -> None:
    jobs_dir = tmp_path / "jobs"
    journal = archive_with(tmp_path, {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})
    look = PruneRequest(job_ids=("d",), ended_before_s=101.5, is_dry_run=True)
    assert ids(prune(journal, jobs_dir, look, 200.0)) == ["a", "b", "d"]
    assert len(journal.archived_jobs()) == len(list(jobs_dir.iterdir())) == 5
    found = prune(journal, jobs_dir, PruneRequest(job_ids=("d",), ended_before_s=100.5), 200.0)
    assert ids(found) == ["a", "d"]
    assert [job.freed_bytes >= pages * KILOBYTE for job, pages in zip(found, (1, 4), strict=True)] == [
        True
    ] * 2
    assert {path.name for path in jobs_dir.iterdir()} == {view.id for view in journal.archived_jobs()}
    assert journal.pruned_s("a") == 200.0
    assert journal.pruned_s("b") is None
    assert ids(prune(journal, jobs_dir, PruneRequest(keep_bytes=6 * KILOBYTE), 300.0)) == ["b", "c"]
    assert [view.id for view in journal.archived_jobs()] == ["e"]
    with pytest.raises(UnknownJob, match="no job with the id 'a' has ended"):
        prune(journal, jobs_dir, PruneRequest(job_ids=("a",)), 400.0)
    journal.close()


@given(
    sizes=st.lists(st.integers(0, 5), max_size=6),
    keep_pages=st.integers(0, 12),
)
def test_of_what_is_too_much_the_oldest_goes_and_no_more_than_needed(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], keep_pages: int
) -> None:
    jobs_dir = tmp_path_factory.mktemp("jobs")
    views = []
    for number, num_pages in enumerate(sizes):
        (jobs_dir / str(number)).mkdir()
        if num_pages:
            (jobs_dir / str(number) / "log").write_bytes(b"x" * num_pages * KILOBYTE)
        views.append(job_view(id=str(number), finished_s=float(number)))
    chosen = choose(PruneRequest(keep_bytes=keep_pages * KILOBYTE), views, jobs_dir)
    left = [num for number, num in enumerate(sizes) if str(number) not in ids(chosen)]
    assert sum(left) <= keep_pages
    if chosen:
        newest = int(chosen[-1].job_id)
        assert sum(left) + sizes[newest] > keep_pages
        assert all(not num or str(number) in ids(chosen) for number, num in enumerate(sizes[:newest]))


def test_a_platform_prunes_what_has_just_ended_and_nothing_that_runs(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        ended, runs = platform.submit(spec("ended")).id, platform.submit(spec("runs")).id
        until(lambda: len(hands.gangs) == 2)
        hands.deliver(hands.ended(ended, Outcome.SUCCEEDED))
        until(lambda: platform.job(ended).phase is Phase.SUCCEEDED)
        assert (tmp_path / "jobs" / ended).is_dir()
        with pytest.raises(UnknownJob, match="swell cancel"):
            platform.prune(PruneRequest(job_ids=(runs,)))
        request = PruneRequest(ended_before_s=platform.now_s() + 1)
        assert ids(platform.prune(msgspec.structs.replace(request, is_dry_run=True))) == [ended]
        seen = platform.changes(0).turn
        assert platform.changes(seen).archived == []
        assert ids(platform.prune(request)) == [ended]
        assert platform.changes(seen).archived == [ended], "a reader is told to look for it"
        assert [view.id for view in platform.jobs()] == [runs]
        assert not (tmp_path / "jobs" / ended).exists()
        with pytest.raises(UnknownJob, match="was pruned"):
            platform.job(ended)


def test_what_an_open_job_follows_is_kept_until_that_has_ended(tmp_path: Path) -> None:
    hands, all_ended = Hands(), PruneRequest(ended_before_s=1e12)
    with running(tmp_path, hands) as platform:
        first, second = platform.submit(spec("first")).id, platform.submit(spec("second")).id
        follower = platform.submit(spec("follower", after=(first, second))).id
        until(lambda: len(hands.gangs) == 2)
        hands.deliver(hands.ended(first, Outcome.SUCCEEDED))
        until(lambda: platform.job(first).phase is Phase.SUCCEEDED)
        assert platform.prune(all_ended) == []
        with pytest.raises(WrongPhase, match=f"submitted with `--after {first}`"):
            platform.prune(PruneRequest(job_ids=(first,)))
        hands.deliver(hands.ended(second, Outcome.SUCCEEDED))
        until(lambda: follower in hands.gangs)
        hands.deliver(hands.ended(follower, Outcome.SUCCEEDED))
        until(lambda: platform.job(follower).phase is Phase.SUCCEEDED)
        assert {*ids(platform.prune(all_ended))} == {first, second, follower}


def test_a_folder_that_cannot_be_removed_is_named_and_its_job_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> OSError:
        return PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("swell.live.pruning.remove_folder", refuse)
    journal = archive_with(tmp_path, {"a": 1})
    with pytest.raises(Unwritable, match=r"cannot remove .*/a \(Permission denied\): make it writable"):
        prune(journal, tmp_path / "jobs", PruneRequest(job_ids=("a",)), 9.0)
    assert [view.id for view in journal.archived_jobs()] == ["a"]
    journal.close()


def test_folders_deeper_than_any_path_or_that_a_job_has_closed_are_removed(tmp_path: Path) -> None:
    journal, kept = archive_with(tmp_path, {"a": 1, "b": 2}), tmp_path / "kept"
    kept.write_text("another's")
    folder = os.open(tmp_path / "jobs" / "a", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        os.symlink(kept, "link", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.fchmod(inner, 0)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert prune(journal, tmp_path / "jobs", PruneRequest(keep_bytes=1), 9.0)
    assert not (tmp_path / "jobs" / "a").exists() and kept.exists()
    journal.close()


def test_a_platform_with_a_limit_prunes_by_itself(tmp_path: Path) -> None:
    journal = archive_with(tmp_path, {"old": 1})
    limits = HistoryLimits(keep_days=1.0)
    assert limits.is_limited and limits.keep_days * DAY_S > 0
    with running(tmp_path, Hands(), journal, retention=limits):
        until(lambda: not (tmp_path / "jobs" / "old").exists())
