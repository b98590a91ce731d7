"""A platform goes on from the copy that a standby has kept of another one's state."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.executors.puppets import make_spec
from tests.standby.lines import Standby
from tests.standby.test_sender import Head, keep_code, rows_of
from tests.store.contract import BATCHES

from swell.api.copies import CHECKS
from swell.api.standby_takeover import is_copy, take_over
from swell.executors.remote.head_term import read_head_term
from swell.model.event import JobSubmitted
from swell.standby.contents import HEAD_FILES, SMALL_FILES
from swell.standby.process import StandbyUnusable, lock_of
from swell.store.code_store import GRACE_S, CodeStore
from swell.store.errors import DamagedState, StateError
from swell.store.folder import LastOptions, StateFolder


@pytest.fixture
def standby(tmp_path: Path) -> Path:
    """The folder of one that a head has copied to."""
    head = Head(tmp_path / "head", Standby(tmp_path / "standby" / "copy"))
    options = LastOptions(devices="none", policy="edf", preload=(), copy_to="10.9.0.2:7070")
    StateFolder(head.folder).write_options(options)
    (head.folder / "leases.json").write_text("[]")
    (head.folder / "listen.pem").write_text("certificate")
    (head.folder / "join-tokens.json").write_text("{}")
    _, tree = keep_code(head.folder, b"one")
    keep_code(head.folder, b"of no job")
    head.start()
    submitted = JobSubmitted(at_s=1.0, job_id="coded-1", spec=make_spec(code=tree.stem))
    head.journal.append([*BATCHES[0], submitted])
    head.close()
    return tmp_path / "standby"


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "new")
    made.create()
    return made


def test_the_next_head_has_all_that_the_former_one_had(
    standby: Path, folder: StateFolder, tmp_path: Path
) -> None:
    assert is_copy(standby) and not is_copy(folder.path)
    taken = take_over(folder, standby)
    assert rows_of(folder.journal) == rows_of(tmp_path / "head" / "journal.db")
    for name in ("leases.json", "listen.pem", "join-tokens.json"):
        assert (folder.path / name).read_bytes() == (tmp_path / "head" / name).read_bytes()
    for path in (tmp_path / "head" / "code").rglob("*.*"):
        assert (folder.path / path.relative_to(tmp_path / "head")).read_bytes() == path.read_bytes()
    assert taken.reign == 1 == read_head_term(folder.path)
    options = folder.read_options()
    assert options is not None and (options.policy, options.copy_to) == ("edf", "")


def test_the_code_of_jobs_stays_on_the_next_head_and_no_other(standby: Path, folder: StateFolder) -> None:
    take_over(folder, standby)
    CodeStore(folder.path).collect(time.time() + 2 * GRACE_S)
    (tree,) = (folder.path / "code" / "trees").iterdir()
    assert tree.samefile(folder.jobs / "coded-1" / "code.json")
    (content,) = (folder.path / "code" / "objects").glob("*/*")
    assert content.read_bytes() == b"one"


def test_a_second_takeover_has_a_higher_reign_and_the_former_head_is_refused_by_the_standby(
    standby: Path, folder: StateFolder
) -> None:
    take_over(folder, standby)
    assert read_head_term(standby / "copy") == 1, "a head of reign 0 copies here no more"
    assert take_over(folder, standby).reign == 2


def test_a_damaged_copy_changes_nothing(standby: Path, folder: StateFolder) -> None:
    journal = standby / "copy" / "journal.db"
    content = journal.read_bytes()
    where = content.index(b'[{"type"')
    journal.write_bytes(content[:where] + b"[[" + content[where + 2 :])
    with pytest.raises(DamagedState):
        take_over(folder, standby)
    assert not folder.journal.exists() and read_head_term(folder.path) == 0 == read_head_term(
        standby / "copy"
    )


def test_damaged_leases_are_as_lost_ones_which_the_next_head_waits_for(
    standby: Path, folder: StateFolder
) -> None:
    (standby / "copy" / "leases.json").write_text(json.dumps({"no": "list"}))
    (damaged,) = take_over(folder, standby).restored.damaged
    assert damaged.startswith("leases.json.damaged-") and not (folder.path / "leases.json").exists()


def test_a_copy_in_use_is_refused(standby: Path, folder: StateFolder) -> None:
    with lock_of(standby), pytest.raises(StandbyUnusable, match="is in use by a standby"):
        take_over(folder, standby)


def test_a_copy_that_never_was_whole_is_refused(standby: Path, folder: StateFolder) -> None:
    (standby / "copy" / "journal.db").unlink()
    with pytest.raises(StateError, match="has no copy"):
        take_over(folder, standby)


def test_a_standby_has_each_file_that_a_backup_has_and_its_content_is_checked() -> None:
    assert set(CHECKS | HEAD_FILES) == set(SMALL_FILES)
