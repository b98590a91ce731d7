"""The network between machines that are namespaces: its rate, its delay, what it loses, and one slow host."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.machines.first_process import entry
from tests.machines.namespaces import INTERFACE, Machine, Network

#: Classic BPF: drop a frame whose random number, of 32 bits, is not above a threshold.
_DROP = "4,32 0 0 4294963256,37 1 0 {threshold},6 0 0 2,6 0 0 4294967295"
_RELAY = Path(__file__).with_name("relay.py")


@dataclass(frozen=True)
class Link:
    """That of each host. What is not given is as the kernel has it."""

    rate: str | None = None  #: as tc has it, in both directions
    delay_ms: float = 0.0  #: of a round trip, beyond what the kernel takes
    loss_share: float = 0.0  #: of frames that a host is sent, which have up to 64 KiB
    slow_rate: str | None = None  #: of the last host

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        return cls(options.link, options.delay_ms, options.loss, options.slow)

    def lay(self, network: Network) -> None:
        """Have all machines of a network be joined by such links."""
        for machine in network:
            rate = self.rate if machine is not network.machines[-1] else self.slow_rate or self.rate
            self._lay(machine, rate)
        if self.delay_ms:
            ends = [machine.link for machine in network]
            network.configure(network.pid, *(f"link set {end} nomaster" for end in ends))
            command = (sys.executable, "-I", "-S", str(_RELAY), str(self.delay_ms / 2e3), *ends)
            inside = entry(network.pid, (*network.users, "net", "pid"), "/", *command)
            relay = subprocess.Popen(inside, stdout=subprocess.PIPE)  # it ends with the network
            assert relay.stdout is not None  # noqa: S101 - it is a pipe
            relay.stdout.readline()

    def _lay(self, machine: Machine, rate: str | None) -> None:
        if rate:
            shape = ("tbf", "rate", rate, "burst", "1mb", "latency", "100ms")
            machine.run("tc", "qdisc", "add", "dev", INTERFACE, "root", *shape)
        if self.loss_share:
            program = _DROP.format(threshold=int(self.loss_share * 2**32))
            machine.run("tc", "qdisc", "add", "dev", INTERFACE, "clsact")
            coming = ("filter", "add", "dev", INTERFACE, "ingress")
            machine.run("tc", *coming, "bpf", "da", "bytecode", program)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--link", help="rate of the link of each of two hosts, as tc has it: 1gbit")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of a round trip between them; 0")
    parser.add_argument("--loss", type=float, default=0.0, help="share of frames that are lost; 0")
    parser.add_argument("--slow", help="rate of the link of the second host, if another")
