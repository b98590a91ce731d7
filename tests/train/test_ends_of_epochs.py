"""A script that fails and goes on in a new process learns what one learns that has never failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, fork_script

from swell.wire import messages

#: Fails once, in its third epoch, at the place that its second argument names. Four steps make an epoch.
SCRIPT = """
import copy, json, math, sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

torch.set_default_dtype(torch.float64)
result, place = Path(sys.argv[1]), sys.argv[2]
failed = result.with_name("failed")

tries = [0]

def may_fail(here, epoch):
    if here == place and epoch == 2 and not failed.exists():
        failed.touch()
        raise ValueError(here)

def skips(after, epoch):
    return place == f"skips what follows {after}" and epoch == 2

x = torch.arange(72.0).reshape(24, 3) / 72
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x), 6, shuffle=True), epochs=6)
seen, stage, rate, decays = [], 0, 0.0, []
best, kept, waited = math.inf, None, 0
for epoch in run.epochs():
    total, count = 0.0, 0
    stage += 1
    rate = 0.1 if epoch < 3 else 0.01
    decays.append(epoch)
    run.state["count"] = 0
    for group in optimizer.param_groups:
        group["lr"] = rate
    for (batch,) in run.batches():
        tries[0] += 1
        if count == 0:
            may_fail("first", epoch)
        if count == 2:
            may_fail("before a step", epoch)
        optimizer.zero_grad()
        loss = (model(batch) - 1).square().mean()
        run.backward(loss)
        run.step()
        total += float(loss)
        count += 1
        run.state["count"] += 1
        if count == 2:
            may_fail("after a step", epoch)
        if count == 4:
            may_fail("last", epoch)
    if skips("last", epoch):
        continue
    seen.append([epoch, count, total, stage, rate, run.state["count"], model.training])
    model.eval()
    may_fail("evaluation", epoch)
    if skips("evaluation", epoch):
        model.train()
        continue
    if total < 0.8 * best:
        best, kept, waited = total, copy.deepcopy(model.state_dict()), 0
    else:
        waited += 1
        model.load_state_dict(kept)
    seen[-1] += [best, waited, *tries]
    model.train()
    may_fail("end", epoch)
# the end of the loop
weights = [value for tensor in model.state_dict().values() for value in tensor.reshape(-1).tolist()]
result.write_text(json.dumps([seen, weights, decays]))
"""
PLACES = ("first", "before a step", "after a step", "last", "evaluation", "end")
StartAgent = Callable[..., FakeAgent]


def within_functions(script: str) -> str:
    """The same with its loop in a function, and that over the batches in another one."""
    head, _, rest = script.partition("seen, stage, rate")
    loop, _, tail = rest.partition("# the end of the loop\n")
    before, _, body = loop.partition("    for (batch,)")
    steps, _, after = body.partition("    if skips(")
    of_steps = f"def go_through(epoch, total, count):\n    for (batch,){steps}    return total, count\n\n"
    call = "    total, count = go_through(epoch, total, count)\n    if skips("
    lines = f"seen, stage, rate{before}{call}{after}return seen, decays".splitlines()
    main = "\n".join(f"    {line}" for line in lines)
    return f"{head}{of_steps}def main():\n{main}\n\nseen, decays = main()\n{tail}"


def outcome(start_agent: StartAgent, folder: Path, place: str, text: str, *, fails: bool) -> Any:
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(text)
    agent = start_agent(total_steps=24, checkpoint_interval_s=1e9)
    if fails:
        agent.start_ready([0], script, str(folder / "result"), place)
        agent.join([0], source=None)
        assert f"ValueError: {place}" in agent.wait(0, messages.Failed).message
        assert agent.exit_status(0) == 1
    agent.start_ready([1], script, str(folder / "result"), "nowhere" if fails else place)
    agent.join([1], source=None)
    agent.wait(1, messages.Finished)
    assert agent.exit_status(1) == 0, agent.logs()
    return json.loads((folder / "result").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("text", [SCRIPT, within_functions(SCRIPT)], ids=["globals", "locals"])
def test_what_an_epoch_sets_first_is_of_that_epoch_wherever_the_script_has_failed(
    text: str, start_agent: StartAgent, tmp_path: Path
) -> None:
    undisturbed = outcome(start_agent, tmp_path / "undisturbed", "nowhere", text, fails=False)
    for place in PLACES:
        expected = undisturbed
        if place in ("last", "evaluation"):  # what follows there in the epoch is not run again
            left_out = f"skips what follows {place}"
            expected = outcome(start_agent, tmp_path / left_out, left_out, text, fails=False)
        assert outcome(start_agent, tmp_path / place, place, text, fails=True) == expected, place


#: Changes at each epoch's end what training has left. Its second worker misses the sum of the fourth step.
MISSES = """
import json, sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train
from swell.train.collective.gradients import Gradients
from swell.train.collective.group import GroupBroken

torch.set_default_dtype(torch.float64)
reduce, missed = Gradients.reduce, []

def reduce_or_miss(*given):
    tally = reduce(*given)
    if run.rank == 1 and run.steps == 3 and not missed:
        missed.append(True)
        raise GroupBroken("missed")
    return tally

Gradients.reduce = reduce_or_miss
x = torch.arange(72.0).reshape(24, 3) / 72
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
model.register_buffer("scale", torch.ones(()))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x), 6), epochs=3)
for epoch in run.epochs():
    for (batch,) in run.batches():
        optimizer.zero_grad()
        loss = (model.scale * model(batch) - 1).square().mean()
        run.backward(loss)
        run.step()
    for slots in optimizer.state.values():
        slots["momentum_buffer"].mul_(0.5)
    model.scale.mul_(0.9)
weights = [value for tensor in model.state_dict().values() for value in tensor.reshape(-1).tolist()]
Path(sys.argv[1]).with_suffix(f".{run.rank}").write_text(json.dumps(weights))
"""


@pytest.mark.slow
def test_a_worker_that_catches_up_with_an_epochs_end_does_it_once(
    start_agent: StartAgent, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(MISSES)
    agent = start_agent(total_steps=12, checkpoint_interval_s=1e9)
    agent.start_ready([0, 1], script, str(tmp_path / "result"))
    agent.join([0, 1], source=None)
    assert [agent.wait(worker, messages.Broken).steps for worker in (0, 1)] == [4, 3]
    assert agent.join([0, 1], source=0) == 4
    for worker in (0, 1):
        agent.wait(worker, messages.Finished)
        assert agent.exit_status(worker) == 0, agent.logs()
    alone = fork_script(script, (str(tmp_path / "alone"),), tmp_path / "log", {})
    alone.join(PATIENCE_S)
    expected = json.loads((tmp_path / "alone.0").read_text())
    for rank in (0, 1):
        assert json.loads((tmp_path / f"result.{rank}").read_text()) == pytest.approx(expected, rel=1e-9)
