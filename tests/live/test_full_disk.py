"""A full disk stops the head until there is room, and a disk that does not answer holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from swell.live import head_journal, head_queue, watches
from swell.live.head_thread import Site
from swell.live.platform import Platform
from swell.live.pruning import HistoryLimits
from swell.live.watches import Space, SpaceWatch
from swell.model.errors import Unavailable, Unwritable
from swell.model.event import AnyEvent
from swell.store.journal import SqlJournal

from .parts import NODE, Hands, new_core, spec
from .test_platform import PATIENCE_S, run_job, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_journal, "RETRY_S", 0.01)


class SomeDayFull(SqlJournal):
    """A real journal on a disk that a test fills, or has not answer."""

    is_full = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers = threading.Event()
        self.answers.set()

    def append(self, batch: Sequence[AnyEvent]) -> None:
        self.answers.wait()
        self._refuse()
        super().append(batch)

    def fold_to(self, seq: int, packed_state: bytes) -> None:
        self._refuse()
        super().fold_to(seq, packed_state)

    def _refuse(self) -> None:
        if self.is_full:
            raise Unwritable("the disk is full")


def test_a_platform_on_a_full_disk_answers_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    hands, told = Hands(), list[str]()
    journal = SomeDayFull(tmp_path / "journal.db")
    site = Site(
        jobs_dir=tmp_path / "jobs",
        policy="one",
        nodes=(NODE,),
        retention=HistoryLimits(min_free_bytes=1 << 50),
    )
    platform = Platform(site, new_core(), journal, hands, told.append)
    platform.recover(journal.history())
    platform.start()

    def run() -> None:
        with pytest.raises(Unwritable):
            platform.run()

    thread = threading.Thread(target=run)
    thread.start()
    job_id = run_job(platform)
    assert set(platform.cluster().warnings) == {"disk"}

    journal.is_full = True
    hands.deliver(hands.report(job_id, 60))
    until(lambda: "journal" in platform.cluster().warnings)
    assert platform.cluster().disk_bytes > platform.cluster().disk_free_bytes > 0
    assert platform.job(job_id).steps < 60, "what is not on disk has not happened"
    for ask in (lambda: platform.submit(spec()), lambda: platform.cancel(job_id)):
        with pytest.raises(Unwritable, match="stands still: the disk is full"):
            ask()

    journal.is_full = False
    until(lambda: platform.job(job_id).steps >= 60)
    assert told == ["the disk is full", ""]
    assert set(platform.cluster().warnings) == {"disk"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SpaceWatch, "measure", lambda disk: None)
        cluster = platform.cluster()
    assert f"{tmp_path} does not answer: jobs train on" in cluster.warnings["disk"] and not cluster.disk_bytes

    with pytest.MonkeyPatch.context() as patch:  # a stop that the disk is too slow for: it comes late
        patch.setattr(head_queue, "TAKEN_WITHIN_S", 0.01)
        hands.is_obedient = False
        journal.answers.clear()
        with pytest.raises(Unavailable, match="may or may not stop"):
            platform.stop()
        journal.answers.set()
    journal.is_full = True
    hands.deliver(hands.report(job_id, 70))
    until(lambda: "journal" in platform.cluster().warnings)
    journal.is_full = False
    until(lambda: platform.job(job_id).steps >= 70)

    journal.is_full = True  # and now it is to stop: it ends as if it were killed, and says why
    with pytest.raises(Unavailable, match="takes no more requests"):
        platform.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert told[-1] == "the disk is full"
    assert hands.gangs, "jobs train on"
    journal.close()


def test_a_disk_that_does_not_answer_is_asked_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "ANSWER_S", 0.05)
    answers, asked = threading.Event(), list[Path]()

    def look(path: Path) -> Space:
        asked.append(path)
        answers.wait(30)
        return Space(1, 2)

    disk = SpaceWatch(tmp_path, look)
    assert [disk.measure(), disk.measure()] == [None, None] and len(asked) == 1
    monkeypatch.setattr(watches, "ANSWER_S", 30.0)
    answers.set()
    assert disk.measure() == Space(1, 2)
