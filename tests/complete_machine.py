"""A machine that lacks nothing."""

from __future__ import annotations

from swell.api.machine_findings import WARN_BYTES
from swell.executors.local.machine_facts import (
    GpuFacts,
    MachineFacts,
    MachineOffer,
    ShareFacts,
    TorchBuild,
)
from swell.model.share_mode import ShareMode

CGROUP_V2 = MachineOffer(name="cgroup v2", note="below /sys/fs/cgroup")
#: As it is told.
COMPLETE = MachineFacts(
    shares=ShareFacts(mode=ShareMode.WEIGHT, used="cgroup v2", offers=(CGROUP_V2,)),
    engines=(MachineOffer(name="docker", note="27.0"),),
    devices={"cuda:NVIDIA H200": 8},
    devices_problem="",
    gpu_problem="",
    gpus=GpuFacts(driver="580.159", cuda="13.0"),
    torch=TorchBuild(version="2.13.0+cu130", cuda="13.0"),
    has_trial_layers=True,
    state_folder="/state",
    state_free_bytes=WARN_BYTES,
    shared_free_bytes=WARN_BYTES,
)
