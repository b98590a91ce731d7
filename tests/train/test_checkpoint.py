"""A checkpoint is whole or not there."""

from __future__ import annotations

import math
import os
import resource
import signal
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from fake_agent import fork_script
from torch import nn

from swell.train.checkpoint import Checkpoints, NoCheckpointError, SaveError, load_checkpoint
from swell.train.state import TrainState

SCRIPTS = Path(__file__).parent / "scripts"


class Unsavable:
    def state_dict(self) -> dict[str, object]:
        return {"handle": object()}

    def load_state_dict(self, state: dict[str, object]) -> None:
        raise AssertionError


def make_state(value: float, steps: int, num_features: int = 3) -> TrainState:
    model = nn.Linear(num_features, 1)
    nn.init.constant_(model.weight, value)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, num_features)).sum().backward()
    optimizer.step()
    state = TrainState(model, optimizer, None, {})
    state.steps = steps
    return state


def test_newest_comes_back_with_its_optimizer(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "new" / "folder", 2, 30.0)
    checkpoints.save(make_state(1.0, steps=5))
    newest = make_state(2.0, steps=1000)
    checkpoints.save(newest)
    state = make_state(0.0, steps=0)
    assert checkpoints.load_newest(state)
    assert state.steps == 1000
    assert torch.equal(state.model.weight, newest.model.weight)
    moments = [parameter["exp_avg"] for parameter in state.optimizer.state.values()]
    assert all(
        map(torch.equal, moments, (parameter["exp_avg"] for parameter in newest.optimizer.state.values()))
    )
    assert not Checkpoints(tmp_path / "none", 2, 30.0).load_newest(state)


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    paths = [checkpoints.save(make_state(1.0, steps)) for steps in (1, 2, 3, 10)]
    assert set(tmp_path.iterdir()) == set(paths[2:])


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_one_is_passed_over_with_a_warning(tmp_path: Path, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    newest = checkpoints.save(make_state(2.0, steps=2))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes({"flip": content, "cut": content[:-10], "empty": b""}[damage])
    state = make_state(0.0, steps=0)
    with pytest.warns(UserWarning, match="is damaged"):
        assert checkpoints.load_newest(state)
    assert state.steps == 1


def test_where_all_are_damaged_training_begins_anew_and_says_so(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    for steps in (1, 2):
        checkpoints.save(make_state(1.0, steps)).write_bytes(b"")
    state = make_state(0.0, steps=0)
    with pytest.warns(UserWarning, match="is damaged") as warned:
        assert not checkpoints.load_newest(state)
    assert [str(each.message).split("; ")[1] for each in warned] == [
        "the one before it is used",
        "training begins anew",
    ]
    with pytest.raises(NoCheckpointError, match="holds none but damaged checkpoints"):
        load_checkpoint(tmp_path)


def test_ordinary_torch_reads_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    state = make_state(2.0, steps=7)
    state.objects["words"] = Words()
    path = checkpoints.save(state)
    content = torch.load(path, weights_only=True)
    named = {"steps", "loss", "model", "optimizer", "scheduler", "scaler", "objects", "stream"}
    assert set(content) == named, "docs/how-to/read-a-checkpoint.md lists them"
    assert content["objects"] == {"words": Words().state_dict()}
    model = nn.Linear(3, 1)
    model.load_state_dict(content["model"])
    assert torch.equal(model.weight, state.model.weight)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(content["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1


class Words:
    """All that a state_dict may hold beside tensors."""

    def state_dict(self) -> dict[str, object]:
        return {
            "counts": Counter(a=2),
            "ordered": OrderedDict(b=[1, 2.5, None, True]),
            "by_number": {1: ("x", math.inf)},
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        assert state == self.state_dict()


def test_the_newest_whole_one_of_a_folder_or_a_named_one_is_read(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 3, 30.0)
    paths = [checkpoints.save(make_state(float(steps), steps)) for steps in (1, 2, 3)]
    assert load_checkpoint(tmp_path)["steps"] == 3
    assert load_checkpoint(str(paths[0]))["steps"] == 1
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    with pytest.warns(UserWarning, match=rf"{paths[2].name} is damaged; the one before it is used") as warned:
        assert load_checkpoint(tmp_path)["steps"] == 2
    assert [Path(each.filename).name for each in warned] == ["test_checkpoint.py"], "it names who asked"
    with pytest.raises(NoCheckpointError, match="holds none but damaged"):
        load_checkpoint(paths[2])
    with pytest.raises(NoCheckpointError, match="holds no checkpoint"):
        load_checkpoint(tmp_path.parent)
    with pytest.raises(NoCheckpointError, match=r"model\.pt is no checkpoint; give a file as step-"):
        load_checkpoint(tmp_path / "model.pt")


def test_a_compiled_model_is_saved_under_its_own_names(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    state = make_state(2.0, steps=1)
    compiled = TrainState(torch.compile(state.model), state.optimizer, None, {})
    checkpoints.save(compiled)
    assert set(load_checkpoint(tmp_path)["model"]) == {"weight", "bias"}
    plain = make_state(0.0, steps=0)
    assert checkpoints.load_newest(plain)
    assert torch.equal(plain.model.weight, state.model.weight)


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    first = checkpoints.save(make_state(1.0, steps=1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (20_000, limits[1])
    )  # a file that cannot grow: EFBIG for ENOSPC
    try:
        with pytest.raises(SaveError, match=r"no checkpoint at step 2 in .*: File too large; make room"):
            checkpoints.save(make_state(2.0, steps=2, num_features=100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == [first]


def test_a_crash_while_writing_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    (tmp_path / ".draft-left-by-a-crash").write_bytes(b"half")
    state = make_state(0.0, steps=0)
    assert checkpoints.load_newest(state)
    assert state.steps == 1

    def killed(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(make_state(2.0, steps=2))
    monkeypatch.undo()
    assert checkpoints.load_newest(state)
    assert state.steps == 1


def test_an_object_that_cannot_be_saved_is_named(tmp_path: Path) -> None:
    state = make_state(1.0, steps=1)
    state.objects["reader"] = Unsavable()
    with pytest.raises(SaveError, match=r"\['objects'\]\['reader'\]\['handle'\] is a builtins.object"):
        Checkpoints(tmp_path, 2, 30.0).save(state)
    assert not list(tmp_path.iterdir())


def test_of_several_that_save_the_same_at_once_one_writes(tmp_path: Path) -> None:
    states = [make_state(1.0, steps=7) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        each = [pool.submit(Checkpoints(tmp_path / "new", 2, 30.0).save_once, state) for state in states]
    written = [path for path in (one.result() for one in each) if path is not None]
    assert list((tmp_path / "new").iterdir()) == written and len(written) == 1
    assert Checkpoints(tmp_path / "new", 2, 30.0).save_once(make_state(1.0, steps=8)) is not None
    (tmp_path / "file").touch()
    with pytest.raises(SaveError, match=r"no checkpoint at step 7 in .*file: "):
        Checkpoints(tmp_path / "file", 2, 30.0).save_once(states[0])


def test_a_state_of_another_script_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    other = make_state(1.0, steps=0)
    other.objects["counter"] = Unsavable()
    with pytest.raises(RuntimeError, match=r"holds nothing beside model .* this script registered counter;"):
        checkpoints.load_newest(other)
    scaled = make_state(1.0, steps=2)
    scaled.scaler = torch.amp.GradScaler("cpu")
    checkpoints.save(scaled)
    with pytest.raises(RuntimeError, match=r"holds scaler beside .* registered nothing"):
        checkpoints.load_newest(make_state(1.0, steps=0))


class Clock:
    """Moves when told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Slow:
    """Something to save that takes its time."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self.clock, self.takes_s = clock, takes_s

    def state_dict(self) -> dict[str, object]:
        self.clock.now_s += self.takes_s
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        raise AssertionError


@pytest.mark.parametrize(("interval_s", "first_s"), [(0.0, 0.0), (2.0, 2.0), (30.0, 5.0)])
def test_the_first_is_due_early_and_the_others_after_the_interval(
    tmp_path: Path, interval_s: float, first_s: float
) -> None:
    clock = Clock()
    clock.now_s = 100.0  # until the gang trains: that does not count
    checkpoints = Checkpoints(tmp_path, 2, interval_s, clock)
    for wait_s in (first_s, interval_s, interval_s):
        begun_s = clock.now_s
        assert checkpoints.is_due() == (wait_s == 0)
        clock.now_s = begun_s + 0.99 * wait_s
        assert checkpoints.is_due() == (wait_s == 0)
        clock.now_s = begun_s + wait_s
        assert checkpoints.is_due()
        checkpoints.save(make_state(1.0, steps=1))


@pytest.mark.parametrize(("takes_s", "wait_s"), [(2.0, 30.0), (3.5, 35.0), (60.0, 600.0)])
def test_checkpoints_take_a_tenth_of_the_time_at_most(tmp_path: Path, takes_s: float, wait_s: float) -> None:
    clock = Clock()
    checkpoints = Checkpoints(tmp_path, 2, 30.0, clock)
    state = make_state(1.0, steps=1)
    state.objects["slow"] = Slow(clock, takes_s)
    checkpoints.save(state)
    assert clock.now_s == takes_s
    clock.now_s = takes_s + 0.99 * wait_s
    assert not checkpoints.is_due()
    clock.now_s = takes_s + wait_s
    assert checkpoints.is_due()


def test_one_that_cannot_be_written_is_not_tried_again_at_once(tmp_path: Path) -> None:
    clock = Clock()
    checkpoints = Checkpoints(tmp_path, 2, 30.0, clock)
    state = make_state(1.0, steps=1)
    state.objects["reader"] = Unsavable()
    with pytest.raises(SaveError):
        checkpoints.save(state)
    assert not checkpoints.is_due()
    clock.now_s = 30.0
    assert checkpoints.is_due()


def test_drafts_that_a_kill_left_are_removed_and_one_that_is_being_written_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    checkpoints = Checkpoints(folder, 2, 30.0)
    killed = fork_script(SCRIPTS / "killed.py", (str(folder),), tmp_path / "log", {})
    killed.join(30)
    assert killed.exitcode == -signal.SIGKILL
    assert len(list(folder.iterdir())) == 1, "it left its draft"
    alive = folder / f".draft-{os.getppid()}-x"
    for name in (alive.name, f".draft-{os.getpid()}-before", ".draft-old"):
        (folder / name).write_bytes(b"half")
    path = checkpoints.save(make_state(1.0, steps=1))
    assert set(folder.iterdir()) == {path, alive}
