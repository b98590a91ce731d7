"""A head and joined hosts that exchange files: messages and disks take their turns as a test wants.

Each has a state folder of its own. Messages of one host arrive in order, as over a stream; which comes next,
and which piece of work on a disk is done next, is drawn.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from tests.executors.puppets import make_spec

from swell.executors.gang.gang_settings import GangSettings
from swell.executors.hosts import messages as h
from swell.executors.hosts.file_messages import FileMessage, FilePart, FilesKept
from swell.executors.local.agent.job_files import JobPlace, Opening, OpeningRefusal, SharedFiles
from swell.executors.local.agent.joined_files import JoinedFiles
from swell.executors.local.files.forwarded_log import ForwardedLog, LogName
from swell.executors.local.files.head_files import HeadFiles
from swell.executors.local.logs.files import job_folder
from swell.model.event import Outcome
from swell.wire.checkpoint_files import checkpoint_name, checkpoints_in, is_whole

T = TypeVar("T")
CODEC = msgspec.json.Decoder(h.ToHost), msgspec.json.Decoder(h.FromHost)
#: Chooses one of so many.
Choose = Callable[[int], int]


class Turns:
    """What is about to happen: queues, of each of which the first may be next."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Callable[[], None]]] = {}
        self._num_works = 0

    def add(self, queue: str, action: Callable[[], None]) -> None:
        self._queues.setdefault(queue, deque()).append(action)

    def empty(self, queue: str) -> None:
        """All of it happens now."""
        for action in self._queues.pop(queue, ()):
            action()

    def drop(self, queue: str) -> None:
        self._queues.pop(queue, None)

    def background(self, work: Callable[[], T], then: Callable[[T], None], of: str = "hosts") -> None:
        """See `Background`: each piece of work is a queue of its own. `of`: whose it is."""
        self._num_works += 1
        self.add(f"work of {of} {self._num_works}", lambda: then(work()))

    def work(self) -> None:
        """Whatever is to be done on disks is done; nothing is heard of what that brings."""
        while works := [name for name in self._queues if name.startswith("work ")]:
            for name in works:
                self.empty(name)

    @property
    def newest_work(self) -> str:
        """What was handed over last."""
        return next(name for name in reversed(self._queues) if name.startswith("work "))

    def drop_work(self, of: str) -> None:
        """It will never be done."""
        for name in [name for name in self._queues if name.startswith(f"work of {of} ")]:
            self.drop(name)

    def take(self, choose: Choose) -> bool:
        """Whether something happened."""
        names = [name for name, queue in self._queues.items() if queue]
        if not names:
            return False
        name = names[choose(len(names))]
        action = self._queues[name].popleft()
        if not self._queues[name]:
            del self._queues[name]
        action()
        return True

    @property
    def num_under_way(self) -> int:
        return sum(map(len, self._queues.values()))


@dataclass
class Answer:
    """What became of `OpenRun`."""

    place: JobPlace | None = None
    refusal: tuple[Outcome, str] | None = None


@dataclass
class HostSide:
    name: str
    state_dir: Path
    files: JoinedFiles
    is_recalled: bool = False  #: the controller believes what it has kept
    warnings: list[h.OwnerWarned] = field(default_factory=list)


class FileWorld:
    def __init__(self, folder: Path, names: str = "ab") -> None:
        self.now_s = 0.0
        self.turns = Turns()
        self.head_dir = folder / "head"
        self._num_heads = 0
        self.head = self._new_head()
        self.hosts: dict[str, HostSide] = {}
        self.own = SharedFiles(self.head_dir, partial(self.head.when_settled, "local"))
        self.told: list[tuple[str, h.ToHost | h.FromHost]] = []
        self.corrupt: Callable[[FilePart], FilePart] = lambda part: part
        for name in names:
            self.join(name, folder / name)

    def _new_head(self) -> HeadFiles:
        self._num_heads += 1
        of = f"head {self._num_heads}"
        return HeadFiles(self.head_dir, GangSettings(), partial(self.turns.background, of=of))

    def submit(self, job_id: str) -> Path:
        folder = job_folder(self.head_dir, job_id)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def note_open(self, host: str, job_id: str, is_trial: bool = False) -> str:
        """The host is told to open a run of this job, as far as the head's files are concerned."""
        run = f"trial:{job_id}" if is_trial else job_id
        order = h.OpenRun(run=run, job_id=job_id, spec=make_spec(), is_trial=is_trial)
        self.head.note_told(host, order)
        return run

    def note_started(self, host: str, log: LogName) -> None:
        """Likewise of a worker."""
        run = self.note_open(host, log.job_id, log.is_trial)
        self.head.note_told(host, h.StartWorker(run=run, worker=log.worker, devices=(), environ={}))

    def join(self, name: str, state_dir: Path, left_logs: Iterable[ForwardedLog] = ()) -> HostSide:
        def answer(message: h.FromHost) -> None:
            self.told.append((name, message))
            if isinstance(message, h.OwnerWarned):
                side.warnings.append(message)
            elif self.hosts.get(name) is side:
                self.turns.add(f"from {name}", lambda: self._to_head(side, message))

        files = JoinedFiles(state_dir, name, answer, lambda: self.now_s, self.turns.background, left_logs)
        self.hosts[name] = side = HostSide(name, state_dir, files)
        self._join_head(side)
        return side

    def _join_head(self, side: HostSide) -> None:
        def tell(message: h.ToHost) -> None:
            self.told.append((side.name, message))
            self.turns.add(f"to {side.name}", lambda: self._to_host(side, message))

        self.head.join(side.name, str(side.state_dir), tell)

    def lose(self, name: str) -> None:
        """With what is on its way from there, and to it."""
        self.hosts.pop(name).files.close()
        self.turns.drop(f"from {name}")
        self.turns.drop(f"to {name}")
        self.head.lose(name)

    def replace_controller(self) -> None:
        """What is on its way there, and from there, is lost, and so is what it was about to write."""
        self.turns.drop_work(f"head {self._num_heads}")
        self.head = self._new_head()
        self.own = SharedFiles(self.head_dir, partial(self.head.when_settled, "local"))
        for name, side in self.hosts.items():
            self.turns.drop(f"from {name}")
            self.turns.drop(f"to {name}")
            self._join_head(side)
            side.is_recalled = True
            side.files.controller_replaced()

    def begin_term(self, name: str) -> None:
        """The lease of the host has ended, and its workers with it; it has another one now."""
        former = self.hosts.pop(name)
        self.turns.drop(f"from {name}")
        self.turns.drop(f"to {name}")
        self.head.lose(name)
        side = self.join(name, former.state_dir, former.files.close())
        side.is_recalled = former.is_recalled
        side.files.begin()
        self.turns.empty(self.turns.newest_work)  # a lease takes longer than that
        side.files.controller_replaced()

    def _to_head(self, side: HostSide, message: h.FromHost) -> None:
        message = CODEC[1].decode(msgspec.json.encode(message))
        assert isinstance(message, FileMessage)
        if isinstance(message, FilesKept) and not side.is_recalled:
            return  # the door does not believe it
        side.is_recalled = side.is_recalled and not isinstance(message, FilesKept)
        if self.hosts.get(side.name) is side:
            self.head.hear(side.name, self._on_wire(message))

    def _to_host(self, side: HostSide, message: h.ToHost) -> None:
        message = CODEC[0].decode(msgspec.json.encode(message))
        assert isinstance(message, FileMessage)
        if self.hosts.get(side.name) is side:
            side.files.hear(self._on_wire(message))

    def _on_wire(self, message: FileMessage) -> FileMessage:
        return self.corrupt(message) if isinstance(message, FilePart) else message

    # ------------------------------------------------------------ what happens
    def open(self, host: str, order: h.OpenRun) -> Answer:
        """`local`: the head's own machine."""
        answer = Answer()

        def ready(place: JobPlace) -> None:
            assert answer == Answer()
            answer.place = place

        def refuse(refusal: OpeningRefusal) -> None:
            assert answer == Answer()
            answer.refusal = refusal.outcome, refusal.why

        if host == "local":
            self.own.open(order, Opening(ready, refuse))
        else:
            self.head.note_told(host, order)
            self.hosts[host].files.open(order, Opening(ready, refuse))
        return answer

    def save(self, host: str, job_id: str, steps: int, content: bytes, num_kept: int = 2) -> str:
        """As a worker does: written, older ones removed, told."""
        folder = job_folder(self.hosts[host].state_dir, job_id) / "checkpoints"
        name = write_checkpoint(folder, steps, content)
        for _, path in checkpoints_in(folder)[num_kept:]:
            path.unlink()
        self.note_open(host, job_id)
        self.hosts[host].files.saved(job_id, str(folder / name))
        return name

    def settle(self, choose: Choose = lambda num: 0) -> None:
        """Until nothing more happens by itself."""
        while self.turns.take(choose):
            pass

    def pass_time(self, seconds: float, choose: Choose = lambda num: 0) -> None:
        """Ten ticks a second, and what they bring."""
        for _ in range(round(10 * seconds)):
            self.now_s += 0.1
            for side in list(self.hosts.values()):
                side.files.tick()
            self.settle(choose)


def write_checkpoint(folder: Path, steps: int, content: bytes) -> str:
    """Returns its name."""
    folder.mkdir(parents=True, exist_ok=True)
    name = checkpoint_name(steps, steps, hashlib.sha256(content).hexdigest())
    (folder / name).write_bytes(content)
    return name


def held(state_dir: Path, job_id: str) -> list[str]:
    """Names of a job's checkpoints, newest first. They are whole, and there is nothing else."""
    folder = job_folder(state_dir, job_id) / "checkpoints"
    found = checkpoints_in(folder)
    assert all(is_whole(path, digest) for digest, path in found)
    return [path.name for _, path in found]


def leftovers(state_dir: Path) -> list[Path]:
    """Drafts that were not removed."""
    return list(state_dir.rglob(".draft-*"))
