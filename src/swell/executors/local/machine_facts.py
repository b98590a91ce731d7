"""What a machine has, as far as it matters to a platform."""

from __future__ import annotations

import msgspec

from swell.model.share_mode import ShareMode


class MachineOffer(msgspec.Struct, frozen=True, kw_only=True):
    """One way to limit gangs, or to run containers, on this machine."""

    name: str
    why_not: str = ""  #: empty: it can be used
    remedy: str = ""  #: how it could be, or could do more
    note: str = ""  #: what to know of it: where it is, or its version

    @property
    def is_offered(self) -> bool:
        return not self.why_not


class TorchBuild(msgspec.Struct, frozen=True, kw_only=True):
    """The torch of this interpreter."""

    version: str
    cuda: str = ""  #: version that it was built for; empty: for none


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a machine offers, and their driver."""

    driver: str  #: version
    cuda: str  #: the newest version of CUDA that the driver knows
    used: dict[str, tuple[int, ...]] = {}  #: GPU -> processes that are none of the platform's


class ShareFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Limiters that enforce the CPU shares of jobs, or could."""

    mode: ShareMode
    used: str  #: name of a limiter; empty: none
    offers: tuple[MachineOffer, ...]


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A `..._problem` is empty if there is none."""

    devices: dict[str, int]  #: kind -> number, as `--devices` offers them
    devices_problem: str
    gpu_problem: str  #: why NVML tells of no GPU
    torch: TorchBuild | None  #: None: it is not installed
    shares: ShareFacts
    engines: tuple[MachineOffer, ...]  #: of containers
    has_trial_layers: bool  #: what a script writes in its trial run can stay in layers of its own
    state_folder: str  #: or the nearest folder above that is there
    state_free_bytes: int
    shared_free_bytes: int  #: -1: there is no shared memory
    gpus: GpuFacts | None = None  #: None: it offers none
