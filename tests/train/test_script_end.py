"""A worker that leaves writes what its script has open, and calls what the script has registered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent, until

from swell.wire import messages

SCRIPT = """
import atexit, csv, gzip, io, logging, logging.handlers, os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

folder = sys.argv[1]
closed = open(folder + "/closed", "w")
closed.close()
log = open(folder + "/log", "a")
raw = open(folder + "/raw", "ab")
zipped = gzip.open(folder + "/zipped", "wt")
atexit.register(lambda: log.write("end\\n"))

class SummaryWriter:
    def __init__(self):
        self.events = []
    def flush(self):
        with open(folder + "/events", "w") as file:
            file.write(" ".join(self.events))

class Trainer:
    def __init__(self):
        self.table = csv.writer(open(folder + "/table", "w"))

writer, trainer = SummaryWriter(), Trainer()

def fit(run, model, optimizer, x):
    mine = open(folder + "/mine", "w")
    for epoch in run.epochs():
        for (batch,) in run.batches():
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            run.backward(loss)
            run.step()
            log.write(f"{run.steps}\\n")
            raw.write(b"1")
            zipped.write("2")
            mine.write("3")
            trainer.table.writerow([4])
            writer.events.append("5")

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.randn(60, 2)), 6)
fit(train.elastic(model, optimizer, loader), model, optimizer, loader)
"""
FILES = ("log", "raw", "zipped", "mine", "table", "events")


def has_all(folder: Path) -> bool:
    return all((folder / name).exists() and (folder / name).stat().st_size for name in FILES)


@pytest.mark.parametrize("how", ["suspended", "shrunk", "terminated", "finished"])
def test_what_a_script_has_open_is_written_when_its_worker_goes(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, how: str
) -> None:
    script, folders = tmp_path / "train.py", [tmp_path / "0", tmp_path / "1"]
    script.write_text(SCRIPT)
    agent = start_agent(total_steps=40, ends_when_told=True)
    for worker, folder in enumerate(folders):
        folder.mkdir()
        agent.start(worker, script, str(folder))
    for worker in range(2):
        agent.wait(worker, messages.Ready)
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 3)
    if how == "suspended":
        agent.suspend()
    elif how == "shrunk":
        agent.join([0], source=0)
    elif how == "terminated":
        agent.processes[1].terminate()
    else:
        agent.wait(1, messages.Finished)
    assert agent.exit_status(1) == (0 if how == "finished" else 143)
    until(lambda: has_all(folders[1]))
    lines = (folders[1] / "log").read_text().splitlines()
    assert lines[-1] == "end" and len(lines) >= 3, "what is registered is called, and its lines are written"
    assert len((folders[1] / "raw").read_bytes()) == len(lines) - 1
