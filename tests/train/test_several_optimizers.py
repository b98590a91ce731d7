"""Several optimizers in one run: what is refused, what counts, and what is undone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError
from swell.train.data.sample_schedule import Share
from swell.train.runtime.run import Run
from swell.train.state.checkpoint import Checkpoints


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
        loss.backward()
        return run.step(loss, optimizer=self.opt_d)

    def step_g(self, run: Run, x: torch.Tensor) -> torch.Tensor:
        self.opt_g.zero_grad()
        loss = -self.d(self.g(x)).mean()
        loss.backward()
        return run.step(loss, optimizer=self.opt_g)

    def values(self) -> dict[str, torch.Tensor]:
        parts = {**self.g.state_dict(prefix="g."), **self.d.state_dict(prefix="d.")}
        return copy.deepcopy(parts)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def train_all(problem: Problem, run: Run) -> None:
    for _ in run.epochs():
        for (x,) in run.batches():
            problem.step_d(run, x)
            problem.step_g(run, x)


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


def test_what_a_plain_loop_learns_is_learnt() -> None:
    plain, ours = Problem(), Problem()
    train_all(ours, ours.begin())
    for _ in range(2):
        for (x,) in plain.loader:
            plain.opt_d.zero_grad()
            (plain.d(plain.g(x).detach()).mean() - plain.d(x).mean()).backward()
            plain.opt_d.step()
            plain.opt_g.zero_grad()
            (-plain.d(plain.g(x)).mean()).backward()
            plain.opt_g.step()
    assert same(plain.values(), ours.values())


def lose_some(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have three sums fail, as where a peer is gone: of the second step of a batch, and of the first."""
    reduce, num_reduced = run._host.reduce, 0

    def lose(share: Share, loss: torch.Tensor, stop: bool) -> object:
        nonlocal num_reduced
        num_reduced += 1
        return None if num_reduced in (2, 5, 12) else reduce(share, loss, stop)

    monkeypatch.setattr(run._host, "reduce", lose)


def test_a_batch_that_is_lost_after_its_first_step_is_undone_and_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone, broken = Problem(), Problem()
    train_all(alone, alone.begin())
    run = broken.begin()
    lose_some(run, monkeypatch)
    for _ in run.epochs():
        for (x,) in run.batches():
            before = run.steps
            broken.step_d(run, x)
            broken.step_g(run, x)
            with torch.no_grad():
                if not run.has_stepped:
                    broken.g.weight.add_(1.0)  # what is done to a batch that is lost is lost
            assert run.steps == before
    assert same(alone.values(), broken.values())
    for one, other in ((alone.opt_d, broken.opt_d), (alone.opt_g, broken.opt_g)):
        kept = zip(one.state.values(), other.state.values(), strict=True)
        assert all(torch.equal(own["exp_avg"], theirs["exp_avg"]) for own, theirs in kept)


def train_scaled(
    problem: Problem, step: Callable[..., object], batches: Iterable[Any]
) -> torch.amp.GradScaler:
    """As the loop of a GAN with a GradScaler is written."""
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    for (x,) in batches:
        for optimizer, loss_of in (
            (problem.opt_d, lambda x: problem.d(problem.g(x).detach()).mean() - problem.d(x).mean()),
            (problem.opt_g, lambda x: -problem.d(problem.g(x)).mean()),
        ):
            optimizer.zero_grad()
            loss = loss_of(x)  # type: ignore[no-untyped-call]
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.1)
            step(scaler, loss, optimizer)
        scaler.update()
    return scaler


def test_a_scaler_of_several_optimizers_is_updated_once_a_batch_also_where_one_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, ours = Problem(), Problem()
    own = train_scaled(
        plain, lambda scaler, _, optimizer: scaler.step(optimizer), [*plain.loader, *plain.loader]
    )
    run = ours.begin()
    lose_some(run, monkeypatch)
    batches = (batch for _ in run.epochs() for batch in run.batches())
    scaler = train_scaled(ours, lambda _, loss, optimizer: run.step(loss, optimizer=optimizer), batches)
    assert run.steps == 8 and scaler.state_dict() == own.state_dict()
    assert same(plain.values(), ours.values())


def test_all_optimizers_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    whole, halved = Problem(), Problem()
    train_all(whole, whole.begin())
    run = halved.begin()
    for _ in run.epochs():
        for number, (x,) in enumerate(run.batches()):
            halved.step_d(run, x)
            halved.step_g(run, x)
            if number == 2:
                break
        break
    run.finish()
    checkpoints = Checkpoints(tmp_path, 2, 1e9)
    checkpoints.save(run._task.state)
    again = Problem()
    run = again.begin()
    checkpoints.load_newest(run._task.state)
    assert run.steps == 3
    train_all(again, run)
    assert same(whole.values(), again.values())
    saved = train.load_checkpoint(tmp_path)
    assert saved["optimizer"].keys() == {"g", "d"} and "g.weight" in saved["model"]


def test_a_state_of_one_optimizer_is_not_that_of_several(tmp_path: Path) -> None:
    problem = Problem()
    checkpoints = Checkpoints(tmp_path, 2, 1e9)
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
    with pytest.raises(LoopError, match=r"got no optimizer; elastic.. has the optimizers g, d"):
        run.step(problem.g(x).sum())
    with pytest.raises(LoopError, match="got a SGD that it does not know"):
        run.step(problem.g(x).sum(), optimizer=torch.optim.SGD(problem.g.parameters(), lr=0.1))


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


@pytest.mark.parametrize("is_models_own", [True, False])
def test_an_optimizer_that_elastic_does_not_know_is_refused_by_name(is_models_own: bool) -> None:
    problem = Problem()
    model = nn.ModuleDict({"g": problem.g, "d": problem.d}) if is_models_own else problem.g
    run = train.elastic(model, problem.opt_g, problem.loader, steps=8)
    critics = problem.opt_d
    with pytest.raises(LoopError, match=r"an optimizer .Adam. steps in the loop"):
        for (x,) in run.batches():
            problem.d(x).sum().backward()
            critics.step()
            problem.opt_g.zero_grad()
            loss = problem.g(x).sum()
            loss.backward()
            run.step(loss)


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
            loss = problem.g(x + shift.detach()).square().mean()
            loss.backward()
            run.step(loss)
    assert run.steps == 8


def train_with_another(problem: Problem, is_given: bool, is_kept: bool) -> Run:
    """The script makes an optimizer for the model in its third batch."""
    run = train.elastic(problem.g, problem.opt_g, problem.loader, steps=8)
    kept = []
    for _ in run.epochs():
        for (x,) in run.batches():
            if run.steps == 2:
                other = torch.optim.SGD(problem.g.parameters(), lr=0.1)
                kept += [other] if is_kept else []
                if is_given:
                    run.state["other"] = other
                del other
            problem.g.zero_grad()
            loss = problem.g(x).square().mean()
            loss.backward()
            run.step(loss)
    return run


def test_an_optimizer_that_is_made_in_mid_run_is_refused_with_its_line() -> None:
    with pytest.raises(
        LoopError, match=r"SGD. was made after elastic\(\), at .*\.py:\d+, and run.step"
    ) as caught:
        train_with_another(Problem(), is_given=False, is_kept=True)
    place = str(caught.value).split(" at ")[1].split(",")[0]
    file, line = place.rsplit(":", 1)
    assert "other = torch.optim.SGD" in Path(file).read_text().splitlines()[int(line) - 1]


def test_an_optimizer_that_is_given_or_thrown_away_is_none_of_the_loops() -> None:
    assert train_with_another(Problem(), is_given=True, is_kept=True).steps == 8
    assert train_with_another(Problem(), is_given=False, is_kept=False).steps == 8
