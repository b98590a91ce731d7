"""The options that every machine of a platform has: of `swell up` for its own, of `swell node` for others."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.remote.host_address import check_address
from swell.model.option import told_options
from swell.model.target import ShareKind


def _cores(said: str) -> float:
    cores = float(said)
    if not math.isfinite(cores):
        raise ValueError(f"{said} is no number of cores; name one, or 0 for all of them")
    return cores


def _address(said: str) -> str:
    return check_address(said) if said else ""


def absolute_path(said: str) -> str:
    """Return the same path from any folder; empty stays empty."""
    return str(Path(said).expanduser().absolute()) if said else ""


MACHINE_OPTIONS = told_options(
    """
devices: DEVICES
    auto, cpu, cpu:N, cuda, cuda:N, or paced devices, which train for real at a fixed speed:
    paced:DEVICES@SAMPLES_PER_S. Behind it the islands in which they are joined closer, the outermost first:
    /4/2 for two sockets with two switches each. For `swell up` also none, and
    paced:NODESxDEVICES@SAMPLES_PER_S or paced:RACKSxNODESxDEVICES@SAMPLES_PER_S. Default: auto.
rack: NAME
    Rack in which this machine stands: a job gets machines of one rack if it can. Default: rack0.
cores: N
    Cores of this machine that all workers share; with more devices than cores, by CPU share. Default: 0,
    which is all.
cpu_shares (rare): MODE
    What a job's CPU share means: weight (others get what it does not use), quota (a hard limit) or off.
    Default: weight.
advertise (rare): ADDRESS
    IP address of this machine at which workers of other nodes reach its own. Default: the one that the head
    sees; of the head, that of --listen if it is one IP address.
""",
    cores=_cores,
    advertise=_address,
)


class MachineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a machine runs workers. A field with a meaning is an option of the same name."""

    devices: str = "auto"
    rack: str = ""
    cores: float = 0.0
    cpu_shares: ShareKind = ShareKind.WEIGHT
    advertise: str = ""

    @property
    def sharing(self) -> CoreSharing:
        """How workers share the cores."""
        return CoreSharing(self.cores or None, self.cpu_shares)
