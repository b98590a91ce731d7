"""What decides when a loop is left, and goes on from one round to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError
from swell.train.runtime.loop_exits import loop_exits
from swell.train.runtime.step_comparison import listed

Loop = Iterator[None]


def patience(losses: list[float]) -> Loop:
    best, wait = math.inf, 0
    for loss in losses:
        yield
        if loss < best:
            best, wait = loss, 0
        else:
            wait += 1
            if wait > 3:
                break  # here


def patience_by_a_sum(losses: list[float]) -> Loop:
    least, wait = math.inf, 0
    for _ in range(9):
        total = 0.0
        for loss in losses:
            yield
            total += loss
        if total < least:
            least = total
        else:
            wait += 1
        if wait > 3:
            break  # here


def count_of_a_while(losses: list[float]) -> Loop:
    self, rounds = SimpleNamespace(count=0), 0
    while self.count < 10 and rounds < 10:  # here
        for _ in losses:
            yield
            self.count += len(losses)
        rounds += 1


def sum_of_each_epoch(losses: list[float]) -> Loop:
    for _ in range(9):
        total = 0.0
        for loss in losses:
            yield
            total += loss
        if total < 0.1:
            break


def best_that_is_only_kept(losses: list[float]) -> Loop:
    best = math.inf
    for loss in losses:
        yield
        if loss < best:
            best = loss
            print("saved")
        for number in range(9):
            if number > best:
                break


@pytest.mark.parametrize(
    ("loop", "names"),
    [
        (patience, ("best", "wait")),
        (count_of_a_while, ("self.count",)),
    ],
)
def test_what_decides_when_the_loop_ends_is_found(
    loop: Callable[[list[float]], Loop], names: tuple[str, ...]
) -> None:
    frame = next_frame(loop)
    (found,) = loop_exits([frame], own_of(loop, *names))
    file, line = found.place.rsplit(":", 1)
    near = Path(file).read_text().splitlines()[int(line) - 1 : int(line) + 1]
    assert f"{listed(names)} in {loop.__name__}()" in found.text
    assert any("# here" in text for text in near)
    assert loop_exits([frame], []) == [], "all workers have the same"


def own_of(loop: Callable[[list[float]], Loop], *names: str) -> set[str]:
    return {f"{loop.__name__}().{name}" for name in names}


def test_what_follows_from_a_sum_of_a_round_is_found() -> None:
    (found,) = loop_exits([next_frame(patience_by_a_sum)], own_of(patience_by_a_sum, "total"))
    assert "`wait` in patience_by_a_sum()" in found.text


def attribute_of_another_object(losses: list[float]) -> Loop:
    stats, schedule = SimpleNamespace(done=0.0), SimpleNamespace(done=False)
    while not schedule.done:
        for loss in losses:
            yield
            stats.done += loss


def mean_of_all_workers(losses: list[float]) -> Loop:
    run, least = SimpleNamespace(backward=abs), math.inf
    for loss in losses:
        yield
        least = min(least, run.backward(loss))
        if least < 0.1:
            break


@pytest.mark.parametrize(
    "loop",
    [sum_of_each_epoch, best_that_is_only_kept, attribute_of_another_object, mean_of_all_workers],
)
def test_sums_of_a_round_are_none(loop: Callable[[list[float]], Loop]) -> None:
    assert loop_exits([next_frame(loop)], own_of(loop, "total", "best", "stats.done", "loss")) == []


def test_a_loop_that_asks_for_batches_for_ever_is_told() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(4, 1)), batch_size=2)
    run = train.elastic(model, optimizer, loader, steps=3)
    with pytest.raises(LoopError, match="the script asks for batches again"):
        while True:
            for (x,) in run.batches():
                loss = model(x).square().mean()
                run.backward(loss)
                run.step()


def next_frame(loop: Callable[[list[float]], Loop]):  # type: ignore[no-untyped-def]
    rounds = loop([1.0, 2.0])
    next(rounds)
    kept.append(rounds)
    return rounds.gi_frame  # type: ignore[attr-defined]


kept: list[Loop] = []
