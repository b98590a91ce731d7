"""The processes of one run on this host: workers of a job's gang or of a trial run."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swell.executors.gang.gang_settings import LogLimits
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts.messages import StartWorker, TellWorker
from swell.executors.local.agent.job_files import CODE_FOLDER, JobPlace
from swell.executors.local.agent.options import LOOPBACK
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import (
    TRIAL,
    WORKER,
    discard_logs,
    end_offset,
    log_path,
    note_leaders,
    read_tail,
)
from swell.executors.local.zygote.messages import Fork
from swell.executors.rate_limited_log import RateLimitedLog
from swell.model.job import Elasticity, JobSpec
from swell.model.node import DEFAULT_RACK
from swell.wire import environ
from swell.wire.messages import Regroup

log = logging.getLogger("swell.agent")


#: See `ThreadBackground`.
Background = Callable[[Callable[[], OSError | None], Callable[[OSError | None], None]], None]


@dataclass(slots=True)
class HostedRun:
    """Its folder, and the lines to its workers. The token opens this run and no other."""

    key: str
    job_id: str
    spec: JobSpec
    place: JobPlace
    bindings: Mapping[str, DeviceBinding]
    kind: str = WORKER  #: what its logs are called
    reached_at: str = LOOPBACK  #: address at which workers on other hosts reach its workers
    rack: str = ""  #: in which the machine stands; empty: that of a machine that names none
    leader: int | None = None  #: the worker that is rank 0
    #: Leaders that the job's folder lacks, with the positions in their logs; None: the end of what is there.
    unnoted: list[tuple[int, int | None]] = field(default_factory=list)
    is_noting: bool = False
    note_failures: RateLimitedLog = field(default_factory=RateLimitedLog)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    links: dict[int, LineLink] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    pids: dict[int, int] = field(default_factory=dict)  #: by worker
    exits: dict[int, tuple[int, str]] = field(default_factory=dict)  #: known, but the line is not yet drained
    heard_s: dict[int, float] = field(default_factory=dict)  #: when each one last spoke, or was forked
    stopped: set[int] = field(default_factory=set)  #: workers whose processes are told to be stopped
    held_port: socket.socket | None = None  #: see `host.hold_port`

    @property
    def folder(self) -> Path:
        """Folder of the job on this host."""
        return self.place.folder

    def let_port_go(self) -> None:
        if self.held_port is not None:
            self.held_port.close()
            self.held_port = None

    def log_path(self, worker: int) -> Path:
        return log_path(self.folder, self.kind, worker)

    def see_leader(self, effect: StartWorker | TellWorker) -> None:
        """If this makes a worker rank 0 that was not, the job's folder is to say which, and since when."""
        if isinstance(effect, StartWorker):  # one without a rank has rank 0 later if it is the first
            rank = effect.environ.get(environ.RANK)
            is_leader = self.leader is None and effect.is_first if rank is None else rank == "0"
        else:
            is_leader = isinstance(effect.message, Regroup) and effect.message.rank == 0
        if self.kind == TRIAL or not is_leader or effect.worker == self.leader:
            return
        self.leader = effect.worker
        # Of the first one of a gang, what it says on its way to the group is the job's too.
        position = 0 if isinstance(effect, StartWorker) else None
        self.unnoted.append((effect.worker, position))

    def note_leaders(self, in_background: Background) -> None:
        """Which workers led, as far as it is not yet on disk; to be called again while that is full."""
        if self.is_noting or not self.unnoted:
            return
        notes, self.is_noting = tuple(self.unnoted), True

        def note() -> OSError | None:
            try:
                begins = [end_offset(self.log_path(one)) if begin is None else begin for one, begin in notes]
                note_leaders(self.folder, zip((one for one, _ in notes), begins, strict=True))
            except OSError as error:
                return error
            return None

        def settle(error: OSError | None) -> None:
            self.is_noting = False
            if error is None:
                del self.unnoted[: len(notes)]
            elif self.note_failures.take():
                log.warning("cannot note the leader of %s: %s; `swell logs` lacks its lines", self.key, error)

        in_background(note, settle)

    def discard_logs(self, limits: LogLimits, live: Container[int]) -> None:
        """Before another worker starts to print: those of ended ones are in the way. Touches the storage."""
        if self.kind == WORKER and limits.job_log_bytes:
            try:
                discard_logs(self.folder, limits.job_log_bytes, live)
            except FileNotFoundError:
                pass  # another host does the same
            except OSError as error:
                log.warning("cannot discard old logs of %s: %s", self.key, error)

    def end_log(self, worker: int, is_tail_wanted: bool) -> str:
        """The worker is gone. Returns the last lines of its log, if wanted. Touches the storage.

        Of a trial run's many, keep the logs of those that had something to say.
        """
        path = self.log_path(worker)
        tail = read_tail(path) if is_tail_wanted else ""
        if self.kind == TRIAL and path.exists() and not path.stat().st_size:
            path.unlink()
        return tail

    def fork(self, spawn: StartWorker, call: str, address: str, log_bytes: int = 0) -> Fork:
        """The request that starts this worker. Users' names and arguments are list items and values only."""
        variables = self._environ(spawn.worker, address, spawn.devices)
        is_read = self.spec.elasticity is Elasticity.RESTART and spawn.worker == self.leader
        return Fork(
            key=f"{self.key}/{spawn.worker}",
            environ={**dict(self.spec.env), **variables, **spawn.environ},
            workdir=self.place.workdir,
            log_path=str(self.log_path(spawn.worker)),
            log_bytes=log_bytes,
            value_name=self.spec.metric if is_read else "",
            call=call,
            entry=self.place.entry if spawn.entry is None else spawn.entry,
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
            environ.ADDRESS: self.reached_at,
            environ.RACK: self.rack or DEFAULT_RACK,
            environ.DEVICES: ",".join(devices),
            environ.WORKDIR: self.place.workdir,
            **self.place.environ,
        }
        if self.spec.code:
            variables[environ.CODE] = str(self.folder / CODE_FOLDER)
        # A worker on other devices sees no GPU: its script would choose one that it was not given.
        gpus = [name for device in devices if (name := self.bindings[device].cuda) is not None]
        return variables | {"CUDA_VISIBLE_DEVICES": ",".join(gpus), **environ.GPU_ORDER}
