"""Knows nothing of Swell: counts samples, keeps what it has in a store, and goes on from there.

    counting.py STORE NUM_STEPS

STORE: its address, `http://HOST:PORT/NAME`. The script waits as long as it is cut off. What it saves has
the number of steps in its name, so a worker of an earlier gang that comes late harms nothing.
"""

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

import held_devices  # type: ignore[import-not-found]  # it lies beside, wherever the script is
import torch
import torch.distributed as dist

NUM_SAMPLES, BATCH, SAVE_EVERY = 256, 32, 5
ANSWER_WITHIN_S, NAP_S, STEP_S = 2.0, 0.2, 0.05
store, num_steps = sys.argv[1], int(sys.argv[2])


def ask(name: str, content: bytes | None = None) -> bytes:
    while True:
        order = urllib.request.Request(  # noqa: S310
            f"{store}/{name}", content, method="GET" if content is None else "PUT"
        )
        try:
            with urllib.request.urlopen(order, timeout=ANSWER_WITHIN_S) as answer:  # noqa: S310
                return bytes(answer.read())
        except OSError:
            time.sleep(NAP_S)


held_devices.hold()
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
seen = torch.nn.Parameter(torch.zeros(NUM_SAMPLES, dtype=torch.float64))
state = torch.zeros(NUM_SAMPLES + 1, dtype=torch.float64)
if rank == 0:
    newest = max(map(int, ask("").split()), default=0)
    if newest:
        state = torch.tensor(json.loads(ask(str(newest))), dtype=torch.float64)
dist.broadcast(state, 0)
step = int(state[0])
seen.data = state[1:].clone()
optimizer = torch.optim.SGD([seen], lr=1.0)
while step < num_steps:
    begin = step * BATCH % NUM_SAMPLES
    seen.grad = torch.zeros_like(seen)
    seen.grad[begin + rank : begin + BATCH : size] = -1.0
    time.sleep(STEP_S)
    dist.all_reduce(seen.grad)
    optimizer.step()
    step += 1
    if rank == 0 and (step % SAVE_EVERY == 0 or step == num_steps):
        ask(str(step), json.dumps([float(step), *seen.tolist()]).encode())
dist.barrier()
if rank == 0:
    print("counted", step, seen.min().item(), seen.max().item(), flush=True)
