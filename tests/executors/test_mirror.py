"""A trial run's folder: all that is read there is the real thing, what is written there is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.executors.local.agent.scratch import Scratch
from swell.executors.local.zygote import mirror
from swell.executors.local.zygote.messages import Fork
from swell.executors.local.zygote.mirror import mirrored
from swell.wire import environ


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "above" / "project"
    (folder / "data" / "train").mkdir(parents=True)
    (folder / "data" / "train" / "one.txt").write_text("1")
    (folder / "log.txt").write_text("old\n")
    (folder / ".cache").mkdir()
    (folder / "linked").symlink_to(folder / "data")
    (folder.parent / "shared.txt").write_text("shared")
    (folder.parent / "other").mkdir()
    return folder


def mirror_of(workdir: Path) -> Path:
    scratch = workdir.parents[1] / "scratch"
    scratch.mkdir()
    return Path(mirrored(str(workdir), str(scratch)))


def test_what_is_there_can_be_read_and_what_is_written_stays(workdir: Path) -> None:
    seen = mirror_of(workdir)
    before = contents(workdir.parent)
    assert (seen / "data/train/one.txt").read_text() == (seen / "linked/train/one.txt").read_text() == "1"
    assert os.path.samefile(seen / "../other", workdir.parent / "other")
    assert (seen / "../shared.txt").read_text() == "shared"
    (seen / "out").mkdir()
    (seen / "data" / "train" / "new.txt").write_text("new")
    (seen / "data" / "train" / "one.txt").write_text("2")
    with (seen / "log.txt").open("a") as log:
        log.write("new\n")
    (seen / "data/train/new.txt").rename(seen / "moved.txt")
    assert contents(workdir.parent) == before


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


NAMES = st.sampled_from(["a", "b", "c", ".d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: Path(*parts))


@given(files=st.dictionaries(PATHS, st.text(max_size=5), max_size=8), most=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_a_mirror_reads_as_what_it_mirrors(
    tmp_path_factory: pytest.TempPathFactory, files: dict[Path, str], most: int
) -> None:
    folder = tmp_path_factory.mktemp("mirror") / "project"
    folder.mkdir()
    for path, text in files.items():
        if not any((folder / parent).is_file() for parent in path.parents) and not (folder / path).is_dir():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, errors="replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror, "MAX_ENTRIES", most)
        scratch = folder.parent / "scratch"
        scratch.mkdir()
        seen = Path(mirrored(str(folder), str(scratch)))
    found = {
        os.path.relpath(os.path.join(top, name), seen): Path(top, name).read_text()
        for top, _, names in os.walk(seen, followlinks=True)
        for name in names
    }
    assert found == {name: text for name, text in contents(folder).items() if (folder / name).is_file()}


# ---------------------------------------------------------------- how long they live
@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    scratch = Scratch(tmp_path / "state", lambda work: work())
    scratch.make_folders()
    return scratch


def fork_of(tmp_path: Path, key: str = "job/0") -> Fork:
    return Fork(key=key, environ={"A": "1"}, workdir=str(tmp_path), log_path="", call="", entry="", args=())


def test_folders_go_with_their_worker(scratch: Scratch, tmp_path: Path) -> None:
    trial = scratch.equip(fork_of(tmp_path, "trial:job/0"), is_trial=True)
    worker = scratch.equip(fork_of(tmp_path), is_trial=False)
    assert trial.environ[environ.TRIAL] == "1"
    assert trial.environ[environ.WORKDIR] == str(tmp_path)
    assert worker.environ == {"A": "1"} and not worker.mirror
    folders = [Path(name) for name in (trial.mirror, trial.sockets, worker.sockets)]
    for folder in folders:
        folder.mkdir()
    assert len(worker.sockets) < 107 - len("/listener-12345678")
    (Path(trial.mirror) / "link").symlink_to(tmp_path)
    scratch.drop("trial:job/0")
    assert [folder.exists() for folder in folders] == [False, False, True]
    assert tmp_path.exists(), "what a mirror links to stays"
    scratch.end()
    assert not folders[-1].exists() and not folders[-1].parent.exists()
    assert list((tmp_path / "state" / "scratch").iterdir()) == []


def test_what_a_killed_agent_left_is_removed_by_the_next(scratch: Scratch, tmp_path: Path) -> None:
    left = scratch.equip(fork_of(tmp_path), is_trial=True)
    for folder in (left.mirror, left.sockets):
        Path(folder).mkdir()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (tmp_path / "state" / "scratch" / "odd").symlink_to(stranger)
    again = Scratch(tmp_path / "state", lambda work: work())
    again.make_folders()
    assert not Path(left.mirror).exists() and not Path(left.sockets).parent.exists()
    assert stranger.exists()
    again.end()


def test_without_room_for_folders_workers_do_without(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    scratch = Scratch(tmp_path / "state", lambda work: work())
    scratch.make_folders()
    fork = scratch.equip(fork_of(tmp_path), is_trial=False)
    assert fork.sockets == ""
    scratch.drop(fork.key)
    scratch.end()
