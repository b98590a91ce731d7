"""The process group of one generation: form it, sum over it, leave it."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import distributed_c10d

from swell.train.collective.interfaces import LOOPBACK, choose_interface, own_address
from swell.train.collective.memory_errors import is_out_of_memory
from swell.train.collective.part_times import PartTimes
from swell.train.collective.peer_sockets import PeerSockets
from swell.train.collective.stores import FORM_TIMEOUT_S, connect_store, serve_store
from swell.train.link.agent_link import Link
from swell.train.link.heartbeat import Heartbeat
from swell.wire import environ, messages

#: A hung peer is the agent's to notice, by its heartbeat; a slow one must not be taken for hung.
TRAIN_TIMEOUT_S = 1800.0
POLL_S = 0.002
#: A sum that takes longer may wait for a peer that has left.
LOOK_EVERY = timedelta(seconds=1)
#: For gloo to let go of a group at the end of the process.
LEAVE_WITHIN_S = 1.0
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
FORSAKEN = "the script left a step whose sums had begun"
#: Of the group there is. Torch below 2.14 has it under another name only, of which later ones warn.
_set_timeout = getattr(dist, "set_timeout", None) or distributed_c10d._set_pg_timeout


class GroupBroken(Exception):
    """A collective failed: a peer is gone."""


class FormFailed(Exception):
    """The group of a generation did not come together."""


class OwnGroupError(RuntimeError):
    """The script forms a group of its own."""

    def __init__(self) -> None:
        super().__init__(
            "the script called torch.distributed.init_process_group itself; under Swell the group changes "
            "while the script runs and elastic() forms it: remove the call, or submit the script with "
            "`elasticity: restart`"
        )


def check_no_group() -> None:
    """Raises OwnGroupError."""
    if dist.is_initialized():
        raise OwnGroupError


def comes_of_own_group(frames: TracebackType | None) -> bool:
    """Whether an error comes out of the script's call of init_process_group."""
    while frames is not None:
        code = frames.tb_frame.f_code
        if code.co_filename == __file__:
            return False
        if code.co_name == dist.init_process_group.__name__ and code.co_filename == distributed_c10d.__file__:
            return True
        frames = frames.tb_next
    return False


def backend_of(device: torch.device) -> str:
    return "nccl" if device.type == "cuda" else "gloo"


class Group:
    """Membership of this process in the group of one generation, at most one at a time."""

    def __init__(
        self, device: torch.device, heartbeat: Heartbeat | None = None, laps: PartTimes | None = None
    ) -> None:
        """`heartbeat` is told of waiting, `laps` of what forming a group takes."""
        self.device = device
        self._is_nccl = backend_of(device) == "nccl"
        self.rank = 0
        self.num_workers = 1
        self.num_hosts = 1
        self._heartbeat = heartbeat or Heartbeat()
        self._laps = laps or PartTimes()
        self._tether = PeerSockets()
        self._store: Store | None = None  # rank 0's serves the others: it must live as long as they form
        self._begun: list[dist.Work] = []  # and not ended
        self._leaving: threading.Thread | None = None  # the latest group that was left
        atexit.register(self._await_leaving)
        self._failure: Exception | None = None  # of what could not even begin
        self._is_forsaken = False

    def form(self, link: Link, regroup: messages.Regroup, rank: int, card: bytes = b"") -> list[bytes]:
        """Leave the old group, meet the members of the new one, and be in it.

        Returns what each member has brought as its `card`, by rank.

        Raises:
            FormFailed: somebody did not come, or died while it formed.
            Superseded: a newer order came first.
        """
        self.close()
        self._laps.note("close")
        for name, value in NCCL_VARIABLES.items() if self._is_nccl else ():
            os.environ.setdefault(name, value)
        self._tether.begin(regroup.generation)
        if self._tether.is_cut:
            raise FormFailed(BROKEN_OFF)
        try:
            choose_interface(own_address())
            with self._heartbeat.waiting("peers"):
                store, address = self._meet(link, regroup, rank, card)
                cards = _cards(store, range(regroup.num_workers))
                self._laps.note("meet")
                self._connect_all(store, rank, regroup.num_workers)
        except (RuntimeError, OSError) as error:  # includes DistBackendError, DistStoreError, NoInterface
            raise FormFailed(self._told(error) + _advice(regroup)) from error
        self._laps.note("connect")
        self.rank, self.num_workers, self.num_hosts = rank, regroup.num_workers, regroup.num_hosts
        _name_in_environment(regroup, address)
        return cards

    def _connect_all(self, store: Store, rank: int, num_workers: int) -> None:
        # NCCL waits without a limit for a peer to connect
        with self._tether.connecting(ends_listening=self._is_nccl):
            dist.init_process_group(
                backend_of(self.device),
                store=store,
                rank=rank,
                world_size=num_workers,
                timeout=timedelta(seconds=FORM_TIMEOUT_S),
                # NCCL connects now, not at the first sum, where its sockets would not be known as the group's
                device_id=self.device if self._is_nccl else None,
            )
        world = dist.group.WORLD
        assert world is not None  # noqa: S101 - it has just been made
        self._tether.tie(world if self._is_nccl else None)  # gloo's fails with its connections

    def abort(self, generation: int) -> None:
        """Make the collectives of this generation's group raise, also one that is under way.

        To be called from another thread.
        """
        self._tether.cut(generation)

    def check(self) -> None:
        """Raise GroupBroken if the agent broke the group off.

        A worker that is alone comes to no collective in which it would notice.
        """
        if self._tether.is_cut:
            raise GroupBroken(BROKEN_OFF)

    def sum_all(self, tensor: torch.Tensor) -> None:
        """Sum over the workers, in place. Raises GroupBroken."""
        if self.num_workers > 1:
            self.run(lambda: dist.all_reduce(tensor))
        else:
            self.check()

    def begin_sum(self, tensor: torch.Tensor) -> None:
        """Begin to sum over the workers, in place. What fails is told by `end_sums`."""
        if self._is_forsaken or self._failure is not None:
            return
        try:
            work = dist.all_reduce(tensor, async_op=True)
            assert work is not None  # noqa: S101 - this process is a member
            self._begun.append(work)
        except RuntimeError as error:
            self._failure = error

    def end_sums(self) -> None:
        """Wait for all that was begun. Raises GroupBroken."""
        self.run(self._await_begun)

    def forsake(self) -> None:
        """What was begun is not ended: the next collective raises GroupBroken, then those of the peers."""
        self._is_forsaken = True

    def _await_begun(self) -> None:
        if self._failure is not None:
            raise self._failure
        for work in self._begun:
            self._await(work)
        self._begun.clear()

    def await_all(self, works: Iterable[dist.Work | None]) -> None:
        """Wait for collectives that were begun together, within `run`. Raises RuntimeError."""
        for work in works:
            if work is not None:
                self._await(work)

    def _await(self, work: dist.Work) -> None:
        """Wait for one sum. Raises RuntimeError if it fails, or a peer has left.

        With several sums under way gloo may not notice that a peer has left, and would wait for it. With NCCL
        a limit of this wait would end the group, so none is given; `run` waits for the device.
        """
        if self._is_nccl:
            work.wait()
            return
        num_torn = 0
        while True:
            try:
                work.wait(LOOK_EVERY)
                return
            except RuntimeError:
                if work.is_completed():
                    raise
            # What came before a peer left may still be read: that takes no second
            num_torn = num_torn + 1 if self._tether.is_torn else 0
            if num_torn == 2:
                raise RuntimeError("a peer has left the group with a sum under way")

    def gather(self, number: int) -> list[int]:
        """Every worker's number, by rank. Raises GroupBroken."""
        numbers = torch.zeros(self.num_workers, dtype=torch.int64, device=self.device)
        numbers[self.rank] = number
        self.sum_all(numbers)
        return [int(each) for each in numbers.tolist()]

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """What each worker has brought, by rank. Raises GroupBroken."""
        sizes = self.gather(len(content))
        room = torch.zeros(self.num_workers, max(sizes), dtype=torch.uint8)
        if content:
            room[self.rank, : len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        room = room.to(self.device)
        self.sum_all(room)
        return [row[:size].numpy().tobytes() for row, size in zip(room.cpu(), sizes, strict=True)]

    def tell_all(self, number: int | None) -> int | None:
        """Rank 0's number, >= 0, on every worker; all have come here when it returns. Raises GroupBroken."""
        told = self.gather(0 if number is None or self.rank != 0 else number + 1)[0]
        return told - 1 if told else None

    def outlast_training(self) -> None:
        """Set the group's timeout to `TRAIN_TIMEOUT_S`: from here on a slow peer is waited for."""
        _set_timeout(timedelta(seconds=TRAIN_TIMEOUT_S))

    def close(self) -> None:
        """Leave, if in a group, and wait for no other."""
        if not all(work.is_completed() for work in self._begun):
            self._tether.part()  # the group is gone only once all has ended that was begun
        self._begun, self._failure, self._is_forsaken = [], None, False
        left: list[object] = [self._store]
        self._store = None
        if dist.is_initialized():
            left.append(dist.group.WORLD)
            self._destroy()
            # gloo waits 10 ms, several times, for threads of its own to see that a connection is closed; and
            # for ever, if it has not noticed that a peer left a sum. The end of the process waits for the
            # first, as a thread that the interpreter ends within gloo would abort it, and not for the second.
            self._leaving = threading.Thread(target=left.clear, name="swell-leave", daemon=True)
            self._leaving.start()
        self._tether.release()
        # Members find each other under names that count the groups of a process. A group that failed to form
        # has been counted, but not by those who failed earlier: they would wait under different names.
        distributed_c10d._world.group_count = 0

    def _destroy(self) -> None:
        try:
            dist.destroy_process_group()
        except RuntimeError:  # NCCL says here, too, that a peer was gone
            self._tether.part()
            dist.destroy_process_group()

    def _await_leaving(self) -> None:
        if self._leaving is not None:
            self._leaving.join(LEAVE_WITHIN_S)

    def break_off(self) -> None:
        """Leave so that peers that wait for this worker in a collective fail at once."""
        self._tether.part()
        self.close()

    def _meet(self, link: Link, regroup: messages.Regroup, rank: int, card: bytes) -> tuple[Store, str]:
        """Wait until all members are at the store, so that forming the group is short and certain.

        Members come at their next step boundary, after an evaluation perhaps: the agent ends the wait.
        Returns the room of this generation in it, and the address of the store.
        """
        if rank == 0:
            with self._tether.connecting():
                store, address = serve_store(own_address())
            link.send(messages.Bound(generation=regroup.generation, address=address))
        else:
            address = link.address(regroup.generation)
            with self._tether.connecting():
                store = connect_store(address)
        self._store = store
        room = PrefixStore(f"generation-{regroup.generation}", store)
        room.set(_card_key(rank), card)  # type: ignore[arg-type]  # bytes come back as they are
        room.add("present", 1)
        while room.add("present", 0) < regroup.num_workers:
            if self._tether.is_cut:
                raise FormFailed(BROKEN_OFF)
            link.pause(POLL_S)
        return room, address

    def run(self, collective: Callable[[], object]) -> None:
        """Do something that all members do together. Raises GroupBroken if that fails."""
        if self._is_forsaken:
            raise GroupBroken(FORSAKEN)
        self.check()
        self._await_device()  # an error in what the script has begun there is its own
        try:
            with self._heartbeat.waiting("peers"):
                collective()
                self._await_device()  # NCCL only begins it: what is waited for, or aborted, is its end
        except RuntimeError as error:  # includes DistBackendError
            if is_out_of_memory(error):
                raise
            raise GroupBroken(self._told(error)) from error
        self.check()  # an aborted NCCL collective ends without a word, and without a result

    def _await_device(self) -> None:
        if self._is_nccl:
            torch.cuda.current_stream(self.device).synchronize()

    def _told(self, error: Exception) -> str:
        return BROKEN_OFF if self._tether.is_cut else str(error)


def _advice(regroup: messages.Regroup) -> str:
    """What may be wrong where workers of several hosts do not find each other; else empty."""
    if regroup.num_hosts == 1 or own_address() != LOOPBACK:
        return ""
    return (
        f"; the group has workers on {regroup.num_hosts} hosts, and one of these is reached at {LOOPBACK} "
        "only: start it with `--advertise ADDRESS`; a job in containers cannot be on several hosts"
    )


def _card_key(rank: int) -> str:
    return f"card-{rank}"


def _cards(room: Store, ranks: Iterable[int]) -> list[bytes]:
    cards: list[bytes] = room.multi_get([_card_key(rank) for rank in ranks])
    return cards


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
            environ.RESTART_COUNT: str(regroup.generation - 1),
        }
    )
