"""The engine of a platform on a Slurm cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from swell.executors.engine import Engine, InvalidEngine, check_num_nodes

if TYPE_CHECKING:
    from swell.model.finding import Finding

#: Of the doctor, for all answers of Slurm.
ASK_S = 5.0
_DEVICES = re.compile(r"(?:cuda|cpu):([0-9]{1,4})|paced:([0-9]{1,4})@[0-9]+(?:\.[0-9]+)?")


class SlurmEngine(Engine, kw_only=True):
    """Slices of the nodes of a Slurm cluster; each is a small job that runs a host."""

    name = "slurm"
    brings = "jobs of a Slurm cluster, as many as are needed"
    door = "swell.executors.slurm.slurm_door:SlurmDoor"
    no_nodes = (
        "no slice of the Slurm cluster has joined; slices are asked for while jobs wait: `squeue --me` shows "
        "those that Slurm has not started yet"
    )

    partition: Annotated[str, Meta(description="partition of all slices, else Slurm's default one.")] = ""
    max_nodes: Annotated[int, Meta(ge=1, description="most slices at a time.")] = 1
    min_nodes: Annotated[int, Meta(ge=0, description="slices that are kept while nothing needs them.")] = 0
    slice_devices: Annotated[
        str,
        Meta(description="devices of a slice: cuda:N, cpu:N or paced:N@RATE.", extra={"metavar": "DEVICES"}),
    ] = "cpu:1"
    slice_cpus: Annotated[int, Meta(ge=0, description="CPUs of a slice; 0: as many as it has devices.")] = 0
    mem: Annotated[str, Meta(description="memory of a slice, as `sbatch` takes it.")] = ""
    gres: Annotated[
        str, Meta(description="generic resources of a slice, as `sbatch` takes them; else gpu:N for cuda:N.")
    ] = ""
    time: Annotated[
        str, Meta(description="time limit of a slice, as `sbatch` takes it, else the partition's.")
    ] = ""
    account: Annotated[str, Meta(description="account that is charged.")] = ""
    qos: Annotated[str, Meta(description="quality of service.")] = ""
    constraint: Annotated[str, Meta(description="features of the nodes.")] = ""
    reservation: Annotated[str, Meta(description="reservation of the nodes.")] = ""
    is_exclusive: Annotated[
        bool,
        Meta(description="whether a slice has its node to itself.", extra={"flags": "--exclusive/--shared"}),
    ] = False
    is_borrowing: Annotated[
        bool,
        Meta(
            description="whether slices are on idle nodes only and may be reclaimed at any second.",
            extra={"flags": "--borrow/--no-borrow"},
        ),
    ] = False
    idle_s: Annotated[float, Meta(ge=0, description="seconds without work until a slice is given back.")] = (
        60.0
    )

    @property
    def about(self) -> str:
        where = f"partition {self.partition}" if self.partition else "its default partition"
        return (
            f"Slurm, {where}: up to {self.max_nodes} slices with {self.slice_devices}, asked for while jobs "
            "wait; see `swell nodes`"
        )

    @property
    def num_devices(self) -> int:
        """Devices of a slice. Raises InvalidEngine."""
        found = _DEVICES.fullmatch(self.slice_devices.partition("/")[0])
        num = 0 if found is None else int(found[1] or found[2])
        if num < 1:
            raise InvalidEngine(
                f"--slice-devices {self.slice_devices}: a slice has a number of devices, one at least; write "
                "cuda:N, cpu:N or paced:N@RATE"
            )
        return num

    def check(self, listen: str) -> None:
        check_num_nodes(self.min_nodes, self.max_nodes)
        _ = self.num_devices

    def submission(self) -> tuple[str, ...]:
        """Options of `sbatch`."""
        gpus = f"gpu:{self.num_devices}" if self.slice_devices.startswith("cuda") else ""
        named = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "time": self.time,
            "constraint": self.constraint,
            "reservation": self.reservation,
            "mem": self.mem,
            "gres": self.gres or gpus,
            "cpus-per-task": str(self.num_cpus),
        }
        words = [f"--{option}={value}" for option, value in named.items() if value]
        words += ["--exclusive"] if self.is_exclusive else []
        return ("--nodes=1", "--ntasks=1", "--no-requeue", *words)

    @property
    def num_cpus(self) -> int:
        """CPUs of a slice."""
        return self.slice_cpus or self.num_devices

    def findings(self, listen: str) -> list[Finding]:
        """Whether Slurm's programs are here and answer, and what they say of a slice."""
        import asyncio
        import shutil

        from swell.executors.slices.port import ClusterUnreachable, SliceRefused
        from swell.executors.slurm.slurm_client import PROGRAMS
        from swell.model.finding import bad
        from swell.model.lengths import span

        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            text = f"has no {', '.join(missing)} here: no slice can be asked for"
            return [bad("slurm", text, "start the platform on a login node, or add Slurm's folder to PATH")]
        try:
            return asyncio.run(self._asked())
        except TimeoutError:
            return [
                bad("slurm", f"did not answer within {span(ASK_S)}", "see `scontrol ping` and munge's log")
            ]
        except ClusterUnreachable as error:
            return [bad("slurm", str(error), "see `scontrol ping` and `munge -n | unmunge`")]
        except SliceRefused as error:
            return [bad("slurm", str(error), "change the options of the engine, which are those of `sbatch`")]

    async def _asked(self) -> list[Finding]:
        """Raises TimeoutError, ClusterUnreachable, SliceRefused."""
        import asyncio

        from swell.executors.slurm.slurm_client import SlurmClient
        from swell.model.finding import ok, warn

        client = SlurmClient("swell-doctor", self.partition, self.submission())
        async with asyncio.timeout(ASK_S):
            partition, read = await client.partition(), await client.read()
            await client.try_out()
        idle = sum(node.state == "idle" for node in read.nodes)
        text = f"partition {partition.name} has {len(read.nodes)} nodes, {idle} idle; it takes a slice"
        found = [ok("slurm", text)]
        if self.is_borrowing and partition.grace_s == 0:
            text = (
                f"partition {partition.name} has no GraceTime: workers on a node that is taken back are lost"
            )
            found.append(warn("slurm", text, "ask its administrator for GraceTime=30"))
        return found
