"""A script that loads a state after `elastic` does not take a job back to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.state.checkpoint import CheckpointStore

X = torch.randn(24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
EPOCHS, STEPS_FIRST = 4, 5


class Script:
    """A process of a script that saves its state where it is stopped."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(2)
        self.folder = folder
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, gamma=0.5)
        self.run = train.elastic(
            self.model,
            self.optimizer,
            DataLoader(TensorDataset(X), 8, shuffle=True),
            epochs=EPOCHS,
            scheduler=self.scheduler,
        )
        CheckpointStore(folder / "checkpoints", 2, 1e9).load_newest(self.run._task.state)

    def train(self, last: int = 99, at_head: Callable[[Script], object] = lambda script: None) -> None:
        """Make steps up to this one. `at_head`: of the epoch that it begins with."""
        for number, _ in enumerate(self.run.epochs()):
            if number == 0:
                at_head(self)
            for (x,) in self.run.batches():
                if self.run.steps >= last:
                    CheckpointStore(self.folder / "checkpoints", 2, 1e9).save(self.run._task.state)
                    return
                self.optimizer.zero_grad()
                loss = self.model(x).square().mean()
                self.run.backward(loss)
                self.run.step()
            if self.run.steps == last:
                CheckpointStore(self.folder / "checkpoints", 2, 1e9).save(self.run._task.state)
                return

    def weights(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.model.parameters()]


def pretrained() -> dict[str, torch.Tensor]:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double().state_dict()


def load_all(script: Script) -> None:
    script.model.load_state_dict(pretrained())


def load_part(script: Script) -> None:
    script.model[0].load_state_dict(
        {name[2:]: value for name, value in pretrained().items() if name[0] == "0"}
    )


def load_own_checkpoint(script: Script) -> None:
    """As of the job's first step, and of no step in the first process."""
    path, own = script.folder.parent / "own.pt", script
    if not path.exists():
        torch.save([part.state_dict() for part in (own.model, own.optimizer, own.scheduler)], path)
    of_model, of_optimizer, of_scheduler = torch.load(path)
    own.model.load_state_dict(of_model)
    own.optimizer.load_state_dict(of_optimizer)
    own.scheduler.load_state_dict(of_scheduler)


def load_moments(script: Script) -> None:
    script.optimizer.load_state_dict(torch.optim.Adam(script.model.parameters(), lr=0.01).state_dict())


def try_and_put_back(script: Script) -> None:
    """As one that looks for a rate does."""
    before = {name: value.clone() for name, value in script.model.state_dict().items()}
    with torch.no_grad():
        script.model[0].weight.mul_(3.0)  # type: ignore[operator]
    script.model.load_state_dict(before)


@pytest.mark.parametrize("load", [load_all, load_part, load_own_checkpoint, load_moments, try_and_put_back])
def test_a_script_that_goes_on_trains_as_one_that_never_stopped(
    load: Callable[[Script], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = Script(tmp_path / "whole")
    load(whole)
    whole.train()
    first = Script(tmp_path / "parts")
    load(first)
    first.train(STEPS_FIRST)
    assert "holds" not in capfd.readouterr().err
    rest = Script(tmp_path / "parts")
    assert rest.run.steps == STEPS_FIRST
    load(rest)
    rest.train()
    for ours, theirs in zip(rest.weights(), whole.weights(), strict=True):
        assert torch.equal(ours, theirs)
    is_told = f"swell: {__file__}:" in capfd.readouterr().err
    assert is_told == (load is not try_and_put_back)


@pytest.mark.parametrize("steps", [STEPS_FIRST, 6])
def test_what_the_head_of_an_epoch_loads_counts_unless_that_was_done_before(
    steps: int, tmp_path: Path
) -> None:
    """After six steps an epoch is over, and the next one's first lines have not run."""
    Script(tmp_path).train(steps)
    rest = Script(tmp_path)
    loaded: list[list[torch.Tensor]] = []

    def load(script: Script) -> None:
        load_all(script)
        loaded.append(script.weights())

    before = rest.weights()
    rest.train(0, load)  # no step
    assert all(torch.equal(*pair) for pair in zip(rest.weights(), loaded[0], strict=True))
    assert torch.equal(before[0], loaded[0][0]) == (steps != 6)


def test_a_job_that_was_over_keeps_what_it_learnt(tmp_path: Path) -> None:
    whole = Script(tmp_path)
    whole.train()
    CheckpointStore(tmp_path / "checkpoints", 2, 1e9).save(whole.run._task.state)
    again = Script(tmp_path)
    load_all(again)
    again.train()
    assert again.run.steps == whole.run.steps
    assert all(torch.equal(*pair) for pair in zip(again.weights(), whole.weights(), strict=True))
