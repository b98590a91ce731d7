"""Links of machines that are namespaces."""

from __future__ import annotations

import sys

import pytest
from tests.machines.links import Link
from tests.machines.namespaces import INTERFACE, Network, why_not

DELAY_MS = 50.0
#: The time of a round trip, by the answer that no program listens.
ASK = """
import socket, sys, time
while True:
    begun_s = time.monotonic()
    try:
        socket.create_connection((sys.argv[1], 9))
    except ConnectionRefusedError:
        break
    except OSError:  # the way is not there yet
        pass
print(time.monotonic() - begun_s)
"""


def test_a_machine_has_its_link_from_each_start_on() -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(2, Link("1gbit", DELAY_MS, 0.001, slow_rate="100mbit")) as network:
        first, second = network
        for _ in range(2):
            took_s = float(first.run(sys.executable, "-c", ASK, second.address))
            assert took_s >= DELAY_MS / 1e3
            assert "rate 100Mbit" in second.run("tc", "qdisc", "show", "dev", INTERFACE)
            second.kill()
            second.start()
        assert "rate 1Gbit" in first.run("tc", "qdisc", "show", "dev", INTERFACE)
