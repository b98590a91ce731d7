"""A state is saved behind training as if training had stood still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import DEVICE
from tests.train.test_checkpoint import Clock, make_state, weight_of

from swell.train.state import staging
from swell.train.state.checkpoint import SLOW_S, CheckpointStore, Content, SaveError, load_checkpoint
from swell.train.state.staging import SPARE_BYTES
from swell.train.state.train_state import TrainState
from swell.wire.checkpoint_files import checkpoints_in, is_whole, steps_in


class Gate(CheckpointStore):
    """Writes when it is let."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(folder, 2, 0.0, clock)
        self.is_open = threading.Event()

    def write(self, content: Content) -> Path:
        assert self.is_open.wait(PATIENCE_S)
        return super().write(content)


def begin(checkpoints: CheckpointStore, state: TrainState) -> None:
    """Make room, and begin the save."""
    assert checkpoints.begin(state) is None
    assert checkpoints.wait() is None
    assert checkpoints.is_idle
    assert checkpoints.begin(state) is None


def test_what_is_saved_is_the_state_at_the_beginning_of_the_save(tmp_path: Path) -> None:
    checkpoints = Gate(tmp_path)
    state = make_state(1.0, steps=3, device=DEVICE)
    begin(checkpoints, state)
    saved = weight_of(state).cpu().clone()
    assert checkpoints.take() is None
    assert not checkpoints.is_idle
    with torch.no_grad():
        weight_of(state).data.clamp_(5.0)  # as a script does, which no version counter tells
    state.steps = 4
    checkpoints.is_open.set()
    path = checkpoints.wait()
    assert path is not None
    assert steps_in(path) == 3
    content = load_checkpoint(path)
    assert torch.equal(content["model"]["weight"], saved)
    assert checkpoints.begin(state) is None, "in the same room"
    again = checkpoints.wait()
    assert again is not None
    assert torch.equal(load_checkpoint(again)["model"]["weight"], weight_of(state).cpu())


def test_a_state_that_grows_in_each_step_is_saved(tmp_path: Path) -> None:
    state = make_state(1.0, steps=0)
    checkpoints = CheckpointStore(tmp_path, 2, 0.0)
    memory = state.objects["memory"] = []
    for state.steps in range(1, 11):
        memory.append(torch.full((state.steps,), 1.0))
        assert checkpoints.begin(state) is None
        checkpoints.wait()
    newest = load_checkpoint(tmp_path)
    assert newest["steps"] == len(newest["values"]["memory"]) >= 9


def test_without_memory_for_a_copy_training_stands_still_and_the_owner_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = make_state(1.0, steps=1)
    checkpoints = CheckpointStore(tmp_path, 4, 0.0)
    monkeypatch.setattr(staging, "free_bytes", lambda: SPARE_BYTES)
    for steps in (1, 2):
        state.steps = steps
        assert checkpoints.begin(state) is None
        assert checkpoints.wait() is None
        if steps == 1:
            with pytest.warns(UserWarning, match="stands still for each checkpoint, for a copy of the state"):
                path = checkpoints.begin(state)
        else:
            path = checkpoints.begin(state)
        assert path is not None
        assert steps_in(path) == steps
    monkeypatch.undo()
    begin(checkpoints, state)
    assert checkpoints.wait() is not None, "there is room again"


def test_storage_that_hangs_is_told_once_and_training_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    checkpoints = Gate(tmp_path, clock)
    begin(checkpoints, make_state(1.0, steps=7))
    assert checkpoints.take() is None
    clock.now_s = SLOW_S + 1.0
    with pytest.raises(SaveError, match=r"no checkpoint at step 7 .*slow or hangs"):
        checkpoints.take()
    clock.now_s = 2 * SLOW_S
    assert checkpoints.take() is None
    checkpoints.is_open.set()
    assert checkpoints.wait() is not None


SAVE_S = 0.05  #: that one of these takes, about

SAVER = """
import sys
from pathlib import Path
from tests.train.test_background_save import begin
from tests.train.fake_agent import DEVICE
from tests.train.test_checkpoint import make_state, weight_of
from swell.train.state.checkpoint import CheckpointStore

checkpoints = CheckpointStore(Path(sys.argv[1]), 2, 0.0)
state = make_state(0.0, steps=0, num_features=200_000)
while True:
    state.steps += 1
    weight_of(state).data.fill_(float(state.steps))
    if checkpoints.is_idle:
        checkpoints.begin(state)
    elif (path := checkpoints.take()) is not None:
        print(path.name, flush=True)
"""


@contextmanager
def saving(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SAVER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("num_kills", [2, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.timeout(900)
def test_after_a_kill_at_any_moment_the_newest_complete_one_is_sound(tmp_path: Path, num_kills: int) -> None:
    draws = torch.Generator().manual_seed(0)
    for _ in range(num_kills):
        with saving(tmp_path) as process:
            assert process.stdout is not None
            told = process.stdout.readline().strip()
            time.sleep(float(torch.rand((), generator=draws)) * SAVE_S)  # any moment of a save
            os.kill(process.pid, signal.SIGKILL)
        found = checkpoints_in(tmp_path)
        assert all(is_whole(path, digest) for digest, path in found)
        newest = found[0][1]
        assert steps_in(newest) >= int(told.split(".")[0].removeprefix("step-"))
        weight = load_checkpoint(newest)["model"]["weight"]
        assert torch.equal(weight, torch.full_like(weight, float(steps_in(newest))))
