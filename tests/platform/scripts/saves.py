"""A script that knows nothing of Swell: it saves after each 40th step, and goes on from there.

While there is a file `hold` it makes no step after the 30th of 40.

Two workers are nearly twice as fast as one. A file has a line for each step that was made.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

NUM_STEPS, SAVED_EACH, STEP_S = 480, 40, 0.06

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
step = 0
if os.path.exists("last.pt"):
    saved: dict[str, Any] = torch.load("last.pt", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]


def note(*args: Any) -> None:
    """A step is made, whether or not the script goes on after it."""
    if rank == 0:
        with Path("diary").open("a") as diary:
            diary.write(f"{step + 1} {os.getpid()} {size}\n")


optimizer.register_step_post_hook(note)
parallel = DistributedDataParallel(model)
while step < NUM_STEPS:
    time.sleep(STEP_S / size)
    while step % SAVED_EACH == 30 and os.path.exists("hold"):
        time.sleep(0.01)
    optimizer.zero_grad()
    parallel(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    step += 1
    if rank == 0 and step % SAVED_EACH == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, "last.pt.new")
        os.replace("last.pt.new", "last.pt")
