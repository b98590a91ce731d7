"""The containers of an agent: one for each worker of a job that names an image."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell import __version__
from swell.executors.exit_status import NOT_STARTED, UNFIT
from swell.executors.local.agent.run import HostedRun
from swell.executors.local.containers import bootstrap, mounts
from swell.executors.local.containers.command import CALL, FIRST_LINE, ContainerOrder
from swell.executors.local.containers.engine import (
    ENGINE_FAILED,
    NO_PROGRAM,
    ContainerChoice,
    ContainerEngine,
    EngineDown,
    find_engine,
)
from swell.executors.local.logs.files import TRIAL, read_tail
from swell.executors.local.zygote.forking import Fork
from swell.wire import environ

PREFIX = "swell-"
#: Exit statuses above it are signals.
SIGNALLED = 128


@dataclass(slots=True)
class _Container:
    """The container of one worker."""

    image: str
    log_path: Path
    name: str
    engine: ContainerEngine | None = None  #: None: it has not been asked for yet
    killed_by: int = 0  #: signal; it will not be asked for
    has_spoken: bool = False


class Containers:
    """The engine's program runs as a worker of the zygote does, and the worker is what it runs.

    Methods that return nothing return at once: the engine is asked in threads.
    """

    def __init__(
        self,
        choice: ContainerChoice,
        state_dir: Path,
        fork: Callable[[Fork], None],
        exited: Callable[[str, int, str], None],
    ) -> None:
        """
        Args:
            fork: has the zygote start the engine's program.
            exited: is told of a worker that could not be started, and of one whose container is gone.
        """
        self._choice, self._state_dir = choice, state_dir
        self._fork, self._exited = fork, exited
        self._digest = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]
        self._numbers = itertools.count(1)
        self._containers: dict[str, _Container] = {}  #: by worker
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ workers
    def start(self, fork: Fork, run: HostedRun, worker: int, devices: tuple[str, ...]) -> None:
        """Start a worker. `fork`: the request for one outside."""
        name = f"{PREFIX}{self._digest}-{os.getpid()}-{run.job_id}-{next(self._numbers)}"
        container = _Container(run.spec.image, run.log_path(worker), name)
        self._containers[fork.key] = container
        gpus = [gpu for device in devices if (gpu := run.bindings[device].cuda) is not None]
        self._begin(self._start(container, fork, run, gpus))

    async def _start(self, container: _Container, fork: Fork, run: HostedRun, gpus: list[str]) -> None:
        status, why = NOT_STARTED, ""
        try:
            engine = await asyncio.to_thread(self.find_engine)
            request = await asyncio.to_thread(self._request, engine, container.name, fork, run, gpus)
        except ValueError as error:
            status, why = UNFIT, f"its container cannot be made: {error}"
        except OSError as error:
            why = f"its container cannot be made: {error}"
        except EngineDown as error:
            why = str(error)
        if why or container.killed_by:
            del self._containers[fork.key]
            self._exited(fork.key, -container.killed_by or status, why)
        else:
            container.engine = engine
            self._fork(request)

    def hold_back(self, key: str, number: int) -> bool:
        """Whether this signal is for a worker that is not started yet, which it then will not be."""
        container = self._containers.get(key)
        if container is None or container.engine is not None:
            return False
        if number in (signal.SIGKILL, signal.SIGTERM):
            container.killed_by = number
        return True

    def spoke(self, key: str, found: Callable[[int], None]) -> None:
        """The worker has called. `found` is told the pid of the container's first process."""
        container = self._containers.get(key)
        if container is None:
            return
        container.has_spoken = True

        async def find() -> None:
            assert container.engine is not None  # noqa: S101 - it was started
            pid = await asyncio.to_thread(container.engine.main_pid, container.name)
            if pid is not None:
                found(pid)

        self._begin(find())

    def ended(self, key: str, status: int, message: str) -> bool:
        """Whether this worker has a container; then `exited` is told once that is gone.

        Args:
            status: of the engine's program.
        """
        container = self._containers.get(key)
        if container is None:
            return False

        async def end() -> None:
            told = await asyncio.to_thread(self._end, container, status, message)
            del self._containers[key]
            self._exited(key, *told)

        self._begin(end())
        return True

    async def shut_down(self) -> None:
        """No container is left. To be called when the zygote is gone."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for container in self._containers.values():
            if container.engine is not None:
                await asyncio.to_thread(container.engine.remove, container.name)

    # ------------------------------------------------------------ a container
    def _request(
        self, engine: ContainerEngine, name: str, fork: Fork, run: HostedRun, gpus: list[str]
    ) -> Fork:
        """The request for the engine's program. Raises ValueError: the job makes it impossible; OSError."""
        (run.folder / mounts.OUTPUT_FOLDER).mkdir(mode=0o700, exist_ok=True)
        packages = mounts.package_mounts()
        order = ContainerOrder(
            name=name,
            image=run.spec.image,
            mounts=(*mounts.job_mounts(self._state_dir, run.folder, run.spec), *packages),
            workdir=fork.workdir,
            gpus=gpus,
            memory_bytes=run.spec.memory_bytes,
            script=mounts.inside(bootstrap.__file__, packages),
        )
        is_trial = run.kind == TRIAL
        output = "/tmp" if is_trial else str(run.folder / mounts.OUTPUT_FOLDER)  # noqa: S108
        told = {
            "environ": fork.environ | {environ.OUTPUT: output} | ({environ.TRIAL: "1"} if is_trial else {}),
            "call": fork.call,
            "entry": fork.entry,
            "args": fork.args,
            "version": __version__,
            "abi": mounts.interpreter_abi(),
            "packages": [mount.target for mount in packages],
        }
        return msgspec.structs.replace(
            fork,
            environ={FIRST_LINE: msgspec.json.encode(told).decode()},
            workdir="/",
            call=CALL,
            entry=engine.program,
            args=tuple(order.words(engine)),
        )

    def _end(self, container: _Container, status: int, message: str) -> tuple[int, str]:
        """How the worker has ended, and why, once its container is gone."""
        assert container.engine is not None  # noqa: S101 - it was started
        container.engine.remove(container.name)
        if not container.has_spoken and status in (ENGINE_FAILED, *NO_PROGRAM, bootstrap.UNUSABLE):
            return self._why_not(container, container.engine, status)
        return (SIGNALLED - status if status > SIGNALLED else status), message

    def _why_not(self, container: _Container, engine: ContainerEngine, status: int) -> tuple[int, str]:
        """Why there was no worker: by checks, and not by the engine's error text."""
        image, told = container.image, read_tail(container.log_path).strip()
        if status == bootstrap.UNUSABLE:
            return UNFIT, f"image {image} cannot be used: {told}"
        if status in NO_PROGRAM:
            return UNFIT, f"image {image} has no python3 that can be run: {told}"
        try:
            self.find_engine()
        except EngineDown as error:
            return NOT_STARTED, str(error)
        if not engine.has_image(image):
            remedy = f"get it with `{engine.name} pull {image}`"
            return UNFIT, f"there is no image {image} on this machine; {remedy}"
        return NOT_STARTED, f"{engine.name} could not start its container: {told}"

    # ------------------------------------------------------------ the engine
    def find_engine(self) -> ContainerEngine:
        """Waits for it, in a thread. The first one that is found is kept: it has the images.

        Raises EngineDown; ValueError: none is to be used.
        """
        if self._choice is ContainerChoice.OFF:
            raise ValueError(
                "the job names an image, and this platform runs no containers (`swell up --containers off`)"
            )
        engine = find_engine(self._choice)
        self._choice = ContainerChoice(engine.name)
        return engine

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
