"""The process group that a worker is in: sum over it, change to the next one, leave it."""

from __future__ import annotations

import atexit
import errno
import os
import threading
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from swell.train.collective.hierarchical_sum import OneSum
from swell.train.collective.next_group import BROKEN_OFF, NextGroup, shut_down
from swell.train.collective.positions import ALONE, Positions, gather_bytes
from swell.train.collective.process_groups import PeerSockets, backend_of, forget_all, make_default
from swell.train.link.agent_link import Heartbeat, Link, Order, Superseded
from swell.wire import environ, messages

T = TypeVar("T")
OWN_GROUP = (
    "the script called torch.distributed.init_process_group itself; under Swell the group changes while the "
    "script runs and elastic() forms it: remove the call, or submit the script with `elasticity: restart`"
)
BROKEN_ELSEWHERE = "a collective failed in another process of this worker"
#: For gloo to let go of a group at the end of the process.
LEAVE_WITHIN_S = 1.0
#: As `dist.all_reduce` has them, which makes more calls than the sum itself.
_SUM = dist.AllreduceOptions()
if hasattr(_SUM, "asyncOp"):  # since torch 2.7
    _SUM.asyncOp = False


#: What torch and its libraries say of memory that has run out in errors that are no `OutOfMemoryError`.
SIGNS = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)


class GroupBroken(Exception):
    """A collective failed: a peer is gone."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that an allocation failed: on a device, or in host memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):  # of `mmap`
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def check_no_group(positions: Positions) -> None:
    """Raises RuntimeError: the script has formed a group of its own, and its worker is one process."""
    if dist.is_initialized() and positions.num == 1:
        raise RuntimeError(OWN_GROUP)


def comes_of_own_group(frames: TracebackType | None) -> bool:
    """Whether an error comes out of the script's call of init_process_group."""
    own = dist.init_process_group.__name__, distributed_c10d.__file__
    codes = (frame.f_code for frame, _ in traceback.walk_tb(frames))
    return any((code.co_name, code.co_filename) == own for code in codes)


class Group:
    """The group that this process is in, at most one at a time, and the next.

    It is torch's default group where a worker is one process.
    """

    def __init__(self, device: torch.device, link: Link | None = None, positions: Positions = ALONE) -> None:
        """
        Args:
            link: brings orders to form groups.
            positions: of this worker's processes. Where they are several, each is in a group with those at
                its position in other workers, and torch's default group is the worker's own.
        """
        self.device, self._positions = device, positions
        self._is_nccl = backend_of(device) == "nccl"
        self.rank = 0
        self.num_workers = 1
        self.spans_hosts = False  #: some workers are on other hosts than this one
        self.next: NextGroup | None = None  #: of the newest order, unless that is to leave
        self._link = link
        self._heartbeat = Heartbeat() if link is None else link.heartbeat
        self._present: NextGroup | None = None  # the one that was entered
        self._sockets = PeerSockets()  # of the present group
        self._cut_generations: set[int] = set()  # by the agent's word, which may come before the order
        self._leaving: threading.Thread | None = None  # the latest group that was left
        atexit.register(self._await_leaving)
        if link is not None:
            link.abort, link.note_order = self.abort, self.follow

    # ------------------------------------------------------------ in the thread of the line to the agent
    def follow(self, order: Order) -> None:
        """Begin to form the group of this order, in place of the one before. The present group stays."""
        assert self._link is not None  # noqa: S101 - it calls this
        known = {group.generation for group in (self.next, self._present) if group is not None}
        if isinstance(order, messages.Regroup) and order.generation in known:
            return  # the same order again
        self.give_up_next()
        if isinstance(order, messages.Regroup):  # no older one follows
            self._cut_generations = {one for one in self._cut_generations if one >= order.generation}
        if isinstance(order, messages.Regroup) and order.rank is not None:
            self.next = NextGroup(self.device, self._link, order, self._positions)
            if order.generation in self._cut_generations:
                self.next.cut()
            else:
                self.next.begin()

    def abort(self, generation: int) -> None:
        """Make the collectives of this generation's group raise. One that forms yet does not form."""
        assert self._link is not None  # noqa: S101 - it calls this
        with self._link.news:
            self._cut_generations.add(generation)
            groups = (self.next, self._present)
        for group in groups:
            if group is not None and group.generation == generation:
                group.cut()

    def give_up_next(self) -> None:
        """The next group is not needed."""
        if self._link is not None:
            with self._link.news:
                given_up, self.next = self.next, None
            if given_up is not None:
                given_up.give_up()

    # ------------------------------------------------------------ in the main thread
    def form(self, regroup: messages.Regroup, card: bytes = b"") -> list[bytes]:
        """Leave the present group for the next one, which is formed by now or waited for.

        Returns what each member has brought as its `card`, by rank.

        Raises:
            FormFailed: it did not form, and the agent knows. The present group has not been left.
            Superseded: a newer order came first. The present group has not been left.
            GroupBroken: a member is gone.
        """
        entered, former = self._enter(regroup)
        self._leave(former)
        self.rank, self.num_workers = entered.rank, entered.num_workers
        self.spans_hosts = regroup.local_world_size < regroup.num_workers
        os.environ[environ.RESTART_COUNT] = str(regroup.generation - 1)
        if self._positions.num == 1:
            make_default(entered.process_group, entered.store, self.device)
            _name_in_environment(regroup, entered.address)
        try:
            with self._heartbeat.waiting("peers"):
                cards = entered.swap_cards(card)
        except RuntimeError as error:  # DistStoreError
            raise GroupBroken(self._told(error)) from error
        self.check()
        return cards

    def _enter(self, regroup: messages.Regroup) -> tuple[NextGroup, NextGroup | None]:
        """The group that is the present one from here on, and the one that was."""
        assert self._link is not None  # noqa: S101 - orders come over it
        with self._heartbeat.waiting("peers"), self._link.news:
            entered, former = self.next, self._present
            if entered is None or entered.generation != regroup.generation:
                raise Superseded
            entered.enter()
            self.next, self._present, self._sockets = None, entered, entered.sockets
        return entered, former

    def check(self) -> None:
        """Raise GroupBroken if the agent broke the group off.

        A worker that is alone comes to no collective in which it would notice.
        """
        if self._sockets.is_cut:
            raise GroupBroken(BROKEN_OFF)

    def sum_all(self, tensor: torch.Tensor) -> None:
        """Sum over the workers, in place. Raises GroupBroken."""
        if self.num_workers > 1:
            self.run(lambda: await_all([self.begin_sum(tensor)]))
        else:
            self.check()

    def begin_sum(self, tensor: torch.Tensor) -> dist.Work | OneSum:
        """Begin to sum over the workers, in place; `await_all` within `run` waits. Raises RuntimeError."""
        if self._present is not None and self._present.hierarchy is not None:
            return self._present.hierarchy.begin(tensor)
        work: dist.Work = self.process_group.allreduce([tensor], _SUM)
        return work

    @property
    def process_group(self) -> Any:
        """What sends and receives, by ranks of this group."""
        return dist.group.WORLD if self._present is None else self._present.process_group

    def gather(self, number: int) -> list[int]:
        """Every worker's number, by rank. Raises GroupBroken."""
        numbers = torch.zeros(self.num_workers, dtype=torch.int64, device=self.device)
        numbers[self.rank] = number
        self.sum_all(numbers)
        return [int(each) for each in numbers.tolist()]

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """What each worker has brought, by rank. Raises GroupBroken."""
        return gather_bytes(content, self.rank, self.num_workers, self.sum_all, self.device)

    def tell_all(self, number: int | None) -> int | None:
        """Rank 0's number, >= 0, on every worker; all have come here when it returns. Raises GroupBroken."""
        told = self.gather(0 if number is None or self.rank != 0 else number + 1)[0]
        return told - 1 if told else None

    def together(self, do: Callable[[], T]) -> T:
        """Do something with other workers that fails in all processes of this one, or in none.

        Raises:
            GroupBroken: it failed in another process.
            Exception: what it raised here. The group is left.
        """
        try:
            done = do()
        except Exception:
            self.break_off()  # so that no peer waits for it at this position
            self._positions.all(False)
            raise
        if not self._positions.all(True):
            raise GroupBroken(BROKEN_ELSEWHERE)
        return done

    def close(self) -> None:
        """Leave, if in a group, and wait for no other."""
        former, self._present, self._sockets = self._present, None, PeerSockets()
        self._leave(former)

    def break_off(self) -> None:
        """Leave so that peers that wait for this worker in a collective fail at once."""
        self._sockets.part()
        self.close()

    def _leave(self, former: NextGroup | None) -> None:
        if self._positions.num == 1:
            groups = forget_all()
        else:  # torch knows of this group nothing that could be forgotten
            groups = [] if former is None else [former.process_group]
        if former is not None and former.hierarchy is not None:
            groups += former.hierarchy.groups
        if groups:
            # gloo waits 10 ms, several times, for threads of its own to see that a connection is closed; and
            # for ever, if it has not noticed that a peer left a sum. The end of the process waits for the
            # first, as a thread that the interpreter ends within gloo would abort it, and not for the second.
            self._leaving = threading.Thread(
                target=_let_go, args=(groups, former), name="swell-leave", daemon=True
            )
            self._leaving.start()

    def _await_leaving(self) -> None:
        if self._leaving is not None:
            self._leaving.join(LEAVE_WITHIN_S)

    def run(self, collective: Callable[[], object]) -> None:
        """Do something that all members do together. Raises GroupBroken if that fails."""
        if self._is_nccl:  # an error in what the script has begun there is its own
            self._await_device()
        before = self._heartbeat.turn_to("peers")
        try:
            collective()
            if self._is_nccl:  # it only begins it: what is waited for, or aborted, is its end
                self._await_device()
        except RuntimeError as error:  # includes DistBackendError
            if is_out_of_memory(error):
                raise
            raise GroupBroken(self._told(error)) from error
        finally:
            self._heartbeat.turn_to(before)
        self.check()  # an aborted NCCL collective ends without a word, and without a result

    def _await_device(self) -> None:
        torch.cuda.current_stream(self.device).synchronize()

    def _told(self, error: Exception) -> str:
        return BROKEN_OFF if self._sockets.is_cut else str(error)


def await_all(works: Iterable[dist.Work | OneSum | None]) -> None:
    """Wait for collectives that were begun together, within `run`. Raises RuntimeError."""
    for work in works:
        if work is not None:
            work.wait()


def _let_go(groups: list[dist.ProcessGroup], former: NextGroup | None) -> None:
    shut_down(groups)
    groups.clear()
    if former is not None:
        former.let_go()


def _name_in_environment(regroup: messages.Regroup, address: str) -> None:
    """What torchrun sets before a script begins is known here only now, and holds until the next change."""
    host, _, port = address.rpartition(":")
    os.environ.update(
        {
            environ.RANK: str(regroup.rank),
            environ.WORLD_SIZE: str(regroup.num_workers),
            environ.LOCAL_RANK: str(regroup.local_rank),
            environ.LOCAL_WORLD_SIZE: str(regroup.local_world_size),
            environ.GROUP_RANK: str(regroup.group_rank),
            environ.MASTER_ADDR: host,
            environ.MASTER_PORT: port,
        }
    )
