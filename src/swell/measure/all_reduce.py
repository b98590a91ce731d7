"""An all-reduce of torch.distributed between workers on a machine's devices: NCCL on GPUs, else Gloo.

`all_reduce.py FILE NUMBER_OF_BYTES DEVICE`: rank 0 writes the time of each to the file, and the backend.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

WARM_UP, MEASURED = 3, 15
FLOAT_BYTES = 4


def main() -> None:
    file, num_bytes, device = Path(sys.argv[1]), int(sys.argv[2]), torch.device(sys.argv[3])
    is_cuda = device.type == "cuda"  # workers on cores may see GPUs, too
    backend = "nccl" if is_cuda else "gloo"
    dist.init_process_group(backend, device_id=device if is_cuda else None)  # else a barrier has to guess it
    values = torch.ones(num_bytes // FLOAT_BYTES, device=device)
    times = [_reduce_s(values, is_cuda) for _ in range(WARM_UP + MEASURED)][WARM_UP:]
    if dist.get_rank() == 0:
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps({"backend": dist.get_backend(), "times_s": times}))
        os.replace(draft, file)
    dist.barrier()
    dist.destroy_process_group()


def _reduce_s(values: torch.Tensor, is_cuda: bool) -> float:
    dist.barrier()
    begun_s = time.monotonic()
    dist.all_reduce(values, dist.ReduceOp.AVG if is_cuda else dist.ReduceOp.SUM)
    if is_cuda:
        torch.cuda.synchronize()
    else:
        values /= dist.get_world_size()
    return time.monotonic() - begun_s


if __name__ == "__main__":
    main()
