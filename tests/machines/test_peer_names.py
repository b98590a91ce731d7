"""A machine whose name server does not answer, or refuses: its workers wait for none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.machines.namespaces import HOME, Network, why_not

from swell.executors.local.zygote.process import THREAD_VARIABLES

ROOT = Path(__file__).parents[2]
ENVIRON = {"PYTHONPATH": str(ROOT / "src"), **dict.fromkeys(THREAD_VARIABLES, "1")}
#: Mounts a list of name servers. A zygote beside a silent one, and then one beside none, has a worker, which
#: prints how long its store takes. Both zygotes are forks of one process, which imports torch as they do.
PROGRAM = """
import os, socket, subprocess, sys, time
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))  # it takes questions, and never answers
import torch.distributed

def end_if_parent():
    if os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))

def time_store():
    from swell.train.collective import peer_names
    assert len(os.listdir("/proc/self/task")) == 1, "it can be forked"
    end_if_parent()
    peer_names.wait_for_no_names()
    begun_s = time.monotonic()
    torch.distributed.TCPStore(sys.argv[2], 0, is_master=True, wait_for_workers=False)
    print(peer_names.IS_SILENT, time.monotonic() - begun_s, flush=True)
    sys.exit()

if os.fork() == 0:
    time_store()
assert os.wait()[1] == 0
server.close()
time_store()
"""


@pytest.mark.slow
def test_a_worker_waits_for_no_name_server() -> None:
    """Neither for one that is silent nor for one that refuses."""
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(1) as network:
        machine = network[0]
        servers = f"{HOME}/resolv.conf"
        machine.outside(servers).write_text("nameserver 127.0.0.1\n")
        told = machine.run(sys.executable, "-c", PROGRAM, servers, machine.address, env=ENVIRON)
    (silent, silent_s), (refusing, refusing_s) = map(str.split, told.splitlines())
    assert (silent, refusing) == ("True", "False")
    for seconds in (silent_s, refusing_s):
        assert float(seconds) < 5.0, "it took the 10 s that the resolver has by default"
