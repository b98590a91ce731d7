"""The training script of the guard: steps that cost little but what Swell does for them.

`tiny_training.py FOLDER [FILE]`: where FILE is given, rank 0 writes there how many functions a step calls.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import FrameType

import torch

from benchmarks.training.steplog import StepLog
from swell import train

#: Of each step, in which the processor is free: what a resize costs is not lost beside it.
REST_S = 0.005
#: Steps whose calls are counted, of Python's functions and those in C.
COUNTED = range(100, 200)


class CallCount:
    """Counts calls in this thread between some steps."""

    def __init__(self) -> None:
        self.num_calls = 0

    def _hear(self, frame: FrameType, event: str, _: object) -> None:
        self.num_calls += event in ("call", "c_call")

    def note(self, step: int, file: Path) -> None:
        if step == COUNTED.start:
            sys.setprofile(self._hear)
        elif step == COUNTED.stop:
            sys.setprofile(None)
            file.write_text(f"{self.num_calls / len(COUNTED)}\n")


def main() -> None:
    log, count, files = StepLog(Path(*sys.argv[1:2])), CallCount(), [Path(name) for name in sys.argv[2:3]]
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 16), torch.randn(4096, 1))
    optimizer = torch.optim.Adam(model.parameters())
    run = train.elastic(model, optimizer, torch.utils.data.DataLoader(data, batch_size=32), epochs=10**6)
    for _ in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            if hasattr(run, "backward"):
                run.backward(loss)
                run.step()
            else:  # a commit to compare with, which has the former form
                loss.backward()
                run.step(loss)  # type: ignore[arg-type]
            log.note(run.steps, run.num_workers, run.rank)
            for file in files if run.is_leader else ():
                count.note(run.steps, file)
            time.sleep(REST_S)


if __name__ == "__main__":
    main()
