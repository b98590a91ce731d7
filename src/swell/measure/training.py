"""The job that is measured: an elastic training script with a model of a few million parameters.

`training.py FOLDER`: it trains until it is ended, and writes its steps to the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.measure.step_log import StepLog

WIDTH, NUM_LAYERS, NUM_CLASSES = 512, 15, 10
GLOBAL_BATCH, NUM_SAMPLES = 64, 4096
ENDLESS = 10**6


def build_model() -> nn.Module:
    """Layers of equal width: (B, 512) -> (B, 10); four million parameters."""
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(NUM_LAYERS)]
    return nn.Sequential(*layers, nn.Linear(WIDTH, NUM_CLASSES))


def write_versions(folder: Path, device: torch.device) -> None:
    """Write what computes: torch, and of a GPU what it is and which NCCL there is."""
    found = {"torch": torch.__version__, "cuda": torch.version.cuda or ""}
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    (folder / "versions.json").write_text(json.dumps(found))


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(NUM_SAMPLES, WIDTH), torch.randint(NUM_CLASSES, (NUM_SAMPLES,)))
    loader = DataLoader(data, batch_size=GLOBAL_BATCH, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=ENDLESS)
    device = next(model.parameters()).device
    write_versions(folder, device)
    log = StepLog(folder)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            run.step(loss)
            if run.has_stepped:  # else it comes again
                if device.type == "cuda":
                    torch.cuda.synchronize(device)  # a step is timed by its end, not by its launch
                log.note(run.steps, run.num_workers)


if __name__ == "__main__":
    main()
