"""Ends in the way that its argument names, without training."""

import atexit
import io
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch.distributed as dist

from swell import train


def fail_deep_inside() -> None:
    raise KeyError("no such column: 'label'")


class Interrupted(io.StringIO):
    """Where the writer is told to stop."""

    def write(self, text: str) -> int:
        signal.raise_signal(signal.SIGTERM)
        assert sys.__stderr__ is not None
        return sys.__stderr__.write(text)


def tell_late(after_s: float, text: str) -> None:
    time.sleep(after_s)
    print(text)


match sys.argv[1]:
    case "raise":
        fail_deep_inside()
    case "raise-long":
        raise KeyError("first of all, " + "key, " * 10_000 + "last of all")
    case "no-batches" | "frozen":
        import torch
        from torch import nn, optim
        from torch.utils.data import DataLoader, TensorDataset

        model = nn.Linear(1, 1).requires_grad_(sys.argv[1] == "no-batches")
        batch_size = None if sys.argv[1] == "no-batches" else 2
        loader = DataLoader(TensorDataset(torch.zeros(8, 1)), batch_size)
        train.elastic(model, optim.SGD(model.parameters(), 0.1), loader, epochs=1)
    case "raise-interrupted":
        sys.stderr = Interrupted()
        fail_deep_inside()
    case "status":
        sys.exit(3)
    case "text":
        sys.exit("cannot read the data")
    case "quietly":
        print("done")
    case "threads" | "threads-exit":
        threading.Thread(target=tell_late, args=(0.3, "thread is done")).start()
        pool = ThreadPoolExecutor(1)
        for number in range(3):
            pool.submit(tell_late, 0.1, f"task {number} is done")
        atexit.register(lambda: print("at exit"))
        if sys.argv[1] == "threads-exit":
            sys.exit()
    case "stuck-thread":
        threading.Thread(target=threading.Event().wait).start()
        print("waits", flush=True)
    case "sleep":
        print("asleep", flush=True)
        while True:  # not signal.pause(), which misses a signal that comes just before it
            time.sleep(0.01)
    case "write":
        print("a line of the log")
        print("has written", file=sys.stderr)  # is in the log at once, where the line itself may not be yet
        while True:
            print("a line of the log")
            time.sleep(0.01)
    case "group":
        import torch
        from torch import nn, optim
        from torch._C._distributed_c10d import HashStore
        from torch.utils.data import DataLoader, TensorDataset

        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        model = nn.Linear(1, 1)
        loader = DataLoader(TensorDataset(torch.zeros(8, 1)), batch_size=2)
        train.elastic(model, optim.SGD(model.parameters(), 0.1), loader, epochs=1)
