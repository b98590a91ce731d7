"""A worker of a group over several machines, see `forked.py`: it sums, and is handed a state.

Their store is told on its line by rank 0, and read from theirs by the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, cast

import msgspec
import torch
from torch import nn

from swell.train.collective import peer_memory
from swell.train.collective.group import Group
from swell.train.collective.next_group import FormFailed
from swell.train.link.agent_link import Link, Order
from swell.train.link.heartbeat import Heartbeat
from swell.train.state import state_transfer
from swell.train.state.state_transfer import NO_STATE, MemberCard, hand_state, own_card
from swell.train.state.train_state import TrainState
from swell.wire import messages


class Pipes:
    """In place of the line to an agent."""

    def __init__(self, line: Connection[str, str]) -> None:
        self._line = line
        self.news = threading.Condition()
        self.heartbeat = Heartbeat()
        self.abort: Callable[[int], None]
        self.note_order: Callable[[Order], None]

    def send(self, message: messages.Message) -> None:
        if isinstance(message, messages.Bound):
            self._line.send(message.address)

    def address(self, generation: int, is_off: Callable[[], bool]) -> str:
        return self._line.recv()

    def pause(self, timeout_s: float, is_off: Callable[[], bool]) -> None:
        time.sleep(timeout_s)


def work(line: Connection[str, str], rank: int, num_ranks: int) -> str:
    """The sum, and `memory` if that is how the state came; or why there is no group."""
    net = nn.Linear(100, 100)
    nn.init.constant_(net.weight, float(rank == 0))
    state = TrainState(net, torch.optim.SGD(net.parameters(), lr=0.1), None, {})
    card = own_card(1 if rank == 0 else NO_STATE)
    order = messages.Regroup(generation=1, rank=rank, num_workers=num_ranks, source=0, num_hosts=2)
    pipes = Pipes(line)
    group = Group(torch.device("cpu"), cast(Link, pipes))
    pipes.note_order(order)
    try:
        cards = group.form(order, msgspec.json.encode(card))
    except FormFailed as failure:
        return str(failure)
    number = torch.tensor([float(rank) + 1])
    group.sum_all(number)
    ways = []
    read = peer_memory.read

    def read_and_tell(*what: Any) -> None:
        ways.append("memory")
        read(*what)

    vars(state_transfer)["read"] = read_and_tell
    hand_state(group, state, [msgspec.json.decode(card, type=MemberCard) for card in cards], [0])
    assert (net.weight == 1.0).all()
    group.close()
    return " ".join([f"{number.item():g}", *ways])
