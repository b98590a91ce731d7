"""A worker proves itself by a step that its gang has made, and the gang goes on as without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.eventually import PATIENCE_S
from tests.train.conftest import SCRIPTS
from tests.train.fake_agent import FakeAgent

from swell.train.runtime.witness import NUM_SUMS, PassNote, digest_of, rates_of, signed_sums
from swell.wire import messages
from swell.wire.checkpoint_files import checkpoints_in, steps_in, witnesses_in

sizes = st.lists(st.integers(0, 20_000), min_size=1, max_size=4)


def note(gradients: list[torch.Tensor], loss: float = 1.0) -> PassNote:
    norm, *sums = signed_sums(gradients)
    return PassNote(0, loss, norm, tuple(sums), (0.1,))


@given(sizes, st.integers(0, 2**31), st.data())
def test_a_number_that_differs_by_a_thousandth_of_the_norm_is_seen(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradients = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
    assert not note(gradients).difference(note([each.clone() for each in gradients]), 1e-12)
    flat = torch.cat(gradients)
    if len(flat) == 0:
        return
    place = data.draw(st.integers(0, len(flat) - 1))
    flat[place] += 1e-3 * max(1.0, float(flat.norm()))
    others = list(flat.split(sizes))
    assert note(gradients).difference(note(others), 1e-8) == "another gradient"


def test_what_is_no_number_is_compared_too() -> None:
    sound, strange = note([torch.ones(3)]), note([torch.tensor([1.0, float("nan"), 1.0])], float("inf"))
    assert not strange.difference(strange, 1e-8)
    assert sound.difference(strange, 1e-8) and strange.difference(sound, 1e-8)


@given(sizes, st.integers(0, 2**31))
def test_the_sums_of_a_sum_are_the_sums_together(sizes: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    one, other = (
        [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes] for _ in range(2)
    )
    both = signed_sums([first + second for first, second in zip(one, other, strict=True)])[1:]
    apart = zip(signed_sums(one)[1:], signed_sums(other)[1:], strict=True)
    assert len(both) == NUM_SUMS
    assert both == pytest.approx([first + second for first, second in apart], rel=1e-9, abs=1e-9)


def test_a_batch_is_known_by_all_that_it_holds() -> None:
    batch = {"x": torch.arange(6.0).view(2, 3), "names": ["a", "b"], "more": (1, torch.tensor([True]))}
    others = [
        {**batch, "x": torch.arange(6.0).view(2, 3) + torch.tensor([0.0, 0, 1e-6])},
        {**batch, "names": ["a", "c"]},
        {**batch, "more": (1, torch.tensor([False]))},
    ]
    assert digest_of(batch) == digest_of({**batch, "x": torch.arange(6.0).view(2, 3)})
    assert len({digest_of(each) for each in (batch, *others)}) == 4


def test_the_numbers_of_all_hyperparameters_are_compared() -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=0.1, betas=(0.5, 0.25))
    before = list(rates_of(optimizer.param_groups))
    optimizer.param_groups[0]["betas"] = (0.5, 0.75)
    assert 0.1 in before and list(rates_of(optimizer.param_groups)) != before


SCRIPT = """
from functools import lru_cache

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from swell import train

torch.manual_seed(0)
counts = iter(range(1, 1000))


@lru_cache
def drawn(i):
    return torch.rand(3)


class Samples(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        {sample}


model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
run = train.elastic(model, optimizer, DataLoader(Samples(), batch_size=6, shuffle=True))
for number, epoch in enumerate(run.epochs()):
    for x in run.batches():
        optimizer.zero_grad()
        {loss}
        run.backward(loss)
        run.step()
    print("epoch", epoch)
"""
PLAIN = "return torch.full((3,), float(i))", "loss = model(x).square().mean()"
#: By name, what a dataset gives and what a loop computes, and what is said of it.
STRANGE = {
    "drawn once": (
        "return drawn(i)",
        PLAIN[1],
        "the loss of other samples",
    ),
    "a closure's count": (
        PLAIN[0],
        "loss = model(x).square().mean() * (1.0 + 0.01 * next(counts))",
        "another loss",
    ),
    "an enumerate of epochs": (
        PLAIN[0],
        "loss = model(x).square().mean() * (1.0 + 0.01 * number)",
        "another loss",
    ),
    "a sum from the second epoch on": (
        PLAIN[0],
        "loss = model(x).square().mean() if epoch < 1 else model(x).square().sum() / 6",
        "the loss is a sum",
    ),
    "a function put into the model": (
        PLAIN[0],
        "model.forward = (lambda x: x @ model.weight.T) if epoch == 1 else model.forward\n"
        "        loss = model(x).square().mean()",
        "computes another",
    ),
}


def witness(agent: FakeAgent, leader: int = 0) -> messages.Witnessed:
    before = len(agent.all_said(messages.Witnessed))
    agent.tell(leader, messages.Witness())
    return agent.wait(
        leader,
        messages.Witnessed,
        lambda said: said in [told for _, told in agent.all_said(messages.Witnessed)[before:]],
    )


def prove(agent: FakeAgent, worker: int, order: messages.Prove | None = None) -> messages.Proved:
    agent.tell(worker, order or messages.Prove())
    return agent.wait(worker, messages.Proved)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_sound_script_is_the_same_in_a_new_worker(
    num_workers: int, start_agent: Callable[..., FakeAgent]
) -> None:
    agent = start_agent(total_steps=60, ends_when_told=True, checkpoint_interval_s=3600.0)
    members = list(range(num_workers))
    agent.start_ready([*members, 7], SCRIPTS / "counts.py")
    agent.join(members, source=None)
    assert prove(agent, 7).why_not == "there is no checkpoint with a note of the step after it"
    told = witness(agent)
    agent.start_ready([8], SCRIPTS / "counts.py")
    assert prove(agent, 8) == messages.Proved(steps=told.steps, is_last=True)
    agent.processes[8].join(PATIENCE_S)
    assert agent.processes[8].exitcode == 143
    agent.start_ready([9], SCRIPTS / "counts.py")
    agent.join([*members, 9], source=0)
    agent.suspend()
    for worker in (*members, 9):
        agent.wait(worker, messages.Left)
    agent.start_ready([10, 11, 12], SCRIPTS / "counts.py")
    last = steps_in(checkpoints_in(agent.checkpoint_dir)[0][1])
    assert prove(agent, 10) == messages.Proved(steps=last, is_last=True), "a graceful end notes a step more"
    assert agent.join([11, 12], source=None) == last


@pytest.mark.parametrize("name", STRANGE)
def test_what_begins_late_is_told(name: str, start_agent: Callable[..., FakeAgent], tmp_path: Path) -> None:
    sample, loss, told = STRANGE[name]
    script = tmp_path / "strange.py"
    script.write_text(SCRIPT.format(sample=sample, loss=loss))
    agent = start_agent(total_steps=60, ends_when_told=True, checkpoint_interval_s=3600.0)
    agent.start_ready([0, 1], script)
    agent.join([0], source=None)
    agent.wait_steps(0, 9)
    witness(agent)
    [found] = prove(agent, 1).findings
    assert found.holds and told in found.text


def test_samples_that_a_collate_fn_leaves_out_count_for_nothing_in_a_proof(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    sample, loss = PLAIN
    text = SCRIPT.format(sample=sample, loss=loss).replace(
        "shuffle=True", "collate_fn=lambda read: torch.stack([x for x in read if x[0] % 3])"
    )
    script = tmp_path / "drops.py"
    script.write_text(text)
    agent = start_agent(total_steps=60, ends_when_told=True, checkpoint_interval_s=3600.0)
    agent.start_ready([0, 1], script)
    agent.join([0], source=None)
    steps = witness(agent).steps
    assert prove(agent, 1) == messages.Proved(steps=steps, is_last=True)


def test_notes_go_with_their_checkpoints(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent(total_steps=60, ends_when_told=True, checkpoint_interval_s=3600.0)
    agent.start_ready([0], SCRIPTS / "counts.py")
    agent.join([0], source=None)
    steps = [witness(agent).steps for _ in range(4)]
    assert len(set(steps)) == 4
    assert len(witnesses_in(agent.checkpoint_dir)) <= agent.welcome.keep_checkpoints


def test_the_next_gang_begins_where_the_last_one_was_verified(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    script = tmp_path / "late.py"
    late = "loss = model(x).square().mean() if epoch < 300 else model(x).square().sum() / 6"
    script.write_text(SCRIPT.format(sample=PLAIN[0], loss=late))
    agent = start_agent(total_steps=10**6, ends_when_told=True, checkpoint_interval_s=3600.0)
    agent.start_ready([0, 1, 2], script)
    agent.join([0], source=None)
    first = witness(agent).steps or 0
    assert prove(agent, 1) == messages.Proved(steps=first, is_last=True)
    agent.tell(0, messages.Verified(steps=first))
    steps = [first]
    for _ in range(3):  # more than are kept
        agent.wait_steps(0, max(1201, steps[-1] + 1))
        steps.append(witness(agent).steps or 0)
    [found] = prove(agent, 2).findings
    assert "the loss is a sum" in found.text
    agent.kill(0)
    assert {steps_in(path) for _, path in checkpoints_in(agent.checkpoint_dir)} == {first, *steps[-2:]}
    agent.welcome = msgspec.structs.replace(agent.welcome, verified_steps=first, rolls_back=True)
    agent.start_ready([3], script)
    assert agent.join([3], source=None) == first


def test_a_state_that_is_no_number_is_not_noted(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    script = tmp_path / "diverging.py"
    late = "loss = model(x).square().mean() * (1.0 if epoch < 2 else float('nan'))"
    script.write_text(SCRIPT.format(sample=PLAIN[0], loss=late))
    agent = start_agent(total_steps=10**6, ends_when_told=True, checkpoint_interval_s=0.0)
    agent.start_ready([0], script)
    agent.join([0], source=None)
    agent.wait(0, messages.CheckpointSaved)
    agent.wait_steps(0, 20)
    assert witness(agent).steps is None
