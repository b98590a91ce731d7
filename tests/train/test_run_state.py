"""`run.state`, in one process: what an assignment means, and what steps that are repeated do to it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.runtime.run import Run
from swell.train.state.codec import EncodeError, decode, encode
from swell.train.state.script_state import ScriptState
from swell.train.state.script_values import fill, mark, wrap


def saved(state: ScriptState) -> ScriptState:
    """What a new process finds."""
    restored = ScriptState()
    restored.restore(*decode(*encode([state.state_dicts(), copy.deepcopy(state.values_tree())])))
    return restored


def test_a_value_is_the_initial_one_at_first_and_later_the_saved_one() -> None:
    first = ScriptState()
    assert first.setdefault("best", 0.5) == 0.5
    first["count"] = 3
    first["best"] = 0.7
    later = saved(first)
    later["count"] = 0  # the same line as at first
    assert later["count"] == 3 and later.setdefault("best", 0.5) == 0.7
    later["count"] += 1
    assert later["count"] == 4
    later.begin_step()
    later["best"] = 0.0
    assert later["best"] == 0.0


def test_a_value_that_the_script_has_looked_at_is_set() -> None:
    first = ScriptState({"launches": 1})
    later = saved(first)
    later["launches"] = later.get("launches", 0) + 1
    assert later["launches"] == 2


def test_an_object_gets_what_was_saved_when_it_is_given() -> None:
    first = ScriptState()
    first["ema"] = nn.Linear(2, 1)
    later = saved(first)
    assert "ema" not in later and later.state_dicts()["ema"]["weight"].shape == (1, 2), "nothing is lost"
    with pytest.raises(KeyError, match=r"run.state.setdefault\('ema', ...\)"):
        later["ema"]
    ema = later.setdefault("ema", nn.Linear(2, 1))
    assert torch.equal(ema.weight, first["ema"].weight) and later["ema"] is ema


def test_generators_go_on() -> None:
    first = ScriptState()
    first["numpy"], first["torch"] = np.random.default_rng(1), torch.Generator().manual_seed(1)
    later = saved(first)
    later["numpy"], later["torch"] = np.random.default_rng(2), torch.Generator()
    assert later["numpy"].random() == first["numpy"].random()
    assert torch.rand(3, generator=later["torch"]).equal(torch.rand(3, generator=first["torch"]))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), "is a object without state_dict"),
        ({1, 2}, "is a set"),
        ([object()], r"run.state\['x'\]\[0\]"),
    ],
)
def test_what_cannot_be_saved_is_refused_at_once(value: Any, error: str) -> None:
    with pytest.raises((TypeError, EncodeError), match=error):
        ScriptState()["x"] = value


def test_a_step_that_is_repeated_counts_once() -> None:
    state = ScriptState({"count": 0, "history": [1.0], "mean": torch.zeros(2), "seen": Counter(a=2)})
    history, mean = state["history"], state["mean"]
    state["numbers"] = np.random.default_rng(1)
    state.begin_step()
    drawn = state["numbers"].random()
    for _ in range(2):
        state["count"] += 1
        history.append(2.0)
        mean += 1.0
        state["seen"]["b"] += 1
        state["new"] = "text"
        state.rewind()
        assert dict(state)["count"] == 0 and "new" not in state
        assert state["history"] is history and history == [1.0]
        assert state["mean"] is mean and mean.tolist() == [0.0, 0.0]
        assert state["seen"] == Counter(a=2)
        assert state["numbers"].random() == drawn


def make_loop() -> tuple[nn.Linear, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    x = torch.arange(12.0).reshape(-1, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.001), DataLoader(TensorDataset(x), batch_size=4)


def losses(run: Run, model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for _ in run.epochs():
        for (x,) in run.batches():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            mean = run.backward(loss)
            run.step()
            yield mean


def test_a_checkpoint_has_all_that_belongs_to_its_step(tmp_path: Path, saves_each_step: None) -> None:
    """Also what the script counts after `run.step`, and what it does between two epochs."""
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=3)
    run.state["steps"], run.state["epochs"] = 0, 0
    for _ in run.epochs():
        for (x,) in run.batches():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            run.backward(loss)
            run.step()
            run.state["steps"] += 1
        run.state["epochs"] += 1
        kept = train.load_checkpoint(tmp_path)
        assert kept["values"]["steps"] == kept["steps"] == run.steps - 1, "the last step awaits what follows"
        assert kept["values"]["epochs"] == kept["place"]["epoch"]
    assert run.progress == 1.0 and run.state["epochs"] == 3


def test_passes_of_a_step_count_once() -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=2, max_local_batch=1)
    run.state["count"] = 0
    counts = []
    for _ in losses(run, model, optimizer):
        run.state["count"] += 1
        counts.append(run.state["count"])
    assert counts == [number + 1 for number in range(6) for _ in range(4)]


def test_progress_goes_from_0_to_1() -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, steps=4)
    assert run.progress == 0.0
    shown = [run.progress for _ in losses(run, model, optimizer)]
    assert shown == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    "value",
    [
        3,
        "text",
        None,
        [1, (2, None)],
        {"a": torch.ones(2)},
        np.arange(3),
        np.float32(2),
        {1, 2},
        torch.ones(3),
    ],
)
def test_values_of_variables_come_back(value: Any) -> None:
    again = fill(None, decode(*encode(wrap(value)))["value"])
    assert mark(again) == mark(value) or again == value.item()
