"""The next group of a worker, which forms while the worker trains in the present one.

An order (`messages.Regroup`) begins it, in a thread of its own::

    FORMING -> FORMED -> ENTERED       the worker votes for the change once it is FORMED; see `managed_run`
    FORMING, FORMED -> FAILED          a member is gone or the agent broke the group off: JoinFailed is said
    FORMING, FORMED -> GIVEN_UP        a newer order takes its place

A group is FORMED at a worker when all its members have connected to each other and summed some numbers. What
fails until it is ENTERED leaves the present group as it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from enum import Enum, auto
from functools import partial

import msgspec
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import distributed_c10d

from swell.train.collective.hierarchical_sum import HierarchicalSum
from swell.train.collective.positions import ALONE, Positions
from swell.train.collective.process_groups import (
    FORM_TIMEOUT_S,
    Ends,
    PeerSockets,
    backend_of,
    choose_interface,
    connect_store,
    make_group,
    own_address,
    serve_store,
)
from swell.train.link.agent_link import Link, Superseded
from swell.wire import messages

#: A hung peer is the agent's to notice, by its heartbeat; a slow one must not be taken for hung.
TRAIN_TIMEOUT_S = 1800.0
POLL_S = 0.002
#: From an order until all members are at the store: their threads come there at once.
MEET_WITHIN_S = 60.0
#: Numbers that are summed before a group is used. NCCL has ways of its own for a few, as votes are, and for
#: many, as gradients are, and prepares each at its first use.
WARM_UP_NUMBERS = {"gloo": (1,), "nccl": (1, 2**20)}
#: Where the user has not set them.
NCCL_VARIABLES = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",  # a failed collective does not end the process: the agent decides
    "TORCH_NCCL_ENABLE_MONITORING": "0",  # nor does a collective that takes long
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1",  # a group that lost a member is left after four times this
    "NCCL_RAS_ENABLE": "0",  # else a listening socket outlives the group that opened it
    "NCCL_SOCKET_RETRY_CNT": "6",  # tries to reach a peer that is gone: 2 s, not a minute
}
BROKEN_OFF = "the agent broke the group off"
#: Torch below 2.14 has it under another name only, of which later ones warn.
_set_timeout = getattr(dist, "set_timeout", None) or distributed_c10d._set_pg_timeout


class FormFailed(Exception):
    """The group of a generation did not come together."""


class GroupState(Enum):
    FORMING = auto()
    FORMED = auto()
    ENTERED = auto()
    FAILED = auto()
    GIVEN_UP = auto()


class NextGroup:
    """The group of one order. Its state changes under the lock of the line to the agent, `link.news`."""

    process_group: dist.ProcessGroup  #: once it is formed
    hierarchy: HierarchicalSum | None = None  #: which sums, if hosts have several of its members
    store: Store  #: of its members. Rank 0's serves the others: it must live as long as they need it

    def __init__(
        self, device: torch.device, link: Link, regroup: messages.Regroup, positions: Positions = ALONE
    ) -> None:
        assert regroup.rank is not None  # noqa: S101 - a worker that is to leave forms no group
        self.generation = regroup.generation
        self.rank = regroup.rank
        self.num_workers = regroup.num_workers
        self.sockets = PeerSockets()
        self.address = ""  #: of the store of rank 0
        self.state = GroupState.FORMING
        self.is_formed = False  #: read without a lock in each step
        self._regroup = regroup
        self._device, self._link, self._positions = device, link, positions
        self._is_nccl = backend_of(device) == "nccl"
        self._failure = ""
        self._thread = threading.Thread(target=self._form, name="swell-form", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    @property
    def process_groups(self) -> list[dist.ProcessGroup]:
        """All that it has made, once it is formed."""
        return [self.process_group, *([] if self.hierarchy is None else self.hierarchy.groups)]

    # ------------------------------------------------------------ in the main thread
    def enter(self) -> None:
        """Wait until the group is formed, and enter it. Call it with `link.news` held.

        Raises:
            FormFailed: it is not, and the agent has been told.
            Superseded: a newer order came first.
        """
        self._link.news.wait_for(lambda: self.state is not GroupState.FORMING)
        if self.state is GroupState.FAILED:
            raise FormFailed(self._failure)
        if self.state is not GroupState.FORMED:
            raise Superseded
        self._move_to(GroupState.ENTERED)

    def swap_cards(self, card: bytes) -> list[bytes]:
        """What each member has brought, by rank, once all have entered. Raises RuntimeError."""
        return self._swap("card", card, TRAIN_TIMEOUT_S)

    # ------------------------------------------------------------ in any thread
    def cut(self) -> None:
        """The agent breaks the group off."""
        if not self.fail(BROKEN_OFF):
            self.sockets.cut()

    def give_up(self) -> None:
        """A newer order takes the place of this group's, or there is no need of it any more."""
        self._end(GroupState.GIVEN_UP)

    def let_go(self) -> None:
        """The group is not needed any more. It ends here, and so does rank 0's store for the others."""
        self.sockets.release()
        self.hierarchy = None
        vars(self).pop("process_group", None)
        vars(self).pop("store", None)

    def _drop(self) -> None:
        """Let go of a group that was not entered, so that peers that wait for this worker fail."""
        self.sockets.part()
        if "process_group" in vars(self):
            shut_down(self.process_groups)
        self.let_go()

    # ------------------------------------------------------------ in its own thread
    def _form(self) -> None:
        try:
            self._connect(self._meet())
        except Superseded:
            return
        except (RuntimeError, OSError) as error:  # includes DistBackendError, DistStoreError, NoInterface
            self.fail(str(error) + _advice(self._regroup))
        with self._link.news:
            if self.state is GroupState.FORMING:
                self._move_to(GroupState.FORMED)
                return
        self._drop()

    def _meet(self) -> PrefixStore:
        """Wait until all members are at the store, so that connecting is short and certain.

        Returns the room of this generation in it. Raises Superseded, RuntimeError, OSError.
        """
        for name, value in NCCL_VARIABLES.items() if self._is_nccl else ():
            os.environ.setdefault(name, value)
        choose_interface(own_address())
        self.sockets.begin()
        if self.rank == 0 and self._positions.is_first:
            store, self.address = serve_store(own_address())
            self._link.send(messages.Bound(generation=self.generation, address=self.address))
        else:
            self.address = self._link.address(self.generation, self._is_off)
            store = connect_store(self.address)
        room = self.store = PrefixStore(f"generation-{self.generation}/{self._positions.own}", store)
        room.add("present", 1)
        until_s = time.monotonic() + MEET_WITHIN_S
        while (num_present := room.add("present", 0)) < self.num_workers:
            self._link.pause(POLL_S, self._is_off)
            if time.monotonic() > until_s:
                missing = f"{num_present} of {self.num_workers} workers came to the next group"
                raise TimeoutError(f"{missing} within {MEET_WITHIN_S:g} s; it is given up")
        return room

    def _connect(self, room: PrefixStore) -> None:
        timeout = timedelta(seconds=FORM_TIMEOUT_S)
        group = self.process_group = make_group(room, self.rank, self.num_workers, self._device, timeout)
        self._link.pause(0.0, self._is_off)  # peers fail in the sums that this worker does not make
        _warm_up(group, self._device)
        if (
            1 < self._regroup.num_hosts < self.num_workers and not self._is_nccl
        ):  # which knows of hosts by itself
            self.hierarchy = HierarchicalSum(self._regroup, partial(self._make_part, room, timeout))
        told = self._swap("ends", msgspec.json.encode(self.sockets.ends()), FORM_TIMEOUT_S)
        known = [ends for each in told for ends in msgspec.json.decode(each, type=list[Ends])]
        self.sockets.tie(known, group if self._is_nccl else None)  # gloo's fails with its connections
        for each in self.process_groups:
            _set_timeout(timedelta(seconds=TRAIN_TIMEOUT_S), each)

    def _make_part(
        self, room: Store, timeout: timedelta, name: str, rank: int, num: int
    ) -> dist.ProcessGroup:
        return make_group(PrefixStore(name, room), rank, num, self._device, timeout)

    # ------------------------------------------------------------ common
    def _swap(self, what: str, own: bytes, timeout_s: float) -> list[bytes]:
        """Tell all members something, and wait for what each tells. Raises RuntimeError."""
        keys = [f"{what}-{rank}" for rank in range(self.num_workers)]
        self.store.set(keys[self.rank], own)  # type: ignore[arg-type]  # bytes come back as they are
        self.store.wait(keys, timedelta(seconds=timeout_s))
        told: list[bytes] = self.store.multi_get(keys)
        return told

    def _is_off(self) -> bool:
        return self.state in (GroupState.FAILED, GroupState.GIVEN_UP)

    def fail(self, why: str) -> bool:
        """Tell the agent that the group does not form, or that this worker will not enter it.

        False: it has been entered, or was off before.
        """
        self._failure = self._failure or why
        if not self._end(GroupState.FAILED):
            return False
        steps = self._link.heartbeat.steps
        self._link.send(messages.JoinFailed(generation=self.generation, steps=steps, message=why))
        return True

    def _end(self, state: GroupState) -> bool:
        with self._link.news:
            before = self.state
            if before not in (GroupState.FORMING, GroupState.FORMED):
                return False
            self._move_to(state)
        if before is GroupState.FORMED:
            threading.Thread(target=self._drop, name="swell-leave", daemon=True).start()
        elif self._is_nccl:
            self.sockets.end_connecting()
        return True

    def _move_to(self, state: GroupState) -> None:
        self.state, self.is_formed = state, state is GroupState.FORMED
        self._link.news.notify_all()


def shut_down(groups: Sequence[dist.ProcessGroup]) -> None:
    """End process groups that are no one's default group any more. It may take long."""
    for group in groups:
        try:
            group.shutdown()
        except RuntimeError:  # NCCL says here, too, that a peer was gone
            with suppress(RuntimeError):
                group.abort()


def _warm_up(group: dist.ProcessGroup, device: torch.device) -> None:
    """The first sums of a group take longer than others. Raises RuntimeError."""
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    with torch.cuda.stream(stream):
        for size in WARM_UP_NUMBERS[backend_of(device)]:
            group.allreduce(torch.zeros(size, device=device)).wait()
    if stream is not None:
        stream.synchronize()


def _advice(regroup: messages.Regroup) -> str:
    """What may be wrong where workers of several hosts do not find each other; else empty."""
    if regroup.num_hosts == 1:
        return ""
    remedy = f"they must reach each other, and this one is at {own_address()}: open the way between them, or"
    return f"; the group has workers on {regroup.num_hosts} hosts: {remedy} correct `--advertise ADDRESS`"
