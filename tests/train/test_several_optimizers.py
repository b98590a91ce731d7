"""Several optimizers in one run: what is refused, what counts, and what is undone."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError
from swell.train.runtime.run import Run
from swell.train.state.checkpoint import CheckpointStore


class Problem:
    """Two small nets, their optimizers and a loader."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.g, self.d = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=0.01)
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=0.01)
        self.loader = DataLoader(TensorDataset(torch.randn(24, 2)), batch_size=6)

    def begin(self, **options: object) -> Run:
        models, optimizers = {"g": self.g, "d": self.d}, {"g": self.opt_g, "d": self.opt_d}
        return train.elastic(models, optimizers, self.loader, steps=8, **options)  # type: ignore[arg-type]

    def step_d(self, run: Run, x: torch.Tensor) -> torch.Tensor:
        self.opt_d.zero_grad()
        loss = self.d(self.g(x).detach()).mean() - self.d(x).mean()
        mean = run.backward(loss)
        run.step(self.opt_d)
        return mean

    def step_g(self, run: Run, x: torch.Tensor) -> torch.Tensor:
        self.opt_g.zero_grad()
        loss = -self.d(self.g(x)).mean()
        mean = run.backward(loss)
        run.step(self.opt_g)
        return mean

    def values(self) -> dict[str, torch.Tensor]:
        parts = {**self.g.state_dict(prefix="g."), **self.d.state_dict(prefix="d.")}
        return copy.deepcopy(parts)


def test_a_batch_is_one_step_which_counts_when_the_next_is_asked_for() -> None:
    problem = Problem()
    run, seen = problem.begin(), []
    for _ in run.epochs():
        for (x,) in run.batches():
            seen.append(run.steps)
            problem.step_d(run, x)
            assert run.has_stepped and run.steps == seen[-1]
            problem.step_g(run, x)
    assert seen == list(range(8)) and run.steps == 8


def test_a_state_of_one_optimizer_is_not_that_of_several(tmp_path: Path) -> None:
    problem = Problem()
    checkpoints = CheckpointStore(tmp_path, 2, 1e9)
    checkpoints.save(train.elastic(problem.g, problem.opt_g, problem.loader, steps=1)._task.state)
    several = train.elastic(problem.g, {"g": problem.opt_g}, problem.loader, steps=1)
    with pytest.raises(
        RuntimeError, match=r"of one optimizer, and this script gave elastic.. the optimizers g"
    ):
        checkpoints.load_newest(several._task.state)


def test_a_step_must_name_one_of_the_optimizers() -> None:
    problem = Problem()
    run = problem.begin()
    batches = run.batches()
    (x,) = next(batches)
    run.backward(problem.g(x).sum())
    with pytest.raises(LoopError, match=r"got no optimizer; elastic.. has the optimizers g, d"):
        run.step()
    with pytest.raises(LoopError, match="got a SGD that it does not know"):
        run.step(torch.optim.SGD(problem.g.parameters(), lr=0.1))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"deterministic": True}, "several optimizers and deterministic=True"),
        ({"max_local_batch": 2}, "several optimizers and max_local_batch=2"),
        ({"rate_rule": "linear"}, "several optimizers and rate_rule='linear'"),
        ({"scheduler": {"e": StepLR(SGD([torch.zeros(1)]), 1)}}, "a scheduler for 'e'"),
    ],
)
def test_what_does_not_go_with_several_optimizers_is_told(options: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Problem().begin(**options)


def test_lbfgs_is_refused_by_name() -> None:
    problem = Problem()
    with pytest.raises(ValueError, match="LBFGS optimizer, which evaluates the loss several times"):
        train.elastic(problem.g, torch.optim.LBFGS(problem.g.parameters()), problem.loader, steps=1)


def test_an_optimizer_of_what_a_batch_makes_for_itself_is_left_alone() -> None:
    problem = Problem()
    run = train.elastic(problem.g, problem.opt_g, problem.loader, steps=8)
    for _ in run.epochs():
        for (x,) in run.batches():
            shift = nn.Parameter(torch.zeros_like(x))
            attack = torch.optim.SGD([shift], lr=0.1)
            for _ in range(2):
                problem.g(x + shift).sum().backward()
                attack.step()
            problem.opt_g.zero_grad()
            run.backward(problem.g(x + shift.detach()).square().mean())
            run.step()
    assert run.steps == 8


def train_with_another(problem: Problem, is_given: bool, is_in_place: bool) -> Run:
    """The script makes an optimizer for the model in its second epoch."""
    optimizer: torch.optim.Optimizer = problem.opt_g
    del problem.opt_g
    run = train.elastic(problem.g, optimizer, problem.loader, epochs=3)
    for epoch in run.epochs():
        if epoch == 1:
            other = torch.optim.SGD(problem.g.parameters(), lr=0.1)
            if is_in_place:
                optimizer = other
            if is_given:
                run.state["other"] = other
            del other
        for (x,) in run.batches():
            optimizer.zero_grad()
            run.backward(problem.g(x).square().mean())
            run.step()
    return run


def test_an_optimizer_in_place_of_the_one_that_elastic_got_is_refused() -> None:
    with pytest.raises(LoopError, match=r"another optimizer .SGD. in place of one that elastic.. got"):
        train_with_another(Problem(), is_given=False, is_in_place=True)


def test_an_optimizer_that_is_given_or_thrown_away_is_none_of_the_loops() -> None:
    given = train_with_another(Problem(), is_given=True, is_in_place=True)
    assert train_with_another(Problem(), is_given=False, is_in_place=False).steps == given.steps > 0
