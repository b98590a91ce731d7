"""A checkpoint is whole or not there."""

from __future__ import annotations

import fcntl
import math
import os
import resource
import signal
import tempfile
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, fork_script
from torch import nn

from swell.checkpoint_interval import FIRST_S, best_interval_s
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.state.checkpoint import (
    MAX_QUARANTINED,
    CheckpointStore,
    NoCheckpointError,
    SaveError,
    _locked_draft,
    load_checkpoint,
)
from swell.train.state.train_state import TrainState
from swell.wire import messages
from swell.wire.checkpoint_files import is_whole, steps_in

SCRIPTS = Path(__file__).parent / "scripts"


class Unsavable:
    def state_dict(self) -> dict[str, object]:
        return {"handle": object()}

    def load_state_dict(self, state: dict[str, object]) -> None:
        raise AssertionError


def make_state(value: float, steps: int, num_features: int = 3, device: str = "cpu") -> TrainState:
    model = nn.Linear(num_features, 1, device=device)
    nn.init.constant_(model.weight, value)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, num_features, device=device)).sum().backward()
    optimizer.step()
    state = TrainState(model, optimizer, None, {})
    state.steps = steps
    return state


def weight_of(state: TrainState) -> torch.Tensor:
    return state.model.get_parameter("weight")


def test_newest_comes_back_with_its_optimizer(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path / "new" / "folder", 2, 30.0)
    checkpoints.save(make_state(1.0, steps=5))
    newest = make_state(2.0, steps=1000)
    checkpoints.save(newest)
    state = make_state(0.0, steps=0)
    assert checkpoints.load_newest(state)
    assert state.steps == 1000
    assert torch.equal(weight_of(state), weight_of(newest))
    moments = [parameter["exp_avg"] for parameter in state.optimizers[0].state.values()]
    assert all(
        map(torch.equal, moments, (parameter["exp_avg"] for parameter in newest.optimizers[0].state.values()))
    )
    assert not CheckpointStore(tmp_path / "none", 2, 30.0).load_newest(state)


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    paths = [checkpoints.save(make_state(1.0, steps)) for steps in (1, 2, 3, 10)]
    assert set(tmp_path.iterdir()) == set(paths[2:])


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_one_is_passed_over_with_a_warning(tmp_path: Path, damage: str) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    newest = checkpoints.save(make_state(2.0, steps=2))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    damaged: dict[str, bytes | bytearray] = {"flip": content, "cut": content[:-10], "empty": b""}
    newest.write_bytes(damaged[damage])
    state = make_state(0.0, steps=0)
    told = rf"the checkpoint of step 2 is damaged, and moved to {tmp_path}/damaged; that of step 1 is sound"
    with pytest.warns(UserWarning, match=told):
        assert checkpoints.load_newest(state)
    assert state.steps == 1
    assert [path.name for path in (tmp_path / "damaged").iterdir()] == [newest.name]


def test_where_all_are_damaged_training_begins_anew_and_says_so(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    for path in [checkpoints.save(make_state(1.0, steps)) for steps in (1, 2)]:
        path.write_bytes(b"")
    state = make_state(0.0, steps=0)
    with pytest.raises(NoCheckpointError, match="no undamaged checkpoint"):
        load_checkpoint(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2, "a reader moves nothing"
    told = list[tuple[str, int]]()
    checkpoints.tell_damaged = lambda *words: told.append(words)
    with pytest.warns(UserWarning, match="of steps 2, 1 are damaged, and moved to .*; no other is sound"):
        assert not checkpoints.load_newest(state)
    assert [sound_steps for _, sound_steps in told] == [0]
    path = checkpoints.save(make_state(1.0, steps=1))
    assert set(tmp_path.glob("step-*")) == {path}


def test_ordinary_torch_reads_it(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    state = make_state(2.0, steps=7)
    state.objects["words"] = Words()
    path = checkpoints.save(state)
    content = torch.load(path, weights_only=True)
    named = {"steps", "loss", "model", "modules", "optimizer", "scheduler", "scaler", "groups"}
    named |= {"trained", "objects", "values", "variables", "point", "place", "noise"}
    assert set(content) == named, "docs/how-to/read-a-checkpoint.md lists them"
    assert content["objects"] == {"words": Words().state_dict()}
    model = nn.Linear(3, 1)
    model.load_state_dict(content["model"])
    assert torch.equal(model.weight, weight_of(state))
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
    checkpoints = CheckpointStore(tmp_path, 3, 30.0)
    paths = [checkpoints.save(make_state(float(steps), steps)) for steps in (1, 2, 3)]
    assert load_checkpoint(tmp_path)["steps"] == 3
    assert load_checkpoint(str(paths[0]))["steps"] == 1
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    with pytest.warns(UserWarning, match=rf"{paths[2].name} is damaged; step-.* is read") as warned:
        assert load_checkpoint(tmp_path)["steps"] == 2
    assert [Path(each.filename).name for each in warned] == ["test_checkpoint.py"], "it names who asked"
    with pytest.raises(NoCheckpointError, match="is no undamaged checkpoint"):
        load_checkpoint(paths[2])
    with pytest.raises(NoCheckpointError, match="holds no undamaged checkpoint"):
        load_checkpoint(tmp_path.parent)
    with pytest.raises(
        NoCheckpointError, match=r"model\.pt is no undamaged checkpoint; give one, such as step-"
    ):
        load_checkpoint(tmp_path / "model.pt")


@pytest.mark.slow
def test_a_compiled_model_is_saved_under_its_own_names(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    state = make_state(2.0, steps=1)
    compiled = torch.compile(state.model)
    assert isinstance(compiled, nn.Module)
    checkpoints.save(TrainState(compiled, state.optimizer, None, {}))
    assert set(load_checkpoint(tmp_path)["model"]) == {"weight", "bias"}
    plain = make_state(0.0, steps=0)
    assert checkpoints.load_newest(plain)
    assert torch.equal(weight_of(plain), weight_of(state))


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
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
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    (tmp_path / ".draft-left-by-a-crash").write_bytes(b"half")
    state = make_state(0.0, steps=0)
    assert checkpoints.load_newest(state)
    assert state.steps == 1

    def killed(source: str, target: str) -> None:
        os.unlink(source)  # as another process may
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
        CheckpointStore(tmp_path, 2, 30.0).save(state)
    assert not list(tmp_path.iterdir())


def test_of_several_that_save_the_same_at_once_one_writes(tmp_path: Path) -> None:
    states = [make_state(1.0, steps=7) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        each = [pool.submit(CheckpointStore(tmp_path / "new", 2, 30.0).save_once, state) for state in states]
    written = [path for path in (one.result() for one in each) if path is not None]
    assert list((tmp_path / "new").iterdir()) == written and len(written) == 1
    assert CheckpointStore(tmp_path / "new", 2, 30.0).save_once(make_state(1.0, steps=8)) is not None
    (tmp_path / "file").touch()
    with pytest.raises(SaveError, match=r"no checkpoint at step 7 in .*file: "):
        CheckpointStore(tmp_path / "file", 2, 30.0).save_once(states[0])


def test_a_state_of_another_script_is_refused(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    other = make_state(1.0, steps=0)
    other.objects["counter"] = Unsavable()
    with pytest.raises(RuntimeError, match=r"holds nothing beside model .* this script registered counter;"):
        checkpoints.load_newest(other)


def test_a_state_that_does_not_say_from_where_to_go_on_is_refused(tmp_path: Path) -> None:
    """As that of a stream before it had a `place`: samples would come twice."""
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    state = make_state(1.0, steps=0)
    state.course = SampleSchedule(0, 4, False, False, is_stream=True)
    with pytest.raises(RuntimeError, match="does not say how far the samples have been trained on"):
        checkpoints.load_newest(state)


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
    checkpoints = CheckpointStore(tmp_path, 2, interval_s, clock)
    for wait_s in (first_s, interval_s, interval_s):
        begun_s = clock.now_s
        assert checkpoints.is_due() == (wait_s == 0)
        clock.now_s = begun_s + 0.99 * wait_s
        assert checkpoints.is_due() == (wait_s == 0)
        clock.now_s = begun_s + wait_s
        assert checkpoints.is_due()
        checkpoints.save(make_state(1.0, steps=1))


def test_one_that_cannot_be_written_is_not_tried_again_at_once(tmp_path: Path) -> None:
    clock = Clock()
    checkpoints = CheckpointStore(tmp_path, 2, 30.0, clock)
    state = make_state(1.0, steps=1)
    state.objects["reader"] = Unsavable()
    with pytest.raises(SaveError):
        checkpoints.save(state)
    assert not checkpoints.is_due()
    clock.now_s = 30.0
    assert checkpoints.is_due()


def test_drafts_that_a_kill_left_are_removed_and_one_that_is_being_written_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    checkpoints = CheckpointStore(folder, 2, 30.0)
    killed = fork_script(SCRIPTS / "killed.py", (str(folder),), tmp_path / "log", {})
    killed.join(PATIENCE_S)
    assert killed.exitcode == -signal.SIGKILL
    assert len(list(folder.iterdir())) == 1, "it left its draft"
    alive = folder / ".draft-alive"
    with alive.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path = checkpoints.save(make_state(1.0, steps=1))
        assert set(folder.iterdir()) == {path, alive}
    checkpoints.save(make_state(1.0, steps=2))
    assert not alive.exists()


def test_a_draft_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkstemp

    def interrupted(prefix: str, dir: Path) -> tuple[int, str]:
        monkeypatch.undo()
        made = make(prefix=prefix, dir=dir)
        CheckpointStore(tmp_path, 2, 30.0).save(make_state(1.0, steps=1))
        return made

    monkeypatch.setattr(tempfile, "mkstemp", interrupted)
    path = CheckpointStore(tmp_path, 2, 30.0).save(make_state(2.0, steps=2))
    assert steps_in(path) == 2 and path in tmp_path.iterdir()


def test_a_draft_folder_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp

    def interrupted(prefix: str, dir: Path) -> str:
        monkeypatch.undo()
        made = make(prefix=prefix, dir=dir)
        CheckpointStore(tmp_path, 2, 30.0).save(make_state(1.0, steps=1))
        assert not os.path.exists(made)
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    handle, draft = _locked_draft(tmp_path, is_folder=True)
    CheckpointStore(tmp_path, 2, 30.0).save(make_state(1.0, steps=2))
    assert os.path.isdir(draft), "it is locked"
    os.close(handle)


# ---------------------------------------------------------------- what is kept
class History:
    """One job's folder, and the processes that train one after the other."""

    def __init__(self, folder: Path, num_kept: int) -> None:
        self.folder, self.num_kept = folder, num_kept
        self.begin()

    def begin(self) -> None:
        self.checkpoints = CheckpointStore(self.folder, self.num_kept, 30.0)
        self.state = make_state(1.0, steps=0)

    def sound_steps(self) -> list[int]:
        named = self.folder.glob("step-*")
        return sorted(steps_in(path) for path in named if is_whole(path, path.name.split(".")[1]))

    def save(self) -> None:
        before = self.sound_steps()
        self.state.steps += 10
        path = self.checkpoints.save(self.state)
        after = self.sound_steps()
        assert self.state.steps in after and path.exists(), "what was just written stays"
        assert len(after) == min(len(before) + (self.state.steps not in before), self.num_kept)
        assert set(after) <= {*before, self.state.steps}
        assert len(after) == len(list(self.folder.glob("step-*"))), "none is damaged"

    def restart(self) -> None:
        before = self.sound_steps()
        self.begin()
        assert (self.checkpoints.load_newest(self.state) is not None) == bool(before)
        assert self.state.steps == max(before, default=0)
        assert self.sound_steps() == before, "none that is sound is lost"

    def damage(self, number: int, damage: str) -> None:
        paths = sorted(self.folder.glob("step-*"))
        if not paths:
            return
        path = paths[number % len(paths)]
        content = bytearray(path.read_bytes() or b"-")
        content[len(content) // 2] ^= 1
        damaged: dict[str, bytes | bytearray] = {"flip": content, "cut": content[:-1], "empty": b""}
        path.write_bytes(damaged[damage])
        self.checkpoints = CheckpointStore(self.folder, self.num_kept, 30.0)  # the next process finds it

    def leave_draft(self) -> None:
        (self.folder / ".draft-x").write_bytes(b"half")


DEEDS = st.one_of(
    st.tuples(st.just("save")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("leave_draft")),
    st.tuples(st.just("damage"), st.integers(0, 5), st.sampled_from(["flip", "cut", "empty"])),
)


@pytest.mark.filterwarnings("ignore:the checkpoint")
@settings(max_examples=60)
@given(st.lists(DEEDS, max_size=14), st.integers(1, 3))
def test_the_newest_sound_checkpoint_is_never_lost(deeds: list[tuple[str, ...]], num_kept: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), num_kept)
        for name, *words in [*deeds, ("restart",), ("save",)]:
            getattr(history, name)(*words)
        assert not list(Path(folder).glob(".draft-*")), "what a killed writer left"
        assert len(list(Path(folder).glob("damaged/*"))) <= MAX_QUARANTINED


def test_workers_begin_again_and_keep_what_they_save_where_all_are_damaged(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(total_steps=10**6, global_batch=6, checkpoint_interval_s=0.0)
    curve = str(SCRIPTS / "curve.py")
    agent.start_ready([0, 1], curve, str(tmp_path / "result"), "9999")
    agent.join([0, 1], source=None)
    agent.wait(0, messages.CheckpointSaved, lambda saved: saved.steps >= 20)
    agent.kill(0)
    agent.kill(1)
    damaged = sorted(agent.checkpoint_dir.glob("step-*"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-1])
    agent.start_ready([2, 3], curve, str(tmp_path / "result"), "9999")
    assert agent.join([2, 3], source=None) == 0
    told = agent.wait(2, messages.CheckpointDamaged)
    assert told.sound_steps == 0 and "; no other is sound" in told.message
    first = agent.wait(2, messages.CheckpointSaved)
    second = agent.wait(2, messages.CheckpointSaved, lambda saved: saved.steps > first.steps)
    agent.kill(2)
    agent.kill(3)
    with warnings.catch_warnings(action="error"):
        newest = load_checkpoint(agent.checkpoint_dir)["steps"]
    assert newest >= second.steps, (
        "each new one is kept, though it has fewer steps than those that were damaged"
    )
    assert {path.name for path in (agent.checkpoint_dir / "damaged").iterdir()} == {p.name for p in damaged}


def test_a_chosen_interval_follows_what_a_save_takes_and_how_often_training_is_lost(tmp_path: Path) -> None:
    clock = Clock()
    checkpoints = CheckpointStore(tmp_path, 2, None, clock)
    state = make_state(1.0, steps=1)
    state.objects["slow"] = Slow(clock, 2.0)
    checkpoints.mean_time_to_loss_s = 1e5
    assert checkpoints.take_save_s() is None and not checkpoints.is_due()
    clock.now_s += FIRST_S
    assert checkpoints.is_due(), "the first comes early: nothing is known of what it takes"
    checkpoints.save(state)
    assert checkpoints.take_save_s() == pytest.approx(2.0) and checkpoints.take_save_s() is None
    wait_s = best_interval_s(2.0, 1e5)
    clock.now_s += 0.99 * wait_s
    assert not checkpoints.is_due()
    clock.now_s += 0.02 * wait_s
    assert checkpoints.is_due()
    checkpoints.mean_time_to_loss_s = 1e3  # the gang has changed
    checkpoints.save(state)
    clock.now_s += 1.01 * best_interval_s(2.0, 1e3)
    assert checkpoints.is_due()
