"""What `swell doctor` says of Slurm: its programs, whether it answers, and what it says of a slice."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass

from swell.executors.slurm.slurm_client import SlurmClient
from swell.executors.slurm.slurm_port import SlurmUnreachable, SubmissionRefused
from swell.model.finding import Finding, bad, ok, warn
from swell.model.lengths import span

PROGRAMS = ("sbatch", "squeue", "sinfo", "scancel", "scontrol")
#: From the first program to the last answer.
ASK_S = 5.0
EMPTY_SCRIPT = "#!/bin/bash\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """What a platform would ask Slurm for."""

    partition: str  #: empty: the default one
    submission: tuple[str, ...]  #: options of `sbatch`
    limit_s: float | None  #: None: that of the partition
    is_borrowing: bool


def slurm_findings(request: SliceRequest) -> list[Finding]:
    """Findings, the first thing that is wrong last: what comes after it cannot be tried."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        text = f"has no {', '.join(missing)} here: no slice can be asked for"
        return [bad("slurm", text, "start the platform on a login node, or add Slurm's folder to PATH")]
    try:
        return asyncio.run(_asked(request))
    except TimeoutError:
        return [
            bad(
                "slurm",
                f"did not answer within {span(ASK_S)}",
                "see `scontrol ping` and `munge -n | unmunge`",
            )
        ]
    except (SlurmUnreachable, SubmissionRefused) as error:
        said, _, remedy = str(error).rpartition("; ")
        return [bad("slurm", said or remedy, remedy)]


async def _asked(request: SliceRequest) -> list[Finding]:
    client = SlurmClient("swell-doctor", request.partition, request.submission)
    async with asyncio.timeout(ASK_S):
        partition = await client.partition()
        read = await client.read()
        await client.try_out(EMPTY_SCRIPT)
    idle = sum(node.state == "idle" for node in read.nodes)
    found = [
        ok(
            "slurm",
            f"partition {partition.name} has {len(read.nodes)} nodes, {idle} idle; it takes a slice",
        )
    ]
    if not partition.is_up:
        found.append(warn("slurm", f"partition {partition.name} is down", "choose another --partition"))
    limit_s = request.limit_s
    if limit_s is not None and partition.max_s is not None and limit_s > partition.max_s:
        text = f"--time of {limit_s / 60:g} minutes is above the MaxTime of partition {partition.name}"
        found.append(bad("slurm", text, f"name {partition.max_s / 60:g} minutes at most"))
    if request.is_borrowing and partition.grace_s == 0:
        text = f"partition {partition.name} has no GraceTime: workers on a node that is taken back are lost"
        found.append(warn("slurm", text, "ask its administrator for GraceTime=30"))
    return found
