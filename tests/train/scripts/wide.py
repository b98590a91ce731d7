"""A model of 28 million parameters in divided blocks, for few steps.

Arguments: file for the result, steps, `blocks` or `whole`; where the process is to have a limit, also bytes
that it may have more than before the model is made, and how many times as many blocks there are. The
trained state takes 453 MB, a quarter of which are parameters. The result is the loss of each step, also of
those before a checkpoint.
"""

import ctypes
import json
import resource
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

WIDTH, NUM_BLOCKS, SAMPLES = 768, 6, 24
MMAP_THRESHOLD = -3  #: as malloc.h has it


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = x + self.second(torch.relu(self.first(x)))
        return changed


result, num_steps, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if len(sys.argv) > 4:
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)  # what is free is the kernel's again at once
    with open("/proc/self/status") as status:
        (held_kb,) = (int(line.split()[1]) for line in status if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (held_kb * 1024 + int(sys.argv[4]),) * 2)
    NUM_BLOCKS *= int(sys.argv[5])
torch.manual_seed(0)
model = nn.Sequential(*(Block() for _ in range(NUM_BLOCKS)), nn.Linear(WIDTH, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x, y = torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES)
loader = DataLoader(TensorDataset(x, y), batch_size=8)
run = train.elastic(
    model, optimizer, loader, epochs=num_steps // 3, shard=[Block] if way == "blocks" else None
)
losses = []
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        mean = run.backward(loss)
        run.step()
        told = float(mean)
        if run.has_stepped:  # else it comes again
            losses.append(told)
if run.is_leader:
    with open(result, "w") as file:
        json.dump(losses, file)
