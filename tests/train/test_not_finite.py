"""A loss that is no number is told as it is, spoils no checkpoint, and ends the run where asked to."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.train.fake_agent import FakeAgent
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.state.checkpoint import CheckpointStore, content_of
from swell.train.state.loss import LossLog
from swell.train.state.train_state import TrainState
from swell.wire import messages
from swell.wire.checkpoint_files import steps_in
from swell.wire.reports import spelled, value_of

DIVERGES = Path(__file__).parent / "scripts" / "diverges.py"


# ---------------------------------------------------------------- what is known of the loss
@given(st.floats())
def test_every_float_comes_back_from_its_spelling(value: float) -> None:
    back = value_of(spelled(value))
    assert back == value or (math.isnan(back) and math.isnan(value))


@pytest.mark.parametrize("is_lazy", [False, True])
def test_the_loss_of_each_step_is_told_once_whoever_leads(is_lazy: bool) -> None:
    """Of three workers that make the same steps, the first two die one after the other, as leaders."""
    logs = [LossLog(is_lazy), LossLog(is_lazy), LossLog(is_lazy)]
    told: list[tuple[int, float]] = []
    for leader, steps in enumerate([range(1, 8), range(8, 12), range(12, 20)]):
        for step in steps:
            for log in logs[leader:]:
                log.add(step, torch.tensor(float(step)))
            if step in (3, 9):
                told += logs[leader].take_untold()
        if leader < 2:  # it dies; the agent has heard of this
            logs[leader + 1].forget_told(told[-1][0])
    told += logs[2].take_untold()
    assert told == [(step, float(step)) for step in range(1, 20)]


# ---------------------------------------------------------------- checkpoints
def make_state(value: float, steps: int) -> TrainState:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    nn.init.constant_(model[0].weight, value)  # type: ignore[arg-type]
    state = TrainState(model, optim.SGD(model.parameters(), 0.1), None, {})
    state.steps = steps
    return state


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_state_without_numbers_never_pushes_the_last_good_one_out(tmp_path: Path, value: float) -> None:
    checkpoints = CheckpointStore(tmp_path, 2, 30.0)
    good = [checkpoints.save(make_state(1.0, steps)) for steps in (10, 20)]
    for steps in (30, 40, 50):
        assert checkpoints.save(make_state(value, steps)) == good[-1]
    assert set(tmp_path.iterdir()) == set(good)
    state = make_state(0.0, steps=0)
    assert checkpoints.load_newest(state) and state.steps == steps_in(good[-1]) == 20


def test_what_is_not_trained_may_hold_infinities(tmp_path: Path) -> None:
    state = make_state(1.0, steps=5)
    state.model.register_buffer("mask", torch.full((2, 2), -math.inf))
    state.model.register_parameter("fixed", nn.Parameter(torch.tensor([math.inf]), requires_grad=False))
    state.model.register_parameter("empty", nn.Parameter(torch.zeros(0)))
    assert content_of(state).is_finite


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_single_value_that_is_no_number_is_found_and_large_ones_are_numbers(
    dtype: torch.dtype, odd: float
) -> None:
    state = make_state(1.0, steps=5)
    limits = torch.finfo(dtype)
    large = torch.full((1000,), limits.max, dtype=dtype)
    state.model.register_parameter("large", nn.Parameter(large))
    assert content_of(state).is_finite
    with torch.no_grad():
        large[567] = odd
    assert not content_of(state).is_finite


# ---------------------------------------------------------------- a script by itself
def train_alone(odd_from: int) -> train.Run:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), 0.01)
    loader = DataLoader(TensorDataset(torch.ones(60, 1)), batch_size=6)
    run = train.elastic(model, optimizer, loader, epochs=2)
    for _ in run.epochs():
        for (x,) in run.batches():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            if run.steps + 1 >= odd_from:
                loss = loss * math.nan
            run.backward(loss)
            run.step()
    return run


def test_a_run_that_was_not_told_to_stop_goes_on_and_says_so_once(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # of each run of a process
        run = train_alone(odd_from=6)
        assert run.steps == 20
        assert run._task.state.losses.odd_since == 6
        out, err = capfd.readouterr()
        assert err.startswith("swell: the loss is nan since step 6, and training goes on: lower the learning")
        assert len(err.splitlines()) == 1 and not out


def test_statistics_of_norms_are_those_before_the_step_that_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are saved with it, and the pass whose loss is no number has moved them."""
    model, kept = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1)), []

    def give_up(loss: torch.Tensor) -> train.LossNotFinite:
        kept.append(model.get_buffer("0.running_mean").item())
        return train.LossNotFinite()

    loader = DataLoader(TensorDataset(torch.tensor([[0.0]] * 6 + [[math.nan]] * 6)), batch_size=6)
    run = train.elastic(model, optim.SGD(model.parameters(), 0.01), loader, epochs=1)
    run._host.stops_on_nan = True
    monkeypatch.setattr(run._host, "give_up", give_up)
    with pytest.raises(train.LossNotFinite):
        for (x,) in run.batches():
            loss = model(x).square().mean()
            run.backward(loss)
            run.step()
    assert kept == [0.0]


@given(st.lists(st.sampled_from([1.0, math.nan, math.inf]), max_size=30))
def test_the_first_odd_loss_is_told_once_also_where_losses_are_read_late(losses: list[float]) -> None:
    for is_lazy in (False, True):
        log, told = LossLog(is_lazy), list[tuple[str, int]]()
        log.tell_odd = lambda loss, since, told=told: told.append((str(loss), since))
        for step, loss in enumerate(losses, start=1):
            log.add(step, torch.tensor(loss))
        log.read()
        assert told == [(str(loss), i) for i, loss in enumerate(losses, 1) if not math.isfinite(loss)][:1]


# ---------------------------------------------------------------- workers of an agent
def test_workers_tell_since_when_and_train_on(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent(total_steps=40, global_batch=6)
    agent.start_ready([0, 1], DIVERGES, "6", "nan", "spoil")
    agent.join([0, 1], source=None)
    agent.wait(0, messages.Finished)
    _, last = agent.all_said(messages.Progress)[-1]
    assert (last.loss, last.odd_since, last.steps) == ("nan", 6, 40)
    assert agent.metrics_told() == {"accuracy": "nan"}
    assert [agent.exit_status(worker) for worker in (0, 1)] == [0, 0]


def test_a_loss_that_is_a_number_again_is_told_as_one(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent(
        total_steps=40, global_batch=6, target=messages.EarlyStop(name="accuracy", value=0.5, at_least=True)
    )
    agent.start_ready([0], DIVERGES, "6:9", "inf")
    agent.join([0], source=None)
    assert agent.wait(0, messages.Finished).steps == 40, "an accuracy of infinity meets no target"
    _, last = agent.all_said(messages.Progress)[-1]
    assert isinstance(last.loss, float) and last.odd_since is None
    assert agent.metrics_told() == {"accuracy": "inf"}


@pytest.mark.parametrize(("workers", "way"), [([0], ""), ([0, 1, 2], ""), ([0, 1], "deterministic")])
def test_all_workers_stop_in_the_same_step_once_the_state_is_safe(
    start_agent: Callable[..., FakeAgent], workers: list[int], way: str
) -> None:
    agent = start_agent(total_steps=40, global_batch=6, stop_on_nan=True)
    agent.start_ready(workers, DIVERGES, "6", "0.5", "spoil", way)
    agent.join(workers, source=None)
    for worker in reversed(workers):
        told = agent.wait(worker, messages.Failed).message.splitlines()[-1]
        assert [steps_in(path) for path in agent.checkpoint_dir.iterdir()] == [5], "safe before anybody fails"
        assert told.startswith(
            "swell.train.state.loss.LossNotFinite: the loss is nan in step 6, whose update was"
        )
        assert f"the state after step 5 is saved in {agent.checkpoint_dir}. Lower the learning rate" in told
        assert agent.exit_status(worker) == 1
    of_leader = [said for worker, said in agent.said if worker == 0 and not isinstance(said, messages.Alive)]
    saved, last, _ = of_leader[-3:]
    assert isinstance(saved, messages.CheckpointSaved) and saved.steps == 5
    assert isinstance(last, messages.Progress) and (last.steps, last.loss, last.odd_since) == (5, "nan", 6)


@pytest.mark.slow
def test_a_gang_without_numbers_is_suspended_with_its_last_good_state(
    start_agent: Callable[..., FakeAgent],
) -> None:
    agent = start_agent(total_steps=10**6, global_batch=6, checkpoint_interval_s=0.0)
    agent.start_ready([0, 1], DIVERGES, "2000", "0.5", "spoil")
    agent.join([0, 1], source=None)
    agent.wait(0, messages.Progress, lambda said: said.loss == "nan")
    good = max(steps_in(path) for path in agent.checkpoint_dir.glob("step-*"))
    assert 0 < good < 2000
    agent.suspend()
    for worker in (0, 1):
        agent.wait(worker, messages.Left)
    saved = [said for _, said in agent.all_said(messages.CheckpointSaved)]
    assert saved[-1].steps == good == max(said.steps for said in saved)
    assert max(steps_in(path) for path in agent.checkpoint_dir.glob("step-*")) == good
