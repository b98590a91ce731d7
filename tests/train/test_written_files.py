"""A trial run tells of files that each worker would write, and of no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

SCRIPT = """
import logging, os, sys, tempfile
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train
from swell.train.runtime import resume_check
resume_check.BUDGET_S = resume_check.FIRST_S = 60  # a busy machine is to try all of it

os.chdir(sys.argv[1])
{before}
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(torch.randn(60, 2)), 6), epochs=9)
for epoch in run.epochs():
    for (batch,) in run.batches():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        run.step(loss)
    {after}
"""
#: What is done before `elastic`, after each epoch, and the line where the files are opened.
BY_ALL = {
    "appends": ("", "open('results.csv', 'a').write('1')  # here"),
    "torch.save": ("", "torch.save(model.state_dict(), f'epoch{epoch}.pt')  # here"),
    "by a library": ("", "Path(sys.argv[1], 'x').write_text('1')  # here"),
    "open before": ("log = open('log', 'a')  # here", "log.write('1')"),
    "logging": ("logging.basicConfig(filename='l', level=logging.INFO)  # here", "logging.info('1')"),
}
BY_NONE = {
    "the leader": ("", "if run.is_leader: open('results.csv', 'a').write('1')"),
    "rank 0": ("log = open('log', 'a')", "if run.rank == 0: log.write('1'); torch.save(model, 'best.pt')"),
    "one each": ("", "open(f'log-{run.rank}', 'a').write('1')"),
    "each process": ("", "open(f'log-{os.getpid()}', 'a').write('1')"),
    "temporary": ("", "tempfile.NamedTemporaryFile('w').write('1')"),
    "stdout": ("", "print(epoch)"),
    "nowhere": ("", "open(os.devnull, 'w').write('1')"),
    "a cache": ("", "open(os.path.expanduser('~/.cache/swell-tests'), 'w').write('1')"),
    "reads": ("open('data', 'w').write('1')", "open('data').read()"),
}


@pytest.fixture
def findings(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> Callable[[str, str], list[str]]:
    def found(before: str, after: str) -> list[str]:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT.format(before=before, after=after))
        agent = start_agent(mode="profile", total_steps=None, local_batches=(6,))
        agent.environ["HOME"] = str(tmp_path)
        (tmp_path / ".cache").mkdir()
        agent.start(0, script, str(tmp_path))
        assert agent.exit_status(0) == 0, agent.logs()
        _, told = agent.all_said(messages.Profiled)[0]
        assert not any(finding.holds for finding in told.findings)
        lines = script.read_text().splitlines()
        return [
            f"{finding.name} {lines[int(finding.place.rpartition(':')[2]) - 1] if finding.place else ''}"
            for finding in told.findings
        ]

    return found


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), BY_ALL.values(), ids=BY_ALL)
def test_files_that_each_worker_writes_are_told_with_the_line(
    findings: Callable[[str, str], list[str]], before: str, after: str
) -> None:
    [finding] = findings(before, after)
    assert finding.startswith("writes-files ") and finding.endswith("# here")


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), BY_NONE.values(), ids=BY_NONE)
def test_nothing_is_told_of_other_files(
    findings: Callable[[str, str], list[str]], before: str, after: str
) -> None:
    assert findings(before, after) == []
