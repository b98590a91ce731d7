"""What the machine of a slice needs to start a host, how that is called, and where it says why it ends."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from swell.executors.node.options import NodeOptions
from swell.model.names import NAME_RULE, is_plain_name
from swell.wire.environ import GPU_ORDER

#: In the folder of a slice: that of its host.
STATE_FOLDER = "state"
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_CHARACTERS = 40
#: Before what a program of Swell says to people.
_TELLS = "swell: "
#: Before what Slurm says in the output of a step.
_OF_CLUSTER = ("slurmstepd", "srun")
#: Variables of a cluster and of the head, that would make a script take itself for a part of theirs.
_FOREIGN = ("SLURM_", "SLURMD_", "SRUN_", "RAY_", "SWELL_", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
#: Slurm's commands need it where its configuration is in no usual place.
_KEPT = "SLURM_CONF"


class SliceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a slice is to run. What only the node knows is filled in there."""

    host: NodeOptions
    token: str  #: with which the host joins
    folder: str = ""  #: of the slice, on its node

    def on(self, node: str, slice_id: int, **about: Any) -> SliceOrder:
        """Return the order on a node, with a folder that is new and for this user alone. Raises OSError.

        Args:
            about: what the node says of its host: fields of `NodeOptions`.
        """
        folder = tempfile.mkdtemp(prefix="swell-slice-")
        return msgspec.structs.replace(self, folder=folder).with_host(name=host_name(node, slice_id), **about)

    def with_host(self, **about: Any) -> SliceOrder:
        """Return the order with other options of the host."""
        return msgspec.structs.replace(self, host=msgspec.structs.replace(self.host, **about))


def host_words(order: SliceOrder, token_file: str) -> list[str]:
    """Return the command line of a host. What can be no rack is left out."""
    rack = order.host.rack
    if rack and not is_plain_name(rack):
        print(f"rack {rack!r} is left out: {NAME_RULE}", file=sys.stderr, flush=True)
        rack = ""
    options = msgspec.structs.replace(order.host, token_file=token_file, rack=rack)
    return options.command(Path(order.folder, STATE_FOLDER))


def host_environ(order: SliceOrder, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a host, by those of what its cluster has started."""
    hidden = _FOREIGN if order.host.devices.startswith("cuda") else (*_FOREIGN, "CUDA_VISIBLE_DEVICES")
    return {**own_environ(environ, hidden), **GPU_ORDER}


def own_environ(environ: Mapping[str, str], foreign: tuple[str, ...]) -> dict[str, str]:
    """Return variables without those that begin so."""
    return {name: value for name, value in environ.items() if name == _KEPT or not name.startswith(foreign)}


def host_name(node: str, slice_id: int) -> str:
    """Return the name of a host, `NODE-ID`; no other host of a platform has the same."""
    suffix = f"-{slice_id}"
    plain = _STRANGE.sub("-", node).strip("-")[: _MAX_CHARACTERS - len(suffix)] or "node"
    return f"{plain}{suffix}"


def slice_of(host: str) -> int | None:
    """Return the id of the slice that runs the host of this name; None: it is no such name."""
    node, _, number = host.rpartition("-")
    return int(number) if node and re.fullmatch("[0-9]+", number) else None


def last_words(printed: str) -> str:
    """Return why a host has ended, as its output has it last: what Swell says, else the last line."""
    lines = [line for line in printed.splitlines() if line.strip() and not line.startswith(_OF_CLUSTER)]
    said = [line.removeprefix(_TELLS) for line in lines if line.startswith(_TELLS)]
    return (said or lines or [""])[-1]
