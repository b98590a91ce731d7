"""The engine of a platform on a Slurm cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from swell.executors.engine import Engine, InvalidEngine
from swell.model.lengths import span

if TYPE_CHECKING:
    from swell.model.finding import Finding

#: A host imports torch for some seconds, and workers have to move away before the end.
LEAST_TIME_S = 120.0


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
        from swell.executors.slurm.slice_devices import InvalidSlice, count_devices

        try:
            return count_devices(self.slice_devices)
        except InvalidSlice as error:
            raise InvalidEngine(f"--slice-devices {self.slice_devices}: {error}") from error

    @property
    def limit_s(self) -> float | None:
        """Time limit of a slice; None: none is named."""
        from swell.executors.slurm.columns import parse_duration

        return parse_duration(self.time) if self.time else None

    def check(self, listen: str) -> None:
        if self.min_nodes > self.max_nodes:
            raise InvalidEngine(
                f"--min-nodes {self.min_nodes}: it is more than --max-nodes {self.max_nodes}; lower it, or "
                "raise --max-nodes"
            )
        if self.time and self.limit_s is None:
            raise InvalidEngine(
                f"--time {self.time}: it must be MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS or "
                "DAYS-HOURS[:MINUTES[:SECONDS]]; write for example --time 4:00:00"
            )
        if self.limit_s is not None and self.limit_s < LEAST_TIME_S:
            raise InvalidEngine(
                f"--time {self.time}: a slice of {span(self.limit_s)} would end before its host has started "
                f"and moved its work away again; name {LEAST_TIME_S / 60:g} minutes at least"
            )
        if self.num_devices < 1:
            raise InvalidEngine(f"--slice-devices {self.slice_devices}: a slice has one device at least")

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
        return ("--nodes=1", "--ntasks=1", "--requeue", "--open-mode=append", *words)

    @property
    def num_cpus(self) -> int:
        """CPUs of a slice."""
        return self.slice_cpus or self.num_devices

    def findings(self, listen: str) -> list[Finding]:
        """Whether Slurm's programs are here and answer, and what they say of a slice."""
        from swell.executors.slurm.slurm_findings import SliceRequest, slurm_findings

        return slurm_findings(
            SliceRequest(
                partition=self.partition,
                submission=self.submission(),
                limit_s=self.limit_s,
                is_borrowing=self.is_borrowing,
            )
        )
