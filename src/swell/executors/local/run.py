"""One set of worker processes that the agent runs: a job's gang or a trial run."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from swell.executors.local.devices import DeviceBinding
from swell.executors.local.effects import Effect, Send, Spawn
from swell.executors.local.forking import Fork
from swell.executors.local.job_code import FOLDER as CODE_FOLDER
from swell.executors.local.job_code import written_beside
from swell.executors.local.lines import LineLink
from swell.executors.local.logs import TRIAL, WORKER, drop_if_empty, note_leader
from swell.model.job import Elasticity, JobSpec
from swell.wire import environ
from swell.wire.messages import FromWorker, Regroup

log = logging.getLogger("swell.agent")


class Director(Protocol):
    """What a choreography hears from its processes."""

    @property
    def devices(self) -> tuple[str, ...]: ...
    @property
    def is_over(self) -> bool: ...
    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]: ...
    def said(self, worker: int, message: FromWorker, now_s: float) -> Sequence[Effect]: ...
    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]: ...
    def tick(self, now_s: float) -> Sequence[Effect]: ...


@dataclass(slots=True)
class Run:
    """Its director, its folder, and the lines to its workers. The token opens this run and no other."""

    key: str
    job_id: str
    spec: JobSpec
    director: Director
    folder: Path
    bindings: Mapping[str, DeviceBinding]
    kind: str = WORKER  #: what its logs are called
    leader: int | None = None  #: the worker that is rank 0
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    links: dict[int, LineLink] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    exits: dict[int, tuple[int, str]] = field(default_factory=dict)  #: known, but the line is not yet drained

    def log_path(self, worker: int) -> Path:
        return self.folder / f"{self.kind}-{worker}.log"

    def note_leader(self, effect: Spawn | Send) -> None:
        """If this makes a worker rank 0 that was not, keep in the job's folder which, and since when."""
        if isinstance(effect, Spawn):  # who has no rank yet: the first will have rank 0, if it gets so far
            rank = effect.environ.get(environ.RANK)
            is_leader = self.leader is None if rank is None else rank == "0"
        else:
            is_leader = isinstance(effect.message, Regroup) and effect.message.rank == 0
        if self.kind == TRIAL or not is_leader or effect.worker == self.leader:
            return
        # Of the first one of a gang, what it says on its way to the group is the job's too.
        begin = self.log_path(effect.worker) if self.leader is not None else None
        self.leader = effect.worker
        try:
            note_leader(self.folder, effect.worker, begin)
        except OSError as error:  # a full disk makes `swell logs` poorer, and that is all
            log.warning("cannot note the leader of %s: %s", self.key, error)

    def end_log(self, worker: int) -> None:
        """The worker is gone: of a trial run's many, keep the logs of those that had something to say."""
        if self.kind == TRIAL:
            drop_if_empty(self.log_path(worker))

    def code_warning(self) -> str:
        """What the job's owner should know of what its workers have written; empty if nothing."""
        return written_beside(self.folder) if self.kind == WORKER else ""

    def fork(self, spawn: Spawn, call: str, address: str) -> Fork:
        """The request that starts this worker. Users' names and arguments are list items and values only."""
        variables = self._environ(spawn.worker, address, spawn.devices)
        return Fork(
            key=f"{self.key}/{spawn.worker}",
            environ={**dict(self.spec.env), **variables, **spawn.environ},
            workdir=self.spec.workdir,
            log_path=str(self.log_path(spawn.worker)),
            call=call,
            entry=self.spec.entry if spawn.entry is None else spawn.entry,
            args=self.spec.args if spawn.entry is None else (),
        )

    def _environ(self, worker: int, address: str, devices: tuple[str, ...]) -> dict[str, str]:
        is_live = self.spec.elasticity is Elasticity.LIVE
        variables = {
            environ.JOB_ID: self.job_id,
            environ.RUN_ID: self.job_id,
            environ.GROUP_RANK: "0",
            environ.AGENT if is_live else environ.OBSERVER: address,
            environ.TOKEN: self.token,
            environ.WORKER: str(worker),
            environ.WORKDIR: self.spec.workdir,
        }
        if self.spec.code:
            variables[environ.CODE] = str(self.folder / CODE_FOLDER)
        gpus = [name for device in devices if (name := self.bindings[device].cuda) is not None]
        if gpus:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        return variables
