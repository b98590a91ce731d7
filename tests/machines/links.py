"""The links between machines that are namespaces: rate, delay, loss, and one slow machine."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Self

#: Classic BPF: drop a frame whose random number, of 32 bits, is not above a threshold.
_DROP = "4,32 0 0 4294963256,37 1 0 {threshold},6 0 0 2,6 0 0 4294967295"

_SLOW = 1  # the index of the machine that may be slow


@dataclass(frozen=True)
class Link:
    """That of each machine. What is not given is as the kernel has it."""

    rate: str | None = None  #: as tc has it, in both directions
    delay_ms: float = 0.0  #: of a round trip, beyond what the kernel takes
    loss_share: float = 0.0  #: of frames that a machine is sent, which have up to 64 KiB
    slow_rate: str | None = None  #: of the second machine

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        return cls(options.link, options.delay_ms, options.loss, options.slow)

    def disciplines(self, index: int, interface: str) -> list[tuple[str, ...]]:
        """Commands of tc(8) on the machine of that index."""
        commands: list[tuple[str, ...]] = []
        on = ("dev", interface)
        if rate := (self.slow_rate if index == _SLOW else None) or self.rate:
            shape = ("tbf", "rate", rate, "burst", "1mb", "latency", "100ms")
            commands.append(("qdisc", "add", *on, "root", *shape))
        if self.loss_share:
            program = _DROP.format(threshold=int(self.loss_share * 2**32))
            commands.append(("qdisc", "add", *on, "clsact"))
            commands.append(("filter", "add", *on, "ingress", "bpf", "da", "bytecode", program))
        return commands


#: As the kernel has it.
DIRECT = Link()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--link", help="rate of the link of each host, as tc has it: 1gbit")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of a round trip between hosts; 0")
    parser.add_argument("--loss", type=float, default=0.0, help="share of frames that are lost; 0")
    parser.add_argument("--slow", help="rate of the link of the second machine, if another")
