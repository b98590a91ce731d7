"""What a journal keeps of batches, of what came of them, and of jobs that have ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.store.views import BATCHES, curve_report, job_view, report

from swell.model.event import EventSetAside, Woke
from swell.model.job import Phase
from swell.model.view import Story
from swell.store.journal import SavedMessage, SqlJournal


def tally(point: Any) -> tuple[int, int, int, float]:
    """First and last step, number and mean of the values."""
    return point.tally.first_step, point.tally.last_step, point.tally.count, point.tally.mean


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqlJournal]:
    with closing(SqlJournal(tmp_path / "journal.db")) as journal:
        yield journal


def test_values_make_curves_and_are_in_no_batch(journal: SqlJournal) -> None:
    journal.append([curve_report("a", 1, [3.0, 1.0]), curve_report("b", 1, [9.0])])
    journal.append([curve_report("a", 3, [2.0]), Woke(at_s=2.0)])
    assert [tally(point) for point in journal.curves("a")["loss"]] == [(1, 2, 2, 2.0), (3, 3, 1, 2.0)]
    assert list(journal.curves("a", ["accuracy"])) == [] and list(journal.curves("c")) == []
    batches = [list(entry.batch) for entry in journal.history().entries]
    assert [len(batch) for batch in batches] == [2, 2]
    assert not any(getattr(event, "curves", None) for batch in batches for event in batch)
    journal.keep([job_view(id="a")])
    journal.prune(["a"], 9.0)
    assert list(journal.curves("a")) == [] and len(journal.curves("b")["loss"]) == 1


def test_a_pruned_job_leaves_only_its_id(journal: SqlJournal) -> None:
    told = [("a", Story(at_s=1.0, code="held", text="x"))]
    journal.keep([job_view(id="a"), job_view(id="b")], told)
    journal.prune(["a", "never was"], 9.0)
    journal.prune(["a"], 10.0)
    assert [view.id for view in journal.archived_jobs()] == ["b"]
    assert journal.stories("a") == []
    assert [journal.pruned_s(job_id) for job_id in ("a", "b")] == [10.0, None]
    assert journal.knows("a"), "its id is not given again"


def test_device_time_outlives_pruned_jobs(journal: SqlJournal) -> None:
    held = {"sizes": ((7000.0, 2), (7500.0, 4)), "finished_s": 8000.0, "devices_per_worker": 2}
    views = [
        job_view(id="a", user="ada", kind="paced@200", submitted_s=10.0, **held),
        job_view(id="b", user="ada", kind="paced@200", submitted_s=10.0, **held),
        job_view(id="c", user="bob", kind="a100", submitted_s=10.0, **held),
    ]
    journal.keep(views)
    before = _device_time(journal)
    assert before == {("ada", "paced@200"): 2 * 6000.0, ("bob", "a100"): 6000.0}
    late = _device_time(journal, 7200.0)
    assert late == {("ada", "paced@200"): 2 * 5200.0, ("bob", "a100"): 5200.0}
    for job_id in ("a", "b", "c"):
        journal.prune([job_id], 9.0)
        assert _device_time(journal) == before
    assert _device_time(journal, 7200.0) == late
    assert _device_time(journal, 10_800.0) == {}
    assert {one.id for one in journal.device_time(0.0, 1e9)} == {""}, "no job is named"


def test_a_batch_may_be_amended_and_what_was_noted_of_it_is_forgotten(journal: SqlJournal) -> None:
    for batch in BATCHES:
        journal.finish(_append(journal, batch), "beef")
    journal.append([curve_report("a", 1, [3.0, 1.0]), Woke(at_s=9.0)])
    amended = [
        EventSetAside(at_s=2.0, job_id="a", event=BATCHES[1][0], why="x", trace="y"),
        BATCHES[1][1],
    ]
    journal.amend(2, amended)
    journal.amend(4, [curve_report("a", 1, [3.0, 1.0])])
    found = [(entry.seq, entry.digest, list(entry.batch)) for entry in journal.history().entries]
    assert found[:3] == [(1, "beef", BATCHES[0]), (2, None, amended), (3, "beef", BATCHES[2])]
    assert len(found[3][2]) == 1 and not getattr(found[3][2][0], "curves", None)
    assert [tally(point) for point in journal.curves("a")["loss"]] == [(1, 2, 2, 2.0)]


def test_what_came_of_a_batch_is_kept_once(journal: SqlJournal) -> None:
    view, story = job_view(id="a", phase=Phase.SUCCEEDED), Story(at_s=1.0, code="held", text="waits")
    message = SavedMessage("msg_1", "a", "{}")
    seq = _append(journal, BATCHES[0])
    assert journal.finish(seq, "beef", [view], [("a", story)], [message]) == {"msg_1"}
    assert journal.finish(seq, "dead", [], [("a", story)], [SavedMessage("msg_2", "a", "{}")]) == set()
    assert [entry.digest for entry in journal.history().entries] == ["beef"]
    assert (journal.job("a"), journal.stories("a")) == (view, [story])
    assert journal.finish(_append(journal, BATCHES[1]), "beef", deliveries=[message]) == set()
    assert journal.deliveries() == ["{}"], "what it tells is the same"


def test_a_message_that_was_delivered_is_not_sent_again(journal: SqlJournal) -> None:
    first, second = SavedMessage("msg_1", "a", "one"), SavedMessage("msg_2", "b", "two")
    assert journal.put_deliveries([first, second]) == {"msg_1", "msg_2"}
    late = Story(at_s=1.0, code="webhook", text="delivered late")
    journal.end_delivery("msg_1", "a", late)
    assert journal.put_deliveries([first]) == set() and journal.deliveries() == ["two"]
    journal.keep([job_view(id="b")])
    journal.prune(["b"], 9.0)
    assert journal.deliveries() == ["two"], "whoever is to hear of it hears of it"
    journal.end_delivery("msg_2", "b", late)
    assert (journal.stories("a"), journal.stories("b"), journal.deliveries()) == ([late], [], [])


def test_any_number_and_any_text_comes_back_as_it_was(journal: SqlJournal) -> None:
    @settings(max_examples=fewer_if_quick(15), deadline=None)
    @given(
        metrics=st.dictionaries(st.text(max_size=8), st.floats(), max_size=4),
        loss=st.none() | st.floats(),
        text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    )
    def comes_back(metrics: dict[str, float], loss: float | None, text: str) -> None:
        journal.fold(b"{}")
        sent = msgspec.structs.replace(report(1, loss=loss), metrics=metrics, job_id=text)
        journal.append([sent])
        (received,) = next(iter(journal.history().entries)).batch
        assert repr(received) == repr(sent)  # NaN equals nothing; its name does

    comes_back()


def _append(journal: Any, batch: Any) -> int:
    journal.append(batch)
    return int(journal.last_seq)


def _device_time(archive: Any, since_s: float = 0.0, until_s: float = 1e9) -> dict[tuple[str, str], float]:
    """Device-seconds by user and kind."""
    found = dict[tuple[str, str], float]()
    for one in archive.device_time(since_s, until_s):
        if device_s := one.device_s(since_s, until_s):
            found[one.user, one.kind] = found.get((one.user, one.kind), 0.0) + device_s
    return found
