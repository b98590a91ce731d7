"""A check of a script changes no file but its own, whatever the script does and when, and ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.executors.forked_zygotes import fork_zygotes
from tests.wire.test_private_files import WAYS, needs_layers, seen

from swell.executors.local import script_check
from swell.executors.local.devices import parse_devices
from swell.executors.local.script_check import check_script

#: Does all of it before it calls `elastic`, in each step and at the end of each epoch.
SCRIPT = """
import os, shutil, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

names = {{"os": os, "here": sys.argv[1], "old": sys.argv[1] + "/old", "other": sys.argv[1] + "/other"}}
def change():
    for way in {ways!r}:
        shutil.rmtree(names["here"], ignore_errors=True)
        os.makedirs(names["here"])
        for name in ("old", "other"):
            open(names[name], "w").write("again")
        exec(way, dict(names))
        os.chdir(cwd)
    os.makedirs(names["here"], exist_ok=True)
cwd = os.getcwd()
change()
os.makedirs(sys.argv[1] + "/must-be-new")
x = torch.randn(60, 2)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x), 6), epochs=9)
for epoch in run.epochs():
    for (batch,) in run.batches():
        change()
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        run.backward(loss)
        run.step()
    change()
    torch.save(model.state_dict(), "best.pt")
"""


@needs_layers
@pytest.mark.slow
def test_a_check_leaves_every_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workdir, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (workdir, outside):
        folder.mkdir()
        (folder / "old").write_text("old")
        (folder / "other").write_text("other")
    (workdir / "train.py").write_text(SCRIPT.format(ways=list(WAYS.values())))
    monkeypatch.chdir(workdir)
    before = seen(tmp_path)
    [node, *_] = parse_devices("cpu")
    checked = check_script("train.py", [str(outside)], next(iter(node.bindings.values())))
    assert (checked.failure, [f for f in checked.findings if f.holds]) == ("", [])
    assert seen(tmp_path) == before


@pytest.mark.slow
def test_a_script_that_does_not_come_to_its_loop_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_zygotes(monkeypatch)
    monkeypatch.setattr(script_check, "LIMIT_S", 1.0)
    script = tmp_path / "train.py"
    script.write_text("import time\nfrom swell import train\nwhile True: time.sleep(1)")
    [node, *_] = parse_devices("cpu")
    checked = check_script(str(script), [], next(iter(node.bindings.values())))
    assert "did not call swell.train.elastic within 1 s" in checked.failure
