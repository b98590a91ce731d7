"""A checkpoint is whole or not there."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
import torch
from torch import nn

from swell.train.checkpoint import Checkpoints, SaveError
from swell.train.state import TrainState


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


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    first = checkpoints.save(make_state(1.0, steps=1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (20_000, limits[1])
    )  # a file that cannot grow: EFBIG for ENOSPC
    try:
        with pytest.raises(SaveError, match="no checkpoint at step 2 in"):
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


def test_a_state_of_another_script_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2, 30.0)
    checkpoints.save(make_state(1.0, steps=1))
    other = make_state(1.0, steps=0)
    other.objects["counter"] = Unsavable()
    with pytest.raises(RuntimeError, match="registered \\['counter'\\]"):
        checkpoints.load_newest(other)


def test_it_is_due_after_the_interval(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path, 2, 0.0).is_due()
    assert not Checkpoints(tmp_path, 2, 1e9).is_due()
