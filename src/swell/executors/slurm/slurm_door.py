"""The door of a platform on a Slurm cluster: small jobs run hosts, as many as open jobs could use."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.logs.files import read_tail
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.order import SliceOrder, told_at_end
from swell.executors.slices.pool import PoolLimits
from swell.executors.slices.port import ClusterRead
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.pool_log import PoolLog
from swell.executors.slurm.slurm_client import SlurmClient
from swell.executors.slurm.slurm_port import SlurmPort

#: Where hosts join unless an address is named: all of this machine's, at a port that is free.
ANYWHERE = "0.0.0.0:0"
#: What slices have printed is kept so long.
KEEP_OUTPUT_S = 7 * 86400.0
OUTPUT_FOLDER = "slurm"
TAIL_BYTES = 4096


class SlurmDoor(SliceDoor):
    """See `local.agent.door.Door`. It goes on without a Slurm that does not answer: hosts may run."""

    remedy = "`scancel --name=swell-{}`"

    def __init__(
        self, controller: Controller, options: AgentOptions, session: str, port: SlurmPort | None = None
    ) -> None:
        """`port`: in place of the real Slurm. Raises DoorError."""
        self._engine = engine = msgspec.json.decode(options.engine, type=SlurmEngine)
        listening = replace(options, listen=options.listen or ANYWHERE)
        super().__init__(controller, listening, session, _limits_of(engine))
        self._output = options.state_dir / OUTPUT_FOLDER
        self._pool_log = PoolLog(self._output, engine.num_devices) if engine.is_borrowing else None
        submission = (*engine.submission(), f"--output={self._output / '%j.out'}", f"--chdir={self._output}")
        self._slurm = port or SlurmClient(f"swell-{self._platform}", engine.partition, submission)
        self._port = self._slurm
        self._grace_s: float | None = None  #: of the partition; None: not known yet

    async def open(self) -> str:
        try:
            make_output_folder(self._output, time.time())
        except OSError as error:
            raise DoorError(f"cannot use {self._output} ({error.strerror}); make room on its disk") from error
        return await super().open()

    async def close(self) -> None:
        await super().close()
        if self._pool_log is not None:
            self._pool_log.close(time.time())

    async def _ask_first(self) -> None:
        """Learn the GraceTime of the partition."""
        if self._grace_s is None:
            self._grace_s = (await self._slurm.partition()).grace_s

    def _order(self, join: str, token: str) -> SliceOrder:
        return SliceOrder(
            platform=self._platform,
            join=join,
            token=token,
            devices=self._engine.slice_devices,
            is_borrowed=self._engine.is_borrowing,
            grace_s=self._grace_s or 0.0,
            num_cpus=self._engine.num_cpus,
        )

    def _note_read(self, read: ClusterRead) -> None:
        if self._pool_log is not None:
            self._pool_log.note(read.nodes, self._pool.own_nodes, time.time())

    def last_words(self, job: int) -> str:
        return last_words(self._output / f"{job}.out")


def _limits_of(engine: SlurmEngine) -> PoolLimits:
    """What a platform may have of Slurm, by its options."""
    return PoolLimits(
        cluster="Slurm",
        max_slices=engine.max_nodes,
        min_slices=engine.min_nodes,
        num_devices=engine.num_devices,
        idle_s=engine.idle_s,
        is_borrowing=engine.is_borrowing,
        about=engine.partition,
    )


def make_output_folder(folder: Path, now_s: float) -> None:
    """Where slices print to, without what is old. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.glob("*.out"):
        if path.stat().st_mtime < now_s - KEEP_OUTPUT_S:
            path.unlink()


def last_words(path: Path) -> str:
    """Why a host ended, by the output of its slice; empty: that cannot be read."""
    try:
        lines = read_tail(path, TAIL_BYTES).splitlines()
    except OSError:
        return ""
    plain = [line for line in lines if line.strip() and not line.startswith(("slurmstepd", "srun"))]
    return told_at_end(lines) or (plain or [""])[-1]
