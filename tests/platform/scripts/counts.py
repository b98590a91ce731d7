"""A script that knows nothing of Swell: torchrun's environment, a group, and a checkpoint of its own.

Each step takes a moment, and adds up a one from each worker. It ends when a file `enough` is there.
"""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

checkpoint = Path("counts.json")
saved: dict[str, Any] = (
    json.loads(checkpoint.read_text()) if checkpoint.exists() else {"steps": 0, "sizes": []}
)
stop: list[int] = []
signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
dist.init_process_group("gloo")
saved["sizes"].append(dist.get_world_size())
while True:
    time.sleep(0.02)
    total = torch.tensor([1, len(stop), Path("enough").exists()])
    dist.all_reduce(total)
    saved["steps"] += 1
    if total[1] or total[2]:  # all see it in the same step
        break
if dist.get_rank() == 0:
    checkpoint.write_text(json.dumps(saved))
    print("after", saved["steps"], "steps", flush=True)
dist.destroy_process_group()
sys.exit(143 if stop else 0)
