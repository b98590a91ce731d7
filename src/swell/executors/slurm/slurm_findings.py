"""What `swell doctor` says of Slurm: its programs, whether it answers, and what it says of a slice."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence

from swell.executors.slices.port import ClusterUnreachable, SliceRefused
from swell.executors.slurm.slurm_client import SlurmClient
from swell.model.finding import Finding, bad, ok, warn
from swell.model.lengths import span

PROGRAMS = ("sbatch", "squeue", "sinfo", "scancel", "scontrol")
#: From the first program to the last answer.
ASK_S = 5.0
EMPTY_SCRIPT = "#!/bin/bash\n"


def slurm_findings(partition: str, submission: Sequence[str], is_borrowing: bool) -> list[Finding]:
    """What is well or wrong. The arguments are those of a slice: see `SlurmEngine`."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        text = f"has no {', '.join(missing)} here: no slice can be asked for"
        return [bad("slurm", text, "start the platform on a login node, or add Slurm's folder to PATH")]
    client = SlurmClient("swell-doctor", partition, submission)
    try:
        return asyncio.run(_asked(client, is_borrowing))
    except TimeoutError:
        return [bad("slurm", f"did not answer within {span(ASK_S)}", "see `scontrol ping` and munge's log")]
    except ClusterUnreachable as error:
        return [bad("slurm", str(error), "see `scontrol ping` and `munge -n | unmunge`")]
    except SliceRefused as error:
        return [bad("slurm", str(error), "change the options of the engine, which are those of `sbatch`")]


async def _asked(client: SlurmClient, is_borrowing: bool) -> list[Finding]:
    async with asyncio.timeout(ASK_S):
        partition = await client.partition()
        read = await client.read()
        await client.try_out(EMPTY_SCRIPT)
    idle = sum(node.state == "idle" for node in read.nodes)
    text = f"partition {partition.name} has {len(read.nodes)} nodes, {idle} idle; it takes a slice"
    found = [ok("slurm", text)]
    if is_borrowing and partition.grace_s == 0:
        text = f"partition {partition.name} has no GraceTime: workers on a node that is taken back are lost"
        found.append(warn("slurm", text, "ask its administrator for GraceTime=30"))
    return found
