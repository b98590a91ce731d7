"""A trial run takes the samples that the script's own sampler gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

SCRIPT = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, SubsetRandomSampler
from swell import train

x = torch.randn(100, 6)
FIRST = {"subset": 50, "batches of one length": 0}.get(sys.argv[1], 0)

class Rows(Dataset):
    def __init__(self, num):
        self.num = num
    def __len__(self):
        return self.num
    def __getitem__(self, key):
        number = int(key[1:]) if isinstance(key, str) else key
        assert FIRST <= number < self.num, number
        if sys.argv[1] == "keys":
            assert isinstance(key, str)
        return x[number, :3 + number % 3] if sys.argv[1] == "batches of one length" else x[number]

class Keys(Sampler):
    def __iter__(self):
        return iter([f"k{number}" for number in torch.randperm(60).tolist()])

class OfOneLength(Sampler):
    def __iter__(self):
        for length in range(3):
            for first in range(0, 30, 10):
                yield [3 * (first + place) + length for place in range(10)]

data = Rows(10 if sys.argv[1] == "replacement" else 100)
options = {
    "subset": lambda: {"sampler": SubsetRandomSampler(range(50, 100))},
    "replacement": lambda: {"sampler": RandomSampler(data, replacement=True, num_samples=600)},
    "keys": lambda: {"sampler": Keys()},
    "batches of one length": lambda: {"batch_sampler": OfOneLength()},
}[sys.argv[1]]()
loader = DataLoader(data, **({} if "batch_sampler" in options else {"batch_size": 10}), **options)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    for a in run.batches():
        optimizer.zero_grad()
        loss = (model(a.mean(1, keepdim=True)) - 1).square().mean()
        run.backward(loss)
        run.step()
"""


@pytest.mark.parametrize("kind", ["subset", "replacement", "keys", "batches of one length"])
def test_it_compares_and_measures_what_the_sampler_of_the_script_gives(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, kind: str
) -> None:
    script = tmp_path / "samples.py"
    script.write_text(SCRIPT)
    agent = start_agent(
        mode="profile", global_batch=10, total_steps=None, local_batches=(10, 5), compares=True
    )
    agent.start(0, script, kind)
    assert agent.exit_status(0) == 0, agent.logs()
    assert not agent.all_said(messages.NotCompared)
    assert not any(found.holds for found in agent.all_said(messages.Profiled)[0][1].findings)


@pytest.mark.slow
def test_a_batch_that_is_too_small_for_a_batch_norm_on_each_worker_goes_to_fewer(
    start_agent: Callable[..., FakeAgent],
) -> None:
    agent = start_agent(global_batch=12, total_steps=6)
    workers = [0, 1, 2, 3]
    agent.start_ready(workers, Path(__file__).parent / "scripts" / "normed.py")
    agent.join(workers, source=None)
    for worker in workers:
        assert agent.wait(worker, messages.Finished).steps == 6


def test_a_trial_run_gives_a_batch_norm_the_samples_that_it_needs(
    start_agent: Callable[..., FakeAgent],
) -> None:
    agent = start_agent(mode="profile", global_batch=4, total_steps=None, local_batches=(4, 1), compares=True)
    agent.start(0, Path(__file__).parent / "scripts" / "normed.py")
    assert agent.exit_status(0) == 0, agent.logs()
    assert agent.all_said(messages.Profiled)[0][1].compute_s.keys() == {4, 1}


def test_a_sampler_that_gives_more_in_the_second_epoch_is_refused(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    script = tmp_path / "samples.py"
    growing = SCRIPT.replace(
        "options = {",
        """
class Growing(Sampler):
    epoch = 0
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __iter__(self):
        return iter(range(40 + 20 * self.epoch))

options = {"growing": lambda: {"sampler": Growing()},""",
    )
    script.write_text(growing)
    agent = start_agent(mode="profile", global_batch=10, total_steps=None, local_batches=(10,))
    agent.start(0, script, "growing")
    assert agent.exit_status(0) == 1
    assert "gives 60 samples in epoch 1 and 40 in others" in agent.all_said(messages.Failed)[0][1].message
