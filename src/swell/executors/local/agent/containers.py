"""The containers of an agent: one for each worker of a job that names an image."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.executors.exit_status import NOT_STARTED, UNFIT
from swell.executors.local.agent.run_logs import LAST_WORDS_S
from swell.executors.local.containers import bootstrap, command
from swell.executors.local.containers.engine import APPTAINER_FAILED, ContainerEngine
from swell.executors.local.limits.control_groups import platform_group
from swell.executors.local.logs.files import read_tail
from swell.executors.local.zygote.messages import Fork
from swell.model.job import JobSpec
from swell.model.retry import retry_pause_s

#: Exit statuses of the engine's program where there was no worker. What is above `SIGNALLED` is a signal.
NO_WORKER = {
    command.ENGINE_FAILED: "its container could not be started",
    126: "its image has no python3 that can be run",
    127: "its image has no python3 that can be run",
    command.NO_CONTAINER: "it cannot run in a container",
    bootstrap.UNUSABLE: "its image cannot be used",
}
SIGNALLED = 128
#: Between two tries to remove a container.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0

log = logging.getLogger("swell.agent")


@dataclass(slots=True)
class _Container:
    """The container of one worker."""

    engine: ContainerEngine
    name: str
    log: Path
    has_spoken: bool = False  #: there was a worker in it


class ContainerWorkers:
    """The engine's program runs as a worker of the zygote does, and the worker is what it runs.

    Methods that return nothing return at once: the engine is asked in threads.
    """

    def __init__(
        self,
        state_dir: Path,
        fork: Callable[[Fork], None],
        exited: Callable[[str, int, str], None],
    ) -> None:
        """
        Args:
            fork: has the zygote start what becomes the engine's program.
            exited: is told of a worker whose container is gone.
        """
        self._state_dir = state_dir
        self._fork, self._exited = fork, exited
        self._engine: ContainerEngine | None = None  #: the first that was found is kept: it has the images
        self._prefix = platform_group(state_dir, os.getpid())
        self._numbers = itertools.count(1)
        self._containers: dict[str, _Container] = {}  #: by worker
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ workers
    def start(
        self,
        engine: ContainerEngine,
        fork: Fork,
        spec: JobSpec,
        folder: Path,
        gpus: Sequence[str],
        *,
        is_trial: bool,
    ) -> None:
        """Start a worker.

        Args:
            engine: that was found when its run was opened.
            fork: the request for one outside.
            folder: of the job.
        """
        engine = self._engine = self._engine or engine
        name = f"{self._prefix}-{folder.name}-{next(self._numbers)}"
        self._containers[fork.key] = _Container(engine, name, Path(fork.log_path))
        order = command.ContainerOrder(
            engine=engine.name,
            name=name,
            spec=spec,
            state_dir=self._state_dir,
            folder=folder,
            gpus=tuple(gpus),
            is_trial=is_trial,
            worker=fork,
        )
        text = msgspec.json.encode(order, enc_hook=str).decode()
        changes = {"environ": {}, "workdir": "/", "call": command.CALL, "entry": text, "args": ()}
        self._fork(msgspec.structs.replace(fork, **changes))

    def spoke(self, key: str, found: Callable[[int], None]) -> None:
        """The worker has called. `found` is told the pid of the container's first process."""
        if (container := self._containers.get(key)) is not None:
            container.has_spoken = True
            self._start_task(_find_pid(container, found))

    def ended(self, key: str, status: int, message: str) -> bool:
        """Whether this worker has a container; then `exited` is told once that is gone."""
        container = self._containers.get(key)
        if container is not None:
            self._start_task(self._end(key, container, status, message))
        return container is not None

    async def _end(self, key: str, container: _Container, status: int, message: str) -> None:
        if container.engine.is_apptainer and status == APPTAINER_FAILED and not container.has_spoken:
            status = command.ENGINE_FAILED
        had_worker, num_failures = status not in NO_WORKER or container.has_spoken, 0
        while (error := await _remove(container)) and had_worker:  # it may still use its devices
            num_failures += 1
            pause_s = retry_pause_s(num_failures, FIRST_PAUSE_S, LONGEST_PAUSE_S)
            log.warning("%s; its worker's devices stay in use, next try in %g s", error, pause_s)
            await asyncio.sleep(pause_s)
        if not had_worker:
            message = f"{NO_WORKER[status]}: {await _last_words(container.log)}"
            status = NOT_STARTED if status == command.ENGINE_FAILED else UNFIT
        elif status > SIGNALLED:
            status = SIGNALLED - status
        del self._containers[key]
        self._exited(key, status, message)

    async def shut_down(self) -> None:
        """No container is left. To be called when the zygote is gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for container in self._containers.values():
            if error := await _remove(container):
                log.error("%s; end it by hand", error)

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _find_pid(container: _Container, found: Callable[[int], None]) -> None:
    if (pid := await asyncio.to_thread(container.engine.main_pid, container.name)) is not None:
        found(pid)


async def _remove(container: _Container) -> str:
    """Return why the container may still be there; empty: it is gone."""
    try:
        error = await asyncio.to_thread(container.engine.remove, container.name)
    except RuntimeError as no_thread:
        error = str(no_thread)
    return error and f"the container {container.name} cannot be removed ({error})"


async def _last_words(log: Path) -> str:
    """The storage may fail, or give no answer: an end is told without them."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(read_tail, log), LAST_WORDS_S)
    except Exception as error:  # noqa: BLE001 - what cannot be read hides no end
        return f"its last lines cannot be read ({error or 'the storage does not answer'})"
