"""A machine whose name server does not answer: its workers wait for none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.machines.namespaces import Network, why_not

from swell.executors.local.zygote.process import THREAD_VARIABLES

ROOT = Path(__file__).parents[2]
#: What a zygote does with its preload, and what a worker does then. Prints seconds.
PROGRAM = """
import importlib, os, sys, time
from pathlib import Path
for name in sys.argv[2:]:
    importlib.import_module(name)
assert len(os.listdir("/proc/self/task")) == 1, "it can be forked"
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
import torch.distributed
begun_s = time.monotonic()
torch.distributed.TCPStore(sys.argv[1], 0, is_master=True, wait_for_workers=False)
print(time.monotonic() - begun_s)
"""
ENVIRON = {"PYTHONPATH": str(ROOT / "src"), **dict.fromkeys(THREAD_VARIABLES, "1")}


def test_a_worker_does_not_wait_for_a_name_server_that_is_silent() -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    words = ("torch.distributed", "swell.train.collective.peer_names")
    with Network(1) as network:
        machine = network[0]
        seconds = float(machine.run(sys.executable, "-c", PROGRAM, machine.address, *words, env=ENVIRON))
    assert seconds < 5.0, "it took the 10 s that the resolver has by default"
