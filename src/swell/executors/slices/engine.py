"""What the engines of clusters have in common: options, and what they are called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from swell.executors.engine import Engine, InvalidEngine

if TYPE_CHECKING:
    from swell.executors.slices.port import ClusterPort

_DEVICES = re.compile(r"(?:cuda|cpu):([0-9]{1,4})|paced:([0-9]{1,4})@[0-9]+(?:\.[0-9]+)?")

MaxNodes = Annotated[
    int, Meta(ge=0, description="most slices at a time; 0: as many as the nodes have room for.")
]
SliceDevices = Annotated[
    str,
    Meta(
        description="devices of a slice, which are on one node: cuda:N, cpu:N or paced:N@RATE; with Ray also "
        "auto: cuda:1 where a node of the cluster has a GPU, else cpu:1.",
        extra={"metavar": "DEVICES"},
    ),
]
IdleS = Annotated[float, Meta(ge=0, description="seconds without work until a slice is given back.")]


class SliceEngine(Engine, kw_only=True):
    """The nodes of a cluster run hosts in slices, which are asked for while jobs could use them."""

    door = "swell.executors.slices.door:SliceDoor"
    #: Between two looks at the cluster.
    period_s: ClassVar[float] = 2.0
    #: Whether there is no platform without an answer of the cluster at `swell up`.
    needs_answer: ClassVar[bool] = False
    #: Why SIGTERM is sent to a host, for people; empty: it was told to end.
    sigterm_means: ClassVar[str] = ""
    #: Command that ends slices which `swell down` has left, in words of the cluster; `{}` is the platform.
    remedy: ClassVar[str] = ""

    slice_devices: SliceDevices = "cpu:1"
    max_nodes: MaxNodes = 0
    min_nodes: Annotated[int, Meta(ge=0, description="slices that are kept while nothing needs them.")] = 0
    idle_s: IdleS = 15.0
    is_borrowed: Annotated[
        bool,
        Meta(
            description="whether nodes may be reclaimed at any second; with Slurm, only idle ones are used.",
            extra={"flags": "--borrowed/--owned"},
        ),
    ] = False

    def port(self, platform: str, folder: Path) -> ClusterPort:
        """Return the cluster, where this platform is called so.

        Args:
            folder: the platform's state folder.

        Raises DoorError, OSError: it cannot be used from here.
        """
        raise NotImplementedError

    @property
    def cluster(self) -> str:
        """Its name, for people."""
        return self.name.capitalize()

    @property
    def num_devices(self) -> int:
        """Devices of a slice. Raises InvalidEngine."""
        found = _DEVICES.fullmatch(self.slice_devices.partition("/")[0])
        num = 0 if found is None else int(found[1] or found[2])
        if num < 1:
            raise InvalidEngine(
                f"--slice-devices {self.slice_devices}: this names no kind and number of devices; "
                "write cuda:N, cpu:N or paced:N@RATE, N one at least"
            )
        return num

    @property
    def has_gpus(self) -> bool:
        return self.slice_devices.startswith("cuda")

    @property
    def about(self) -> str:
        return f"{self.cluster}: slices are asked for while jobs could use them; see `swell nodes`"

    def check(self, listen: str) -> None:
        _ = self.num_devices
        if 0 < self.max_nodes < self.min_nodes:
            raise InvalidEngine(
                f"--min-nodes {self.min_nodes}: it is more than --max-nodes {self.max_nodes}; lower it, or "
                "raise --max-nodes"
            )
