"""An agent for tests: real loopback sockets and real worker processes, and orders given by hand.

Time limits here are for tests that fail; nothing waits them out.

With `ends_when_told` a job ends when its test waits for that. The first quarter of its steps it makes as it
likes, and the others while the test waits for one of its workers: each Progress then lets it make a few steps
beyond those told of, and it tells of each step. It makes the last one when the test waits for its end. So a
job of few steps is still training when its test acts, however slow the test's own process is.

`make test-gpu` has all workers train on one GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import msgspec
import psutil
from tests.eventually import PATIENCE_S

from swell.executors.gang.job_context import LocalRank, local_ranks
from swell.executors.local.zygote.client import TORCH_VARIABLES
from swell.wire import environ, messages
from swell.wire.reports import Number

TOKEN = "open sesame"
DEVICE = os.environ.get("TEST_DEVICE", "cpu")
if DEVICE != "cpu":
    os.environ |= TORCH_VARIABLES  # the fork server must not start CUDA
#: Names a file in the environment of a worker: how many steps its job may make.
STEPS_ALLOWED = "TEST_STEPS_ALLOWED"
#: In the environment of a worker: its script computes in float64, where rounding is told from differences.
IN_DOUBLE = "TEST_IN_DOUBLE"
#: That a job may make beyond those that a test which waits has been told of.
STEPS_AHEAD = 2
#: Between two of its steps while a group forms, at first and later.
LEAST_PAUSE_S, MOST_PAUSE_S = 0.02, 2.0
UNLIMITED = 2**62
#: Of a job of which a test says nothing else.
TOTAL_STEPS = 100

if TYPE_CHECKING:
    pass

M = TypeVar("M", bound=messages.Message)

_from_worker = msgspec.json.Decoder(messages.FromWorker)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the fork server must have one thread
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    [
        "torch.distributed",
        "torch._dynamo",
        "swell.train.runtime.runner",
        "swell.train.runtime.trial_run",
        "swell.executors.local.zygote.process",
        "tests.train.fake_agent",
        "tests.train.frozen",
    ]
)


@contextmanager
def preloading(modules: Sequence[str]) -> Iterator[None]:
    """Have processes forked from one that has imported these, too: it takes seconds."""
    server: Any = forkserver._forkserver
    others = server._preload_modules
    server._stop()
    FORKING.set_forkserver_preload([*others, *modules])
    first = FORKING.Process(target=time.time)
    first.start()
    first.join()  # it has imported them
    yield
    server._stop()
    FORKING.set_forkserver_preload(others)


def fork_script(
    entry: object, args: Sequence[str], log: Path, env: dict[str, str], folder: str = ""
) -> ForkServerProcess:
    """A process that runs a script as a worker does, its output in `log`; `folder`: where, unless here."""
    process = FORKING.Process(target=_work, args=(str(entry), tuple(args), str(log), env, folder))
    process.start()
    return process


def _work(entry: str, args: tuple[str, ...], log: str, env: dict[str, str], folder: str) -> None:
    import torch

    from swell.train.runtime.runner import run_entry

    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # for loaders, as in a worker of a real zygote
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ.update(env)
    os.chdir(folder or os.curdir)
    if IN_DOUBLE in env:
        torch.set_default_dtype(torch.float64)
    if STEPS_ALLOWED in env:
        _hold(Path(env[STEPS_ALLOWED]))
    run_entry(entry, args)


def _hold(path: Path) -> None:
    """Let no run of this process make more steps than the file says, and tell the agent of each step."""
    from swell.train.runtime import managed_run
    from swell.train.runtime.run import Run

    def held(check_out: Callable[[Run], Any]) -> Callable[[Run], Any]:
        allowed = 0

        def check(run: Run) -> Any:
            nonlocal allowed
            while run.steps >= allowed and run.steps >= (allowed := int(path.read_text())):
                time.sleep(0.005)
            return check_out(run)

        return check

    patch.object(managed_run, "PROGRESS_INTERVAL_S", 0.0).start()
    patch.object(Run, "_check_out", held(Run._check_out)).start()  # with which `run.backward` begins


class FakeAgent:
    """Knows its workers by number; keeps what they say, in order."""

    def __init__(self, folder: Path, *, ends_when_told: bool = False, **fields: Any) -> None:
        """
        Args:
            ends_when_told: see above.
            fields: of its Welcome.
        """
        folder.mkdir()
        self.folder = folder
        self._steps_told = 0
        self._last_step = fields.get("total_steps", TOTAL_STEPS) or UNLIMITED  # a trial run has none
        self._steps_allowed: int | None = fields["total_steps"] // 4 if ends_when_told else None
        self.checkpoint_dir = Path(fields.setdefault("checkpoint_dir", str(folder / "checkpoints")))
        known: dict[str, Any] = {
            "mode": "train",
            "device": DEVICE,
            "global_batch": 6,
            "total_steps": TOTAL_STEPS,
            "seed": 0,
        }
        self.welcome = messages.Welcome(**(known | fields))
        self.may_drift = False  #: its workers' replicas
        self.spans_hosts = False  #: workers of odd numbers are on another host
        self.observes = False  #: scripts that know nothing of Swell, which get no Welcome
        self._votes: dict[int, int] = {}  # of these, steps that they had made when they were to stop
        self.paces_per_s: dict[int, float] = {}  #: of workers on slower or faster devices than the others
        self.environ: dict[str, str] = {}  #: what its workers are told besides
        self.said: list[tuple[int, messages.Message]] = []
        self.processes: dict[int, ForkServerProcess] = {}
        self._news = threading.Condition()
        self._lines: dict[int, socket.socket] = {}
        self._generation = 0
        self._members: list[int] = []
        self._held: dict[socket.socket, bytes] | None = None  #: to be sent at once
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    # ---------------------------------------------------------------- what a test does
    def start(self, worker: int, entry: object, *args: str, token: str = TOKEN) -> ForkServerProcess:
        names = {environ.AGENT: self.address, environ.TOKEN: token, environ.WORKER: str(worker)}
        names |= self.environ
        if self._steps_allowed is not None:
            self._write_allowance()
            names[STEPS_ALLOWED] = str(self._allowance)
        self.processes[worker] = fork_script(entry, args, self.log(worker), names)
        return self.processes[worker]

    def start_ready(self, workers: Sequence[int], entry: object, *args: str) -> None:
        for worker in workers:
            self.start(worker, entry, *args)
        for worker in workers:
            self.wait(worker, messages.Ready)

    def regroup(
        self,
        members: Sequence[int],
        source: int | None,
        batch: int | None = None,
        told_steps: int | None = None,
    ) -> int:
        """Order a new generation of these workers; former members that are not among them leave."""
        with self._news:
            self._generation += 1
            leaving = [worker for worker in self._members if worker not in members and worker in self._lines]
            self._members = list(members)
        hosts = [worker % 2 if self.spans_hosts else 0 for worker in members]
        places = dict(zip(members, local_ranks(list(map(str, hosts))), strict=True))
        for worker in (*members, *leaving):
            if worker not in self._lines:
                continue  # a member that died meanwhile: the others wait for it
            place = places.get(worker, LocalRank())
            self.tell(
                worker,
                messages.Regroup(
                    generation=self._generation,
                    rank=members.index(worker) if worker in members else None,
                    num_workers=len(members),
                    global_batch=batch,
                    source=None if source is None else members.index(source),
                    local_rank=place.local_rank,
                    local_world_size=place.local_world_size,
                    group_rank=place.group_rank,
                    num_hosts=len({*hosts}),
                    told_steps=told_steps,
                ),
            )
        return self._generation

    def join(self, members: Sequence[int], source: int | None, batch: int | None = None) -> int:
        """`regroup`, and wait until all are in; returns the steps that they agree on."""
        generation = self.regroup(members, source, batch)
        joined = [
            self.wait(worker, messages.Joined, lambda m: m.generation == generation) for worker in members
        ]
        assert len({message.steps for message in joined}) == 1
        return joined[0].steps

    def suspend(self) -> None:
        for worker in self._members:
            self.tell(worker, messages.Suspend(generation=self._generation))

    def tell(self, worker: int, message: messages.Message) -> None:
        with self._news:
            line = self._lines[worker]
        text = msgspec.json.encode(message) + b"\n"
        if self._held is None:
            self._send(line, text)
        else:
            self._held[line] = self._held.get(line, b"") + text

    @contextmanager
    def together(self) -> Iterator[None]:
        """Each worker gets all that it is told within this at once."""
        self._held = {}
        yield
        held, self._held = self._held, None
        for line, text in held.items():
            self._send(line, text)

    def _send(self, line: socket.socket, text: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # a worker that is gone hears nothing
            line.sendall(text)

    def wait(self, worker: int, kind: type[M], accept: Callable[[M], bool] = lambda message: True) -> M:
        """The first message of this kind from this worker that is accepted, past or future."""

        def found() -> M | None:
            matching = (
                said for by, said in self.said if by == worker and isinstance(said, kind) and accept(said)
            )
            return next(matching, None)

        with self._news:
            if kind is messages.Finished:
                self._allow(UNLIMITED)
            trains, forms = kind is not messages.Ready, kind is messages.Joined
            is_said = self._wait_for(lambda: found() or self._has_failed(worker, kind), trains, forms)
            if not is_said or not found():
                raise AssertionError(
                    f"worker {worker} never said {kind.__name__}: {self._story()}\n{self.logs()}"
                )
            message = found()
        assert message is not None
        return message

    def _wait_for(self, is_so: Callable[[], object], trains: bool = True, forms: bool = False) -> object:
        """Until the limit; the job may go on training meanwhile, unless that is not what is waited for.

        While a group forms the steps become fewer and fewer: it may take long, and a test wants to see steps
        of that group.
        """
        limit_s, step_at_s, pause_s = time.monotonic() + PATIENCE_S, 0.0, LEAST_PAUSE_S
        while not (answer := is_so()) and (now_s := time.monotonic()) < limit_s:
            if trains and (not forms or now_s >= step_at_s):
                self._allow(min(self._steps_told + (1 if forms else STEPS_AHEAD), self._last_step - 1))
                step_at_s, pause_s = now_s + pause_s, min(2 * pause_s, MOST_PAUSE_S)
            self._news.wait(max(step_at_s - now_s, 0.001) if forms else 1.0)
        return answer

    @property
    def _allowance(self) -> Path:
        return self.folder / "steps-allowed"

    def _allow(self, num_steps: int) -> None:
        """So many from the first step on, if it is for this agent to say and no fewer than before."""
        if self._steps_allowed is not None and num_steps > self._steps_allowed:
            self._steps_allowed = num_steps
            self._write_allowance()

    def _write_allowance(self) -> None:
        draft = self.folder / "draft"
        draft.write_text(str(self._steps_allowed))
        draft.rename(self._allowance)

    def let_end(self) -> None:
        """The job makes all its steps from now on."""
        with self._news:
            self._allow(UNLIMITED)

    def wait_steps(self, worker: int, steps: int) -> messages.Progress:
        return self.wait(worker, messages.Progress, lambda message: message.steps >= steps)

    def all_said(self, kind: type[M]) -> list[tuple[int, M]]:
        with self._news:
            return [(worker, said) for worker, said in self.said if isinstance(said, kind)]

    def metrics_told(self) -> dict[str, Number]:
        """The latest value of each name that a worker has told."""
        told: dict[str, Number] = {}
        with self._news:
            for _, said in self.said:
                if isinstance(said, messages.Progress):
                    told |= said.metrics
                elif isinstance(said, messages.Reported):
                    told |= said.values
        return told

    def exit_status(self, worker: int) -> int | None:
        """Waits for the end of a worker, and until its last words are heard."""
        if not any(isinstance(said, messages.Left) for by, said in self.said if by == worker):
            self._allow(UNLIMITED)
        process = self.processes[worker]
        process.join(PATIENCE_S)
        with self._news:
            self._news.wait_for(lambda: worker not in self._lines, PATIENCE_S)
        return process.exitcode

    def ends_or_breaks(self, worker: int, generation: int) -> bool:
        """Whether this worker ends; else its group of this generation broke, and it waits for another."""

        def is_broken() -> bool:
            return any(
                isinstance(said, messages.Broken | messages.JoinFailed) and said.generation == generation
                for by, said in self.said
                if by == worker
            )

        with self._news:
            assert self._wait_for(lambda: worker not in self._lines or is_broken()), self._story()
            return not is_broken()

    def kill(self, worker: int) -> None:
        pid = self.processes[worker].pid
        assert pid is not None
        loaders = psutil.Process(pid).children(recursive=True)  # they hold the line, too
        for process in (psutil.Process(pid), *loaders):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        with self._news:
            assert self._news.wait_for(lambda: worker not in self._lines, PATIENCE_S)

    def log(self, worker: int) -> Path:
        return self.folder / f"worker-{worker}.log"

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def hang_up(self) -> None:
        """As if the agent died."""
        self._listener.close()
        with self._news:
            for line in self._lines.values():
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()
            process.close()  # its two pipes: a few hundred tests would keep a thousand of them open
        self._listener.close()

    # ---------------------------------------------------------------- sockets
    def _story(self) -> str:
        heard = (f"{worker}: {said}" for worker, said in self.said if not isinstance(said, messages.Alive))
        return "\n".join(heard)

    def _has_failed(self, worker: int, kind: type[messages.Message]) -> bool:
        return any(by == worker and isinstance(said, messages.Failed) for by, said in self.said) and (
            kind is not messages.Failed
        )

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            threading.Thread(target=self._listen, args=(line,), daemon=True).start()

    def _listen(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as stream:
            hello = _from_worker.decode(stream.readline())
            if not isinstance(hello, messages.Hello) or hello.token != TOKEN:
                return
            with self._news:
                self._lines[hello.worker] = line
            if not self.observes:
                pace_per_s = self.paces_per_s.get(hello.worker, self.welcome.pace_per_s)
                self.tell(hello.worker, msgspec.structs.replace(self.welcome, pace_per_s=pace_per_s))
            try:
                for text in stream:
                    self._hear(hello.worker, _from_worker.decode(text))
            except ConnectionError:
                pass  # a killed worker's line may break rather than close
            self._abort_without(hello.worker)
            with self._news:
                del self._lines[hello.worker]
                self._news.notify_all()

    def _abort_without(self, gone: int) -> None:
        """As a controller does: a worker that waits for another one does not notice that a third has died."""
        with self._news:
            generation = self._generation
            survivors = [other for other in self._members if other != gone and other in self._lines]
            has_ended = any(
                by == gone and isinstance(said, messages.Finished | messages.Left) for by, said in self.said
            )
            if gone not in self._members or has_ended:
                return
        for worker in survivors:
            with suppress(OSError, KeyError):  # it is gone, too
                self.tell(worker, messages.Abort(generation=generation))

    def _hear(self, worker: int, message: messages.FromWorker) -> None:
        others: list[int] = []
        if isinstance(message, messages.StopVote):
            self._votes.setdefault(worker, message.num_steps)
            have_all = self._votes.keys() >= self.processes.keys()
            self.tell(worker, messages.StopVoteResult(most=max(self._votes.values()) if have_all else None))
        with self._news:
            self.said.append((worker, message))
            if isinstance(message, messages.Progress | messages.Joined | messages.Broken):
                self._steps_told = max(self._steps_told, message.steps)
            self._news.notify_all()
            if isinstance(message, messages.Bound) and message.generation == self._generation:
                others = [member for member in self._members if member != worker and member in self._lines]
        for other in others:
            self.tell(other, messages.StoreAddress(generation=message.generation, address=message.address))  # type: ignore[union-attr]


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that sends no message."""
    limit_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit_s
        time.sleep(0.01)
