"""For `make test-gpu` and `make bench-gpu`: Python imports this first, in every process.

NCCL refuses two workers of one host on one GPU. Each process calls itself a host of its own.
"""

import os


def _name_host() -> None:
    os.environ["NCCL_HOSTID"] = f"host-{os.getpid()}"


_name_host()
os.register_at_fork(after_in_child=_name_host)
