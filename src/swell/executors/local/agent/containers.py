"""The containers of an agent: one for each worker of a job that names an image."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.executors.exit_status import NOT_STARTED, UNFIT
from swell.executors.local.agent.run import HostedRun
from swell.executors.local.containers import bootstrap, command
from swell.executors.local.containers.engine import (
    ContainerChoice,
    ContainerEngine,
    EngineDown,
    find_engine,
)
from swell.executors.local.limits.control_groups import platform_group
from swell.executors.local.logs.files import TRIAL, read_tail
from swell.executors.local.zygote.messages import Fork
from swell.wire import environ

#: Exit statuses of `run` where there was no worker. What is above `SIGNALLED` is a signal.
NO_WORKER = {
    125: "its container could not be started",
    126: "its image has no python3 that can be run",
    127: "its image has no python3 that can be run",
    bootstrap.UNUSABLE: "its image cannot be used",
}
ENGINE_FAILED, SIGNALLED = 125, 128


@dataclass(slots=True)
class _Container:
    """The container of one worker."""

    name: str
    ended: asyncio.Future[tuple[int, str]]  #: status of the engine's program, and the zygote's message
    engine: ContainerEngine | None = None  #: None: it has not been asked for yet
    killed_by: int = 0  #: signal; it will not be asked for


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
        self._engine: ContainerEngine | None = None  #: the first that was found is kept: it has the images
        self._prefix = platform_group(state_dir, os.getpid())
        self._numbers = itertools.count(1)
        self._containers: dict[str, _Container] = {}  #: by worker
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ workers
    def start(self, fork: Fork, run: HostedRun, worker: int, devices: tuple[str, ...]) -> None:
        """Start a worker. `fork`: the request for one outside."""
        name = f"{self._prefix}-{run.job_id}-{next(self._numbers)}"
        container = _Container(name, asyncio.get_running_loop().create_future())
        self._containers[fork.key] = container
        gpus = [gpu for device in devices if (gpu := run.bindings[device].cuda) is not None]
        self._begin(self._live(container, fork, run, worker, gpus))

    async def _live(
        self, container: _Container, fork: Fork, run: HostedRun, worker: int, gpus: list[str]
    ) -> None:
        """Follow a worker from its order to the end of its container."""
        try:
            engine = await asyncio.to_thread(self._find_engine, run.spec.image)
            request = await asyncio.to_thread(self._request, engine, container.name, fork, run, gpus)
        except (ValueError, OSError, EngineDown) as error:
            status, message = UNFIT if isinstance(error, ValueError) else NOT_STARTED, str(error)
        else:
            status, message = -container.killed_by, ""
            if not container.killed_by:
                container.engine = engine
                self._fork(request)
                status, message = await container.ended
                await asyncio.to_thread(engine.remove, container.name)
            if status in NO_WORKER and worker not in run.links:
                tail = await asyncio.to_thread(read_tail, run.log_path(worker))
                message = f"{NO_WORKER[status]}: {tail}"
                status = NOT_STARTED if status == ENGINE_FAILED else UNFIT
            elif status > SIGNALLED:
                status = SIGNALLED - status
        del self._containers[fork.key]
        self._exited(fork.key, status, message)

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
        if container is not None and container.engine is not None:
            self._begin(_find_pid(container.engine, container.name, found))

    def ended(self, key: str, status: int, message: str) -> bool:
        """Whether this worker has a container; then `exited` is told once that is gone."""
        container = self._containers.get(key)
        if container is not None:
            container.ended.set_result((status, message))
        return container is not None

    async def shut_down(self) -> None:
        """No container is left. To be called when the zygote is gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for container in self._containers.values():
            if container.engine is not None:
                await asyncio.to_thread(container.engine.remove, container.name)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ in threads
    def _find_engine(self, image: str) -> ContainerEngine:
        """Raises EngineDown; ValueError: none is to be used, or it has no such image."""
        if self._choice is ContainerChoice.OFF:
            raise ValueError(
                "the job names an image, and this platform runs no containers (`swell up --containers off`)"
            )
        self._engine = self._engine or find_engine(self._choice)
        self._engine.check_image(image)
        return self._engine

    def _request(
        self, engine: ContainerEngine, name: str, fork: Fork, run: HostedRun, gpus: list[str]
    ) -> Fork:
        """The request for the engine's program. Raises ValueError: the job makes it impossible; OSError."""
        output = run.folder / command.OUTPUT_FOLDER
        output.mkdir(mode=0o700, exist_ok=True)
        packages = command.package_mounts()
        mounts = [*command.job_mounts(self._state_dir, run.folder, run.spec), *packages]
        own = {environ.OUTPUT: str(output)}
        if run.kind == TRIAL:
            own = {environ.OUTPUT: "/tmp", environ.TRIAL: "1"}  # noqa: S108
        order = command.package_order(packages) | {
            "environ": fork.environ | own,
            "call": fork.call,
            "entry": fork.entry,
            "args": fork.args,
        }
        return msgspec.structs.replace(
            fork,
            environ={bootstrap.ORDER: msgspec.json.encode(order).decode()},
            workdir="/",
            call=command.CALL,
            entry=engine.program,
            args=tuple(command.run_words(engine, name, run.spec, mounts, fork.workdir, gpus)),
        )


async def _find_pid(engine: ContainerEngine, name: str, found: Callable[[int], None]) -> None:
    pid = await asyncio.to_thread(engine.main_pid, name)
    if pid is not None:
        found(pid)
