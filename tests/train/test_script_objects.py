"""Objects that a script changes between are saved by their types, and made again in another process."""

from __future__ import annotations

import io
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell.script_facts import ScriptFinding
from swell.train.state import codec
from swell.train.state.script_values import can_be_made, copied, pack, unpack
from swell.train.state.script_variables import ScriptVariables


def through_checkpoint(value: Any) -> Any:
    packed = pack(value)
    assert packed is not None
    file = io.BytesIO()
    torch.save(codec.decode(*codec.encode(packed), for_file=True), file)
    file.seek(0)
    return codec.decode(*codec.encode(torch.load(file, weights_only=True)))


def test_what_cannot_be_made_is_an_error() -> None:
    layer = nn.Linear(2, 1)
    assert not can_be_made(layer) and not can_be_made(lambda: 1) and pack(lambda: 1) is None
    with pytest.raises(TypeError, match=r"torch.nn.modules.linear.Linear cannot be made again"):
        unpack(None, through_checkpoint(layer))
    parameter = nn.Parameter(torch.zeros(1))
    before = torch.optim.lr_scheduler.LinearLR(torch.optim.SGD([parameter], 0.1))
    now = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([parameter], 0.1), 3)
    with pytest.raises(TypeError, match=r"was a torch.optim.lr_scheduler.StepLR, and here it is a LinearLR"):
        unpack(before, through_checkpoint(now))


class Best(NamedTuple):
    loss: float
    per_class: np.ndarray


def test_arrays_deques_and_records_within_containers_come_back_in_their_place() -> None:
    def history() -> dict[Any, Any]:
        zeros = np.zeros(3)
        return {
            "sum": zeros,
            ("train", 1): deque([0.5], maxlen=2),
            "best": Best(9.0, np.zeros(2)),
            "seen": set(),
        }

    own, saved = history(), history()
    kept = copied(saved)
    saved["sum"] += [1.0, 2.0, 3.0]
    saved["train", 1].extend([0.25, 0.125])
    saved["best"], saved["seen"] = Best(0.125, np.ones(2)), {(1, "a"), 2}
    assert kept["sum"].tolist() == [0.0] * 3 and list(kept["train", 1]) == [0.5] and not kept["seen"]
    array, losses, seen = own["sum"], own["train", 1], own["seen"]
    assert unpack(own, through_checkpoint(saved)) is own
    assert own["sum"] is array and array.tolist() == [1.0, 2.0, 3.0]
    assert own["train", 1] is losses and losses == deque([0.25, 0.125], maxlen=2)
    assert isinstance(own["best"], Best) and own["best"].loss == 0.125
    assert own["best"].per_class.tolist() == [1.0, 1.0]
    assert own["seen"] is seen and seen == {(1, "a"), 2}


def test_a_change_that_cannot_be_saved_is_told_with_its_line() -> None:
    told: list[ScriptFinding] = []
    variables = ScriptVariables()
    variables.is_wanted, variables.tell = True, told.append

    def train() -> Iterator[None]:
        score: nn.Module = nn.Linear(2, 1)
        criterion: nn.Module = nn.MSELoss()
        loader = DataLoader(TensorDataset(torch.zeros(4)))
        for epoch in range(3):
            variables.reach_boundary(sys._getframe())
            variables.tree()
            variables.leave_boundary()
            yield
            if epoch == 1:
                score = nn.Sequential(nn.Linear(2, 1))  # here
                criterion = nn.L1Loss()
        print(score, loader, criterion)

    rounds = train()
    next(rounds)
    next(rounds)
    assert told == []
    with pytest.warns(UserWarning, match="is another one than when the loop began"):
        next(rounds)
    [finding] = told
    line = int(finding.place.rpartition(":")[2])
    assert "# here" in Path(__file__).read_text().splitlines()[line - 1]
    assert finding.name == "script-variable" and not finding.holds
    assert finding.text.startswith("`train().score` is another one than when the loop began")


NEAR_UPTIME_S = 0.8 * time.monotonic()


class Point:
    def __init__(self, at: Any = 0) -> None:
        self.at = at


def odd_place(visits: np.ndarray, step: int) -> np.ndarray:
    visits[2 * step + 1] += 1
    return visits


def last_moved(points: list[Point], step: int) -> list[Point]:
    points[-1].at = step
    return points


def saved_by_a_loop(
    value: Any, change: Callable[[Any, int], Any], told: list[ScriptFinding]
) -> dict[str, Any]:
    """What is saved of a loop that changes a value in each of nine steps."""
    variables = ScriptVariables()
    variables.is_wanted, variables.tell = True, told.append
    for step in range(9):
        variables.reach_boundary(sys._getframe())
        variables.leave_boundary()
        value = change(value, step)
    variables.reach_boundary(sys._getframe())
    return variables.tree()


@pytest.mark.parametrize(
    ("begun", "change", "name", "expected"),
    [
        (9e9, lambda _, step: NEAR_UPTIME_S - step, "", NEAR_UPTIME_S - 8),
        (np.zeros(5000), odd_place, "", np.arange(5000) % 2 * (np.arange(5000) < 18)),
        ([0.5] * 3000, lambda old, _: [*old, 0.25], "", [0.5] * 3000 + [0.25] * 9),
        ([Point() for _ in range(99)], last_moved, ".98.at", 8),
    ],
    ids=["near the uptime", "between samples of an array", "long list", "99 objects"],
)
def test_what_changes_is_saved_whole(
    begun: Any, change: Callable[[Any, int], Any], name: str, expected: Any
) -> None:
    saved = saved_by_a_loop(begun, change, [])[f"saved_by_a_loop().value{name}"]["value"]
    np.testing.assert_equal(saved, expected)


@pytest.mark.parametrize(
    ("begin", "change", "why"),
    [
        (lambda: [0.5] * 300_000, lambda old, _: [*old, 0.25], "more than 16,777,216 bytes"),
        (lambda: [Point() for _ in range(1001)], lambda old, _: [*old, Point()], "more than 1,000 objects"),
        (
            lambda: None,
            lambda _, step: Point(nn.Linear(2, 1)) if step else None,
            r"than when the loop began \(.*Point",
        ),
    ],
)
def test_what_cannot_be_saved_is_told_by_its_name(
    begin: Callable[[], Any], change: Callable[[Any, int], Any], why: str
) -> None:
    told: list[ScriptFinding] = []
    with pytest.warns(UserWarning, match=f"`saved_by_a_loop.*{why}"):
        saved_by_a_loop(begin(), change, told)
    assert len(told) == 1


def test_a_value_of_a_class_that_is_imported_later_is_made_then(monkeypatch: pytest.MonkeyPatch) -> None:
    phases: Any = ModuleType("phases")
    phases.Phase = Enum("Phase", ["WARM"], module="phases")  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "phases", phases)
    skeleton, tensors = codec.encode([phases.Phase.WARM])
    monkeypatch.delitem(sys.modules, "phases")
    read = codec.decode(skeleton, tensors)
    with pytest.raises(LookupError, match=r"there is no Phase\.WARM in phases here"):
        codec.completed(read)
    monkeypatch.setitem(sys.modules, "phases", phases)
    assert codec.completed(read) == [phases.Phase.WARM]


def test_a_variable_of_a_closure_may_be_deleted_and_set_again() -> None:
    variables = ScriptVariables()
    variables.is_wanted = True

    def train() -> Iterator[Callable[[int | None], None]]:
        def keeper() -> Callable[[int | None], None]:
            count = 0

            def keep(value: int | None) -> None:
                nonlocal count
                if value is None:
                    del count
                else:
                    count = value

            return keep

        keep = keeper()
        for _ in range(3):
            variables.reach_boundary(sys._getframe())
            variables.leave_boundary()
            variables.begin_step(sys._getframe())
            yield keep

    steps = train()
    keep, name = next(steps), "train().keep.count"
    keep(1)
    next(steps)
    assert variables.tree()[name] == {"value": 1}
    keep(None)
    next(steps)
    assert name not in variables.tree()
    variables.rewind()
    keep(2)
    assert variables.tree()[name] == {"value": 2}


def test_a_function_of_torch_itself_is_found_again() -> None:
    """Its qualified name is within a class that no module has."""
    packed = pack(torch.tanh)
    assert packed is not None and unpack(None, packed) is torch.tanh


def test_a_worker_that_joins_amid_the_first_epoch_has_what_its_head_set_at_first() -> None:
    """The others have set the value to what it was, so no state has it; here the head knows more."""
    variables = ScriptVariables()
    variables.is_wanted = True

    def train() -> tuple[float, dict[str, float], list[float]]:
        mean, kept, seen = 0.0, {"value": 0.0}, [0.0]
        variables.restore({"train().mean": {"value": 0.5}})
        variables.begin_epochs(sys._getframe(), "amid")
        kept["value"] = mean
        seen[0] = mean
        variables.reach_boundary(sys._getframe())
        variables.leave_boundary()
        return mean, kept, seen

    assert train() == (0.5, {"value": 0.0}, [0.0])


def test_one_element_of_a_large_array_is_a_change() -> None:
    """Of 80 MB; compared are all bytes."""
    large = np.zeros(10_000_000)

    def set_one(array: np.ndarray, step: int) -> np.ndarray:
        array[3_333_333 + step] = 1.0
        return array

    assert saved_by_a_loop(large, set_one, [])["saved_by_a_loop().value"]["value"] is large
