"""A worker of a group over several machines: `spans.py RANK NUM_RANKS`. It sums, and is handed a state.

Its peers' store is told on standard output by rank 0, and read from standard input by the others.
"""

from __future__ import annotations

import sys
import time
from typing import Any, cast

import msgspec
import torch
from torch import nn

from swell.train.collective.group import FormFailed, Group
from swell.train.link.agent_link import Link
from swell.train.state import state_transfer
from swell.train.state.state_transfer import NO_STATE, Card, Loan, hand_state
from swell.train.state.train_state import TrainState
from swell.wire import messages


class Pipes:
    """In place of the line to an agent."""

    def send(self, message: messages.Message) -> None:
        if isinstance(message, messages.Bound):
            print(message.address, flush=True)

    def address(self, generation: int) -> str:
        return input()

    def pause(self, timeout_s: float) -> None:
        time.sleep(timeout_s)


def main() -> None:
    rank, num_ranks = map(int, sys.argv[1:])
    net = nn.Linear(100, 100)
    nn.init.constant_(net.weight, float(rank == 0))
    state = TrainState(net, torch.optim.SGD(net.parameters(), lr=0.1), None, {})
    loan = Loan(1 if rank == 0 else NO_STATE, state if rank == 0 else None)
    order = messages.Regroup(
        generation=1, rank=rank, num_workers=num_ranks, source=0, has_news=True, num_hosts=2
    )
    group = Group(torch.device("cpu"))
    cards = group.form(cast(Link, Pipes()), order, rank, msgspec.json.encode(loan.card))
    number = torch.tensor([float(rank) + 1])
    group.sum_all(number)
    ways = []
    take = state_transfer._take

    def take_and_tell(*what: Any) -> Any:
        ways.append("memory")
        return take(*what)

    state_transfer._take = take_and_tell  # type: ignore[assignment]
    hand_state(group, state, [msgspec.json.decode(card, type=Card) for card in cards], [0])
    assert (net.weight == 1.0).all()
    print(f"{number.item():g}", *ways)
    group.close()


if __name__ == "__main__":
    try:
        main()
    except FormFailed as failure:
        print(failure)
