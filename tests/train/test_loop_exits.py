"""Which locals decide when a loop is left, and go on from one round to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError
from swell.train.runtime.loop_exits import bests_so_far, counts_of_next, growing_counters, loop_exits

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


def patience_counted_down(losses: list[float]) -> Loop:
    best, left = None, 3
    for _ in range(9):
        for _ in losses:
            yield
        left = left - 1 if best is not None and losses[0] > best else 3
        best = losses[0] if best is None else min(best, losses[0])
        if left == 0:  # here
            print("early")
            return


def target_of_the_best(losses: list[float]) -> Loop:
    best = 0.0
    while True:
        yield
        best = max(best, losses[-1])
        if best > 0.9:  # here
            break


def count_of_a_loop_without_end(losses: list[float]) -> Loop:
    steps = 0
    while True:
        for _ in losses:
            yield
            steps += 1
            if steps == 10:
                break
        if steps == 10:  # here
            break


def count_of_a_while(losses: list[float]) -> Loop:
    steps = rounds = 0
    while steps < 10 and rounds < 10:  # here
        for _ in losses:
            yield
            steps += 1
        rounds += 1


def count_in_a_loop_over_epochs(losses: list[float]) -> Loop:
    steps = 0
    for _ in Job().epochs():
        yield
        steps += 1  # noqa: SIM113 - as scripts do
        if steps >= 10:
            break


def count_in_a_while_that_asks(losses: list[float]) -> Loop:
    steps = 0
    while not Job().should_stop():
        yield
        steps += 1
        if steps >= 10:
            break


class Job:
    def epochs(self) -> range:
        return range(9)

    def should_stop(self) -> bool:
        return False


def sum_of_each_epoch(losses: list[float]) -> Loop:
    for _ in range(9):
        total = 0.0
        for loss in losses:
            yield
            total += loss
        if total < 0.1:
            break


def flag_of_the_inner_loop(losses: list[float]) -> Loop:
    is_over = False
    for _ in range(9):
        for loss in losses:
            yield
            if loss > 100:
                is_over = True
                break
        if is_over:
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
        (patience_counted_down, ("left",)),
        (target_of_the_best, ("best",)),
        (count_of_a_loop_without_end, ("steps",)),
        (count_of_a_while, ("steps",)),
    ],
)
def test_what_decides_when_the_loop_ends_is_found(
    loop: Callable[[list[float]], Loop], names: tuple[str, ...]
) -> None:
    frame = next_frame(loop)
    (found,) = loop_exits([frame])
    file, line = found.place.rsplit(":", 1)
    near = Path(file).read_text().splitlines()[int(line) - 1 : int(line) + 1]
    assert (found.names, found.function) == (names, loop.__name__)
    assert any("# here" in text for text in near)


@pytest.mark.parametrize(
    ("call", "keeps"),
    [
        ("torch.save(model, 'best.pt')", True),
        ("save_model(model)", True),
        ("trainer.saveCheckpoint()", True),
        ("self._save(best)", True),
        ("kept = copy.deepcopy(model)", True),
        ("kept = model.state_dict()", True),
        ("print(model.state_dict())", True),
        ("plateau.step(best)", True),
        ("step_scheduler(best)", True),
        ("group['lr'] *= 0.5", True),
        ("log_step(best)", False),
        ("self.logger.step(best)", False),
        ("logStep(best)", False),
        ("print_saved(best)", False),
        ("writer.add_scalar('best', best, steps)", False),
        ("count_steps(best)", False),
        ("print(dict(best=best))", False),
        ("wandb.log({'best': best})", False),
        ("progress.step(best)", False),
    ],
)
def test_a_best_so_far_that_is_only_told_is_none(call: str, keeps: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    lines = ["def fit():", " best = 9.0", " for loss in (3.0, 2.0):", "  yield", "  if loss < best:"]
    script.write_text("\n".join([*lines, "   best = loss", f"   {call}"]))
    space: dict[str, Any] = {}
    exec(compile(script.read_text(), str(script), "exec"), space)  # noqa: S102 - of this test
    found = bests_so_far([next_frame(lambda _: space["fit"]())])
    assert [best.name for best in found] == (["best"] if keeps else [])


@pytest.mark.parametrize(
    "loop",
    [
        count_in_a_loop_over_epochs,
        count_in_a_while_that_asks,
        sum_of_each_epoch,
        flag_of_the_inner_loop,
        best_that_is_only_kept,
    ],
)
def test_counters_sums_and_flags_are_none(loop: Callable[[list[float]], Loop]) -> None:
    assert loop_exits([next_frame(loop)]) == []


def counters_of_all_kinds(losses: list[float]) -> Loop:
    steps = total = batches = stage = 0
    for epoch in range(9):
        stage = epoch // 4
        batches = 0
        for loss in losses:
            yield
            steps += 1
            total = total + 12
            batches += len(losses)
            if loss > stage:
                print(steps, total, batches)


def test_counters_are_what_is_only_added_to() -> None:
    found = growing_counters([next_frame(counters_of_all_kinds)])
    assert found == {"counters_of_all_kinds().steps", "counters_of_all_kinds().total"}


def nested_next(losses: list[float]) -> Loop:
    batches = iter(losses)
    for epoch in range(3, 9):
        for number in range(9):
            yield next(batches)  # type: ignore[misc]
            print(epoch, number)


def next_after_a_for(losses: list[float]) -> Loop:
    for number in range(9):
        for _ in losses:
            yield
        print(next(iter(losses)), number)


def test_what_counts_batches_taken_with_next_is_found_in_all_loops_around() -> None:
    found = counts_of_next(next_frame(nested_next))
    assert found is not None
    assert (found.names, found.function) == (("epoch", "number"), "nested_next")
    assert counts_of_next(next_frame(next_after_a_for)) is None
    assert counts_of_next(next_frame(patience)) is None


def test_a_loop_that_asks_for_batches_for_ever_is_told() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(4, 1)), batch_size=2)
    run = train.elastic(model, optimizer, loader, steps=3)
    with pytest.raises(LoopError, match="the script asks for batches again"):
        while True:
            for (x,) in run.batches():
                loss = model(x).square().mean()
                loss.backward()
                run.step(loss)


def next_frame(loop: Callable[[list[float]], Loop]):  # type: ignore[no-untyped-def]
    rounds = loop([1.0, 2.0])
    next(rounds)
    kept.append(rounds)
    return rounds.gi_frame  # type: ignore[attr-defined]


kept: list[Loop] = []
