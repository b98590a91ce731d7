"""The containers of an agent: one for each run of a job that names an image."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

import msgspec

from swell import __version__
from swell.executors.local.agent.run import HostedRun
from swell.executors.local.containers import bootstrap, mounts
from swell.executors.local.containers.engine import ContainerChoice, ContainerEngine, find_engine
from swell.executors.local.containers.group import ContainerGroup
from swell.executors.local.containers.mounts import Mount
from swell.executors.local.containers.order import ContainerOrder
from swell.executors.local.containers.place import (
    AGENT_SOCKET,
    ZYGOTE_SOCKET,
    ContainerFolder,
    ContainerPlace,
)
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.local.logs.files import TRIAL
from swell.executors.local.processes.listing import is_alive
from swell.executors.local.zygote.forking import Fork
from swell.executors.local.zygote.place import mark_of
from swell.executors.local.zygote.zygotes import modules_everywhere
from swell.wire import environ

PREFIX = "swell-"
#: A label of each container: a digest of the state folder.
STATE_LABEL = "swell.state"
JOB_LABEL = "swell.job"
#: How workers in a container call the agent.
ADDRESS = f"unix:{mounts.ROOM}/{AGENT_SOCKET}"

log = logging.getLogger("swell.agent")


class Containers:
    """Makes nothing before a job asks for it."""

    def __init__(
        self,
        choice: ContainerChoice,
        state_dir: Path,
        sharing: CoreSharing,
        preload: Sequence[str],
        lock_fd: int,
        new_room: Callable[[], Path],
        listen: Callable[[Path], Awaitable[asyncio.Server]],
    ) -> None:
        """
        Args:
            new_room: makes a folder for one container. Raises OSError.
            listen: opens the agent's door for workers at a path.
        """
        self._choice = choice
        self._state_dir = state_dir
        self._sharing = sharing
        self._modules = modules_everywhere(preload)
        self._lock_fd = lock_fd
        self._new_room = new_room
        self._listen = listen
        self._digest = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]
        self._numbers = itertools.count(1)
        self._groups: dict[str, ContainerGroup] = {}
        self._updates: set[asyncio.Task[None]] = set()
        self._engine: ContainerEngine | None = None
        self._finding = threading.Lock()

    # ------------------------------------------------------------ runs
    def group(self, run_key: str) -> ContainerGroup:
        """Limits of the containers that a run will have; a new one for a new run."""
        self._groups[run_key] = ContainerGroup(self._sharing, self._spawn)
        return self._groups[run_key]

    def place(self, run: HostedRun) -> ContainerPlace:
        """Where the run's workers are forked."""
        group = self._groups.get(run.key)
        if group is None:  # a trial run: no cores are divided for it
            group = self.group(run.key)
            if run.spec.memory_bytes is not None:
                group.limit_memory(run.spec.memory_bytes)
        room = ContainerFolder(self._new_room, self._listen)

        def order(zygote_id: str) -> ContainerOrder:
            name = f"{PREFIX}{self._digest}-{os.getpid()}-{run.job_id}-{next(self._numbers)}"
            return self._order(run, group, room, name, zygote_id)

        return ContainerPlace(
            run.spec.image, self._modules, room, self._lock_fd, self.find_engine, order, group.started
        )

    def equip(self, fork: Fork, run: HostedRun) -> Fork:
        """The same request, for a worker in a container: it writes to its own folders only."""
        output = "/tmp" if run.kind == TRIAL else str(run.folder / mounts.OUTPUT_FOLDER)  # noqa: S108
        variables = {environ.OUTPUT: output}
        if run.kind == TRIAL:
            variables[environ.TRIAL] = "1"
        return msgspec.structs.replace(fork, environ=fork.environ | variables)

    def ended(self, run_key: str) -> None:
        """The run's processes are gone."""
        self._groups.pop(run_key, None)

    # ------------------------------------------------------------ a container
    def _order(
        self, run: HostedRun, group: ContainerGroup, room: ContainerFolder, name: str, zygote_id: str
    ) -> ContainerOrder:
        """Raises ValueError: the job makes it impossible."""
        if self._choice is ContainerChoice.OFF:
            raise ValueError(
                f"the job names the image {run.spec.image}, and this platform runs no containers "
                "(`swell up --containers off`)"
            )
        if any(binding.cuda is not None for binding in run.bindings.values()):
            raise ValueError("containers have no GPUs; submit it without an image")
        (run.folder / mounts.OUTPUT_FOLDER).mkdir(mode=0o700, exist_ok=True)
        packages = mounts.package_mounts()
        all_mounts = (
            *mounts.job_mounts(self._state_dir, run.folder, run.spec),
            Mount(str(room.folder), mounts.ROOM),
            *packages,
        )
        told = {
            "socket": f"{mounts.ROOM}/{ZYGOTE_SOCKET}",
            "version": __version__,
            "abi": mounts.interpreter_abi(),
            "packages": [mount.target for mount in packages],
            "modules": list(self._modules),
        }
        return ContainerOrder(
            name=name,
            image=run.spec.image,
            labels={STATE_LABEL: self._digest, JOB_LABEL: run.job_id},
            mounts=all_mounts,
            environ={environ.MARK: mark_of(self._state_dir, zygote_id).text()},
            limit_words=group.begin(),
            arguments=(mounts.inside(bootstrap.__file__, packages), msgspec.json.encode(told).decode()),
        )

    # ------------------------------------------------------------ the engine
    def find_engine(self) -> ContainerEngine:
        """Waits for it, in a thread. The first one that is found is kept: it has the images.

        With it the containers of agents that have ended are removed.
        """
        with self._finding:
            if self._engine is not None:
                return find_engine(ContainerChoice(self._engine.name))
            self._engine = find_engine(self._choice)
            self._remove_left(self._engine)
            return self._engine

    def _remove_left(self, engine: ContainerEngine) -> None:
        for name in engine.names(f"{STATE_LABEL}={self._digest}"):
            if (pid := agent_of(name)) is not None and not is_alive(pid):
                log.warning("ending container %s, which an earlier agent has left behind", name)
                engine.kill(name)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._updates.add(task)
        task.add_done_callback(self._updates.discard)


def agent_of(name: str) -> int | None:
    """Pid of the agent that has started a container of this name; None if none has."""
    parts = name.removeprefix(PREFIX).split("-", 2)
    return int(parts[1]) if name.startswith(PREFIX) and len(parts) == 3 and parts[1].isdecimal() else None
