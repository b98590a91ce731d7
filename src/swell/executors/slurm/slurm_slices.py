"""The slices of a platform on Slurm: what they print, and the log of nodes that were idle."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from swell.executors.local.logs.files import read_tail
from swell.executors.slices.order import last_words
from swell.executors.slices.port import ClusterFacts, ClusterRead, SliceJob, SliceRefused, SliceState
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.pool_log import PoolLog
from swell.executors.slurm.slurm_client import SlurmClient

#: What slices have printed is kept so long.
KEEP_OUTPUT_S = 7 * 86400.0
TAIL_BYTES = 4096


class SlurmSlices(SlurmClient):
    """See `ClusterPort`. `output`: the folder to which slices print."""

    def __init__(self, name: str, engine: SlurmEngine, output: Path) -> None:
        printing = (f"--output={output / '%j.out'}", f"--chdir={output}")
        super().__init__(name, engine.partition, (*engine.submission(), *printing))
        self._output = output
        self._log = PoolLog(output, engine.num_devices) if engine.is_borrowing else None

    async def connect(self) -> ClusterFacts:
        try:
            make_output_folder(self._output, time.time())
        except OSError as error:
            raise SliceRefused(
                f"cannot use {self._output} ({error.strerror}); make room on its disk"
            ) from error
        return await super().connect()

    async def read(self) -> ClusterRead:
        read = await super().read()
        if self._log is not None:
            own = {job.node for job in read.jobs if job.state is SliceState.RUNNING}
            self._log.note(read.nodes, own, time.time())
        return msgspec.structs.replace(read, jobs=tuple(map(self._with_words, read.jobs)))

    def _with_words(self, job: SliceJob) -> SliceJob:
        """A job that has failed, with why its host says that it has ended."""
        said = ""
        if job.state is SliceState.FAILED:
            with suppress(OSError):  # it has printed nothing, or the file is gone
                said = last_words(read_tail(self._output / f"{job.id}.out", TAIL_BYTES))
        return msgspec.structs.replace(job, reason=said or job.reason)

    async def close(self) -> None:
        if self._log is not None:
            self._log.close(time.time())


def make_output_folder(folder: Path, now_s: float) -> None:
    """Where slices print to, without what is old. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.glob("*.out"):
        if path.stat().st_mtime < now_s - KEEP_OUTPUT_S:
            path.unlink()
