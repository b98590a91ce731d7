"""What a script changes of its model, apart from its numbers, is handed on or told with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.state.train_state import TrainState

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(3))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.act = nn.BatchNorm1d(4), nn.ReLU()
        self.parts = nn.Sequential(nn.Dropout(0.1), nn.Identity())
        self.extra: nn.Module | None = None
        self.late: torch.Tensor | None
        self.register_buffer("late", None)
        self.queue: torch.Tensor
        self.register_buffer("queue", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.late is None:
            self.late = x.new_ones(4)
        return torch.sigmoid(self.act(self.norm(self.second(self.parts(self.first(x)))))) * self.late


class Script:
    """A loop of epochs, which are of one step."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.run = train.elastic(self.net, self.optimizer, DataLoader(TensorDataset(X), 8), epochs=5)

    def train(self, epoch: int = 2) -> Iterator[Script]:
        """Yields at the head of an epoch."""
        for number in self.run.epochs():
            if number == epoch:
                yield self
            for (x,) in self.run.batches():
                loss = self.net(x).square().mean()
                self.optimizer.zero_grad()
                self.run.backward(loss)
                self.run.step()


def made() -> TrainState:
    net = Net()
    return TrainState(net, torch.optim.SGD(net.parameters(), lr=0.1), None, {})


def handed_on(giver: TrainState) -> Net:
    taker = made()
    taker.load(*giver.encode())
    assert isinstance(taker.model, Net)
    return taker.model


def test_modes_and_late_buffers_are_handed_on() -> None:
    state = made()
    net = state.model
    assert isinstance(net, Net)
    net(X)
    net.norm.eval()
    net.parts[0].eval()
    net.queue = torch.arange(12.0).reshape(3, 4)
    taken = handed_on(state)
    assert [module.training for module in taken.modules()] == [module.training for module in net.modules()]
    assert isinstance(net.late, torch.Tensor) and isinstance(taken.late, torch.Tensor)
    assert torch.equal(taken.late, net.late) and torch.equal(taken.queue, net.queue)


@pytest.mark.parametrize("waits", [True, False])
def test_what_the_head_of_an_epoch_sets_holds_unless_the_giver_had_been_through_it(waits: bool) -> None:
    state, taker = made(), made()
    for each in (state, taker):
        each.variables.is_wanted = True
    state.course = SampleSchedule(12, 4, False, False)
    if waits:  # for a batch of that epoch
        state.entered_epoch = 0
    state.model.eval()
    state.optimizers[0].param_groups[0]["lr"] = 0.2
    taker.load(*state.encode())
    taker.model.train()
    taker.optimizers[0].param_groups[0]["lr"] = 0.3
    taker.leave_boundary()
    assert all(module.training != waits for module in taker.model.modules())
    assert taker.optimizers[0].param_groups[0]["lr"] == (0.2 if waits else 0.3)
    taker.model.train()
    taker.leave_boundary()
    assert all(module.training for module in taker.model.modules())


def add_layer(train: Iterator[Script]) -> None:
    for script in train:
        script.net.extra = nn.Linear(4, 4)  # here: parameter 'extra.weight' is new


def replace_layer(train: Iterator[Script]) -> None:
    for script in train:
        script.net.second = nn.Linear(4, 4)  # here: 'second.weight' is another one


def tie(train: Iterator[Script]) -> None:
    for script in train:
        script.net.second.weight = script.net.first.weight  # here: 'second.weight' is another one


def widen(train: Iterator[Script]) -> None:
    for script in train:
        script.net.first.weight.data = torch.ones(4, 4, dtype=torch.float64)
        script.net.first.bias.data = torch.ones(4, dtype=torch.float64)
        script.net.double()
        script.net.queue = script.net.queue.float()  # 'first.weight' is another one


def remove_bias(train: Iterator[Script]) -> None:
    for script in train:
        script.net.second.bias = None  # type: ignore[assignment] # here: 'second.bias', which elastic() got, is gone


def normalise(train: Iterator[Script]) -> None:
    for script in train:
        parametrizations.weight_norm(script.net.second)  # 'second.parametrizations.weight.original0' is new


def prune_late(train: Iterator[Script]) -> None:
    for script in train:
        prune.l1_unstructured(script.net.second, "weight", 0.5)  # 'second.weight_orig' is new


def take_from_a_group(train: Iterator[Script]) -> None:
    for script in train:
        group = script.optimizer.param_groups[0]
        group["params"].pop()  # a parameter group of an optimizer has other parameters


CHANGES = [add_layer, replace_layer, tie, widen, remove_bias, normalise, prune_late, take_from_a_group]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_cannot_be_handed_on_is_told_with_the_step_after_it(
    change: Callable[[Iterator[Script]], None],
) -> None:
    code = change.__code__
    lines = Path(__file__).read_text().splitlines()[code.co_firstlineno :]
    number, line = next((number, line) for number, line in enumerate(lines, 1) if " # " in line)
    script = Script()
    with pytest.raises(LoopError) as caught:
        change(script.train())
    assert script.run.steps == 2
    assert line.split("# ")[-1].removeprefix("here: ") in str(caught.value)
    assert "before elastic()" in str(caught.value)
    if "# here: " in line:
        assert f"({__file__}:{code.co_firstlineno + number})" in str(caught.value)


def test_a_layer_with_a_group_of_its_own_is_told_at_once() -> None:
    def grow(train: Iterator[Script]) -> None:
        for script in train:
            script.net.extra = nn.Linear(4, 4)
            script.optimizer.add_param_group({"params": script.net.extra.parameters()})

    with pytest.raises(ValueError, match=r"elastic\(\) did not get with the model.*before elastic\(\)"):
        grow(Script().train())


def switch(train: Iterator[Script]) -> None:
    for script in train:
        script.net.norm.eval()
        setattr(script.net.parts[0], "p", 0.0)  # noqa: B010 - its type is not known
        script.net.first.requires_grad_(False)
        script.optimizer.param_groups[0]["lr"] = 0.01


def borrow(train: Iterator[Script]) -> None:
    """An evaluation with another head, which is put back."""
    for script in train:
        head, script.net.second = script.net.second, nn.Identity()  # type: ignore[assignment]
        script.net(X)
        script.net.second = head


@pytest.mark.parametrize("change", [switch, borrow])
def test_what_is_handed_on_or_put_back_is_no_error(change: Callable[[Iterator[Script]], None]) -> None:
    script = Script()
    change(script.train())
    assert script.run.steps == 5
    prune.l1_unstructured(script.net.second, "weight", 0.5)
    script.run.finish()  # training is over
