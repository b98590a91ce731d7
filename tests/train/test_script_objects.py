"""What a script keeps in variables: which values are saved, whole, and put back in the same objects."""

from __future__ import annotations

import copy
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
from swell.train.state.script_values import bring_back, copied, fill, fill_object, keep, wrap
from swell.train.state.script_variables import ScriptVariables


def through_checkpoint(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(codec.decode(*codec.encode(wrap(value)), for_file=True), file)
    file.seek(0)
    return codec.decode(*codec.encode(torch.load(file, weights_only=True)))


def test_an_object_of_another_type_is_not_filled() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    before = torch.optim.lr_scheduler.LinearLR(torch.optim.SGD([parameter], 0.1))
    now = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([parameter], 0.1), 3)
    with pytest.raises(TypeError, match=r"was a torch.optim.lr_scheduler.StepLR, and here it is a LinearLR"):
        fill_object(before, through_checkpoint(now))


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
    assert fill(own, through_checkpoint(saved)["value"]) is own
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
    with pytest.warns(UserWarning, match="changes while the job trains"):
        next(rounds)
    finding = told[0]
    line = int(finding.place.rpartition(":")[2])
    assert "# here" in Path(__file__).read_text().splitlines()[line - 1]
    assert finding.name == "script-variable" and not finding.holds
    assert finding.text.startswith("`train().score` (torch.nn.modules.container.Sequential) changes while")
    assert any(other.text.startswith("`train().criterion` (torch.nn.modules.loss.L1Loss)") for other in told)


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
    saved = saved_by_a_loop(copy.deepcopy(begun), change, [])[f"saved_by_a_loop().value{name}"]["value"]
    np.testing.assert_equal(saved, expected)


def squared(value: float) -> float:
    return value**2


@pytest.mark.parametrize(
    ("begin", "change", "why"),
    [
        (lambda: [0.5] * 2_100_000, lambda old, _: [*old, 0.25], "more than 1,073,741,824 bytes"),
        (lambda: [Point() for _ in range(9)], lambda old, _: [*old, Point()], "list"),
        (lambda: None, lambda _, step: Point() if step else None, "Point"),
        (list, lambda old, _: [*old, nn.Linear(2, 1)], "list"),
        (nn.MSELoss, lambda _, step: nn.L1Loss() if step else nn.MSELoss(), "L1Loss"),
        (lambda: abs, lambda _, step: (lambda value: value) if step else abs, "lambda"),
    ],
)
def test_what_cannot_be_saved_is_told_by_its_name(
    begin: Callable[[], Any], change: Callable[[Any, int], Any], why: str
) -> None:
    told: list[ScriptFinding] = []
    with pytest.warns(UserWarning, match=rf"`saved_by_a_loop\(\).value` \(.*{why}.*\) changes while the job"):
        saved_by_a_loop(begin(), change, told)
    [finding] = [one for one in told if ".value`" in one.text]
    assert finding.text.endswith("in run.state['value']") and not finding.holds


def test_a_name_that_stands_for_another_object_of_the_script_is_saved_by_the_name_of_that() -> None:
    told: list[ScriptFinding] = []
    saved = saved_by_a_loop(abs, lambda _, step: squared if step else abs, told)
    assert saved["saved_by_a_loop().value"]["same"] == f"{__name__}.squared" and not told


def test_a_step_that_comes_again_finds_the_objects_that_it_began_with() -> None:
    """Also where a name or an item holds another one by now, as a batch, which stays as it is."""
    batch, mean = torch.ones(2), torch.zeros(2)
    history = deque([mean], maxlen=2)
    log = [0.5]
    stats = {"mean": mean, "log": [log], "history": history}
    kept = keep(stats)
    stats["mean"] = history[0] = batch
    stats["log"] = [[9.0]]
    mean += 1.0
    log.append(0.25)
    assert bring_back(kept) is stats
    assert stats["mean"] is mean and history[0] is mean and mean.tolist() == [0.0, 0.0]
    assert stats["log"] == [[0.5]] and log == [0.5] and batch.tolist() == [1.0, 1.0]


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


def test_a_local_may_be_deleted_and_set_again() -> None:
    variables = ScriptVariables()
    variables.is_wanted = True

    def train() -> Iterator[None]:
        count = 0
        for step in range(3):
            variables.reach_boundary(sys._getframe())
            variables.leave_boundary()
            variables.begin_step(sys._getframe())
            yield
            if step == 1:
                del count
            else:
                count = step + 1

    steps = train()
    next(steps)
    next(steps)
    assert variables.tree()["train().count"]["value"] == 1
    next(steps)
    assert "train().count" not in variables.tree()


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

    tree = saved_by_a_loop(large, set_one, [])
    packed = tree["saved_by_a_loop().value"]
    assert tree.get(packed.get("same"), packed)["value"] is large, "a variable of this test holds it, too"
