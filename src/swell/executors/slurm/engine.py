"""The engine of a platform on a Slurm cluster."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from swell.executors.engine import InvalidEngine
from swell.executors.slices.engine import IdleS, MaxNodes, SliceEngine

if TYPE_CHECKING:
    from swell.executors.slices.port import ClusterPort
    from swell.model.finding import Finding

#: Of the doctor, for all answers of Slurm.
ASK_S = 5.0
#: Options of `sbatch` that name GPUs.
GPU_OPTIONS = ("-G", "--gpus", "--gres")
#: What slices have printed is kept so long.
KEEP_OUTPUT_S = 7 * 86400.0


class SlurmEngine(SliceEngine, kw_only=True):
    """Slices of the nodes of a Slurm cluster; each is a small job that runs a host."""

    name = "slurm"
    brings = "jobs of a Slurm cluster, as many as are needed"
    no_nodes = (
        "no slice of the Slurm cluster has joined; slices are asked for while jobs wait: `squeue --me` shows "
        "those that Slurm has not started yet"
    )
    sigterm_means = "Slurm takes its slice back (preemption, scancel, or the end of its time)"
    remedy = "`scancel --name=swell-{}`"

    partition: Annotated[str, Meta(description="partition of all slices, else Slurm's default one.")] = ""
    max_nodes: MaxNodes = 1
    idle_s: IdleS = 60.0
    sbatch: Annotated[
        str,
        Meta(
            description="further options of `sbatch` of each slice, such as '--time=4:00:00 --account=a'.",
            extra={"metavar": "OPTIONS"},
        ),
    ] = ""

    def check(self, listen: str) -> None:
        super().check(listen)
        if any(word.startswith(("-p", "--partition")) for word in self._words):
            raise InvalidEngine(
                f"--sbatch {self.sbatch!r}: Swell itself has to know the partition; name it with --partition"
            )

    def port(self, platform: str, folder: Path) -> ClusterPort:
        """Return the cluster; what slices have printed long ago is removed."""
        from swell.executors.slurm.slurm_client import PoolLog, SlurmClient

        output = folder / "slurm"
        output.mkdir(mode=0o700, exist_ok=True)
        for path in output.glob("*.out"):
            if path.stat().st_mtime < time.time() - KEEP_OUTPUT_S:
                path.unlink()
        log = PoolLog(output, self.num_devices) if self.is_borrowed else None
        return SlurmClient(f"swell-{platform}", self.partition, self.submission(), output, log)

    @property
    def _words(self) -> list[str]:
        """What users say to `sbatch`. Raises InvalidEngine."""
        try:
            return shlex.split(self.sbatch)
        except ValueError as error:
            raise InvalidEngine(
                f"--sbatch {self.sbatch!r}: a shell cannot read it ({error}); close its quotes"
            ) from error

    def submission(self) -> tuple[str, ...]:
        """Options of `sbatch`, which goes by the last of two that are alike: users may override some."""
        words = [f"--cpus-per-task={self.num_devices}"]
        is_gpu_named = any(word.startswith(GPU_OPTIONS) for word in self._words)
        if self.has_gpus and not is_gpu_named:
            words.append(f"--gres=gpu:{self.num_devices}")
        own = ["--nodes=1", "--ntasks=1", "--no-requeue"]
        own += [f"--partition={self.partition}"] if self.partition else []
        return (*words, *self._words, *own)

    def findings(self, listen: str) -> list[Finding]:
        """Whether Slurm's programs are here and answer, and what they say of a slice."""
        import asyncio

        from swell.executors.slices.port import ClusterError
        from swell.model.finding import bad
        from swell.model.quantities import span

        try:
            return asyncio.run(self._asked())
        except (TimeoutError, ClusterError) as error:
            why = str(error) or f"did not answer within {span(ASK_S)}"
            remedy = (
                "see `scontrol ping`; if it refuses a slice, change --partition, --slice-devices or --sbatch"
            )
            return [bad("slurm", why, remedy)]

    async def _asked(self) -> list[Finding]:
        """Raises TimeoutError, ClusterError."""
        import asyncio

        from swell.executors.slurm.slurm_client import SlurmClient
        from swell.model.finding import ok, warn

        client = SlurmClient("swell-doctor", self.partition, self.submission())
        async with asyncio.timeout(ASK_S):
            (name, grace_s), read = await client.partition(), await client.read()
            await client.try_out()
        num_idle = len(read.idle or ())
        text = f"partition {name} has {read.num_fit} nodes, {num_idle} idle; it takes a slice"
        found = [ok("slurm", text)]
        if self.is_borrowed and grace_s == 0:
            text = f"partition {name} has no GraceTime: workers on a node that is taken back are lost"
            found.append(warn("slurm", text, "ask its administrator for GraceTime=30"))
        return found
