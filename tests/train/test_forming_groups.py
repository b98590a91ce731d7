"""Groups form in threads: here those of several workers in one process, none of them torch's default one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import cast
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from swell.train.collective import next_group
from swell.train.collective.group import Group
from swell.train.collective.next_group import FormFailed, GroupState
from swell.train.link.agent_link import Link, Superseded
from swell.train.link.heartbeat import Heartbeat
from swell.wire import messages

LIMIT_S = 20.0


class Lines:
    """The line of one worker, and an agent that passes on where stores listen."""

    def __init__(self, workers: list[Lines]) -> None:
        self.news = threading.Condition()
        self.heartbeat = Heartbeat()
        self.said: list[messages.Message] = []
        self.abort: Callable[[int], None]
        self.note_order: Callable[[messages.Regroup | messages.Suspend], None]
        self._addresses: dict[int, str] = {}
        self._workers = workers
        workers.append(self)
        self.group = Group(torch.device("cpu"), cast(Link, self))

    def send(self, message: messages.Message) -> None:
        self.said.append(message)
        if isinstance(message, messages.Bound):
            for worker in self._workers:
                worker.bound(message)

    def bound(self, message: messages.Bound) -> None:
        with self.news:
            self._addresses[message.generation] = message.address
            self.news.notify_all()

    def address(self, generation: int, is_off: Callable[[], bool]) -> str:
        return Link.address(cast(Link, self), generation, is_off)

    def pause(self, timeout_s: float, is_off: Callable[[], bool]) -> None:
        Link.pause(cast(Link, self), timeout_s, is_off)

    def order(self, generation: int, rank: int | None, num_workers: int) -> messages.Regroup:
        order = messages.Regroup(generation=generation, rank=rank, num_workers=num_workers, source=0)
        with self.news:
            self.note_order(order)
        return order

    def await_state(self, state: GroupState) -> None:
        group = self.group.next
        assert group is not None
        with self.news:
            assert self.news.wait_for(lambda: group.state is state, LIMIT_S), (group.state, self.said)


@pytest.fixture
def workers() -> Iterator[list[Lines]]:
    made: list[Lines] = []
    for _ in range(2):
        Lines(made)
    with mock.patch.dict(os.environ):  # a group that is entered is named there
        yield made


def test_a_group_is_entered_once(workers: list[Lines]) -> None:
    worker = workers[0]
    order = worker.order(1, 0, 1)
    assert worker.group.form(order, b"card") == [b"card"]
    assert dist.is_initialized() and worker.group.next is None
    worker.order(1, 0, 1)  # again, of another controller
    assert worker.group.next is None
    with pytest.raises(Superseded):
        worker.group.form(order)
    worker.group.close()


def test_a_formed_group_that_is_broken_off_is_not_entered_and_the_agent_knows(workers: list[Lines]) -> None:
    worker = workers[0]
    order = worker.order(1, 0, 1)
    worker.await_state(GroupState.FORMED)
    worker.abort(1)
    assert isinstance(worker.said[-1], messages.JoinFailed)
    with pytest.raises(FormFailed, match="the agent broke the group off"):
        worker.group.form(order)
    assert not dist.is_initialized()


def test_a_group_to_which_a_member_does_not_come_is_given_up(
    workers: list[Lines], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_group, "MEET_WITHIN_S", 0.1)
    workers[0].order(1, 0, 2)
    workers[0].await_state(GroupState.FAILED)
    failed = workers[0].said[-1]
    assert isinstance(failed, messages.JoinFailed)
    assert failed.message == "1 of 2 workers came to the next group within 0.1 s; it is given up"
