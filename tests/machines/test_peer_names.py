"""A machine whose name server does not answer, or refuses: its workers wait for none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.machines.namespaces import HOME, Network, why_not

from swell.executors.local.zygote.process import THREAD_VARIABLES

ROOT = Path(__file__).parents[2]
ENVIRON = {"PYTHONPATH": str(ROOT / "src"), **dict.fromkeys(THREAD_VARIABLES, "1")}
#: Mounts a list of name servers, imports as a zygote does, and prints how long a worker's store takes.
PROGRAM = """
import os, socket, subprocess, sys, time
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", int(sys.argv[2])))  # of port 53: it takes questions, and never answers
import torch.distributed
from swell.train.collective import peer_names
assert len(os.listdir("/proc/self/task")) == 1, "it can be forked"
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
peer_names.wait_for_no_names()
begun_s = time.monotonic()
torch.distributed.TCPStore(sys.argv[3], 0, is_master=True, wait_for_workers=False)
print(peer_names.SILENT_ABOUT or "-", time.monotonic() - begun_s)
"""


@pytest.mark.parametrize(("port", "is_silent"), [(53, True), (0, False)])
def test_a_worker_waits_for_no_name_server(port: int, is_silent: bool) -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(1) as network:
        machine = network[0]
        servers = f"{HOME}/resolv.conf"
        machine.outside(servers).write_text("nameserver 127.0.0.1\n")
        words = (sys.executable, "-c", PROGRAM, servers, str(port), machine.address)
        silent, seconds = machine.run(*words, env=ENVIRON).split()
    assert (silent != "-") is is_silent
    assert float(seconds) < 5.0, "it took the 10 s that the resolver has by default"
