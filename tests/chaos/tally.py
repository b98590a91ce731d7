"""Counts how often each sample was seen, in the parameters themselves, and exactly.

With plain SGD each visit of sample i lowers parameter i by 1 / 64, whatever the size of the gang, also where
the processes of a worker divide parameters and samples. Argument: a word that makes the trial run this job's
own. Files in the current folder change its ways: with `raises` it raises in a step after the 20th, with
`strays` it leaves a process behind, with `varies` its speed does. A worker of several processes leaves their
pids in `process-WORKER.POSITION`.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NUM_SAMPLES = 512
torch.set_default_dtype(torch.float64)
seen = torch.nn.Embedding(NUM_SAMPLES, 1)
torch.nn.init.zeros_(seen.weight)
num_processes, mesh = int(os.environ.get("SWELL_PROCESSES", "1")), None
if num_processes > 1:
    mesh = init_device_mesh("cpu", (num_processes,), mesh_dim_names=("fsdp",))
    fully_shard(seen, mesh=mesh)
    name = f"process-{os.environ['SWELL_WORKER']}.{os.environ['SWELL_POSITION']}"
    Path(name).write_text(str(os.getpid()))
optimizer = torch.optim.SGD(seen.parameters(), lr=1.0)
loader = DataLoader(TensorDataset(torch.arange(NUM_SAMPLES)), batch_size=64, shuffle=True)
run = train.elastic(seen, optimizer, loader, epochs=1, mesh=mesh)
if Path("strays").exists() and run.is_leader and not os.environ.get("SWELL_TRIAL"):
    subprocess.Popen(["setsid", "sleep", "3600"])
varies, chance = Path("varies").exists(), random.Random()
for epoch in run.epochs():
    slow_s = chance.choice((0.0, 0.005, 0.03))
    for (index,) in run.batches():
        if varies:
            time.sleep(chance.uniform(0.0, slow_s))
        optimizer.zero_grad()
        loss = seen(index).mean()
        run.backward(loss)
        run.step()
        if run.steps > 20 and Path("raises").exists():
            raise ArithmeticError("a mistake of the script's own")
    print(f"worker {os.getpid()} of {run.num_workers} ends epoch {epoch}", flush=True)
weight: Any = seen.weight
weights = weight.detach() if mesh is None else weight.full_tensor()
if run.is_leader:
    found = {"steps": run.steps, "least": float(weights.min()), "most": float(weights.max())}
    Path("tally.json").write_text(json.dumps(found))
sys.exit(0)
