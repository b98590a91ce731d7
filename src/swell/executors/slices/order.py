"""How the host of a slice is called, what its machine needs to start it, and where it says why it ends."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swell.executors.local.processes.strays import HOST_MODULE

#: In the folder of a slice: that of its host.
STATE_FOLDER = "state"
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_CHARACTERS = 40
#: Before what a program of Swell says to people.
_TELLS = "swell: "


class SliceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but what only the node knows."""

    platform: str
    join: str  #: HEAD:PORT
    token: str
    devices: str
    is_borrowed: bool = False
    grace_s: float = 0.0  #: from SIGTERM to SIGKILL
    num_cpus: int = 1


def host_words(order: SliceOrder, folder: Path, name: str, rack: str = "") -> list[str]:
    """Return the command line of a host, without the join token. `folder`: of the slice."""
    words = [sys.executable, "-P", "-m", HOST_MODULE, "--state", str(folder / STATE_FOLDER)]
    words += ["--join", order.join, "--name", name, "--devices", order.devices]
    words += ["--grace", f"{order.grace_s:g}"] if order.grace_s else []
    words += ["--rack", rack] if rack else []
    return [*words, "--borrowed"] if order.is_borrowed else words


def host_name(node: str, slice_id: int) -> str:
    """Return the name of a host, `NODE-ID`; no other host of a platform has the same."""
    suffix = f"-{slice_id}"
    plain = _STRANGE.sub("-", node).strip("-")[: _MAX_CHARACTERS - len(suffix)] or "node"
    return f"{plain}{suffix}"


def told_at_end(lines: Sequence[str]) -> str:
    """Return why a host has ended, as its output has it last; empty: it has not said so."""
    said = [line.removeprefix(_TELLS) for line in lines if line.startswith(_TELLS)]
    return said[-1] if said else ""


def slice_of(host: str) -> int | None:
    """Return the id of the slice that runs the host of this name; None: it is no such name."""
    node, _, number = host.rpartition("-")
    return int(number) if node and re.fullmatch("[0-9]+", number) else None
