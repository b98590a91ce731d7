"""The door of a platform on a Slurm cluster: small jobs run hosts, as many as open jobs could use."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.logs.files import read_tail
from swell.executors.remote.host_address import HostAddress
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.order import SliceOrder, told_at_end
from swell.executors.slices.pool import PoolLimits
from swell.executors.slices.port import ClusterPort, ClusterRead
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.pool_log import PoolLog
from swell.executors.slurm.slurm_client import SlurmClient

#: Where hosts join unless an address is named: all of this machine's, at a port that is free.
ANYWHERE = HostAddress("0.0.0.0", 0)  # noqa: S104
PREEMPTED = "Slurm takes its slice back (preemption, scancel, or the end of its time)"
#: What slices have printed is kept so long.
KEEP_OUTPUT_S = 7 * 86400.0
OUTPUT_FOLDER = "slurm"
TAIL_BYTES = 4096


class SlurmDoor(SliceDoor):
    """See `local.agent.door.Door`. It goes on without a Slurm that does not answer: hosts may run."""

    remedy = "`scancel --name=swell-{}`"

    def __init__(
        self, controller: Controller, options: AgentOptions, session: str, port: ClusterPort | None = None
    ) -> None:
        """`port`: in place of the real Slurm. Raises DoorError."""
        engine = msgspec.json.decode(options.engine, type=SlurmEngine)
        super().__init__(controller, options, session, _limits_of(engine), _order_of(engine), ANYWHERE)
        self._output = options.state_dir / OUTPUT_FOLDER
        self._pool_log = PoolLog(self._output, engine.num_devices) if engine.is_borrowing else None
        submission = (*engine.submission(), f"--output={self._output / '%j.out'}", f"--chdir={self._output}")
        self._port = port or SlurmClient(f"swell-{self._platform}", engine.partition, submission)

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


def _order_of(engine: SlurmEngine) -> SliceOrder:
    return SliceOrder(
        cluster="slurm",
        devices=engine.slice_devices,
        is_borrowed=engine.is_borrowing,
        sigterm_means=PREEMPTED,
        num_cpus=engine.num_cpus,
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
