"""What an agent's gangs have in common, what a job's workers are told at first, and how they may train."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import msgspec

from swell.model.job import Elasticity, JobSpec
from swell.model.target import Configuration
from swell.wire.messages import EarlyStop, OnDrift, Welcome

_WELCOME = {known.name: known.default for known in msgspec.structs.fields(Welcome)}


class DeviceBinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a device id stands for on its machine."""

    torch_device: str  #: what a worker on it calls it
    kind: str  #: as in `Node.kind`
    pace_per_s: float | None = None  #: paced: samples/s, at most
    cuda: str | None = None  #: how CUDA_VISIBLE_DEVICES names it


class MeetingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """An address that the workers of a run reach, and a port that the host holds for the run."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class GangSettings:
    """What all gangs of a platform have in common. Time limits are in seconds."""

    ready_s: float = 60.0  #: from the fork of a worker to its Ready; what its zygote imports may take longer
    silence_s: float = 60.0  #: between two signs of life, once connected; a call into C may block them
    standstill_s: float = 3.0  #: until the host kills a process that was stopped by a signal
    notice_s: float = 60.0  #: for those who wait in a step to notice that one of the group is gone
    boundary_s: float = 120.0  #: from an order to the end of the step that is under way
    stuck_s: float = 600.0  #: for one for whom others wait: rank 0 may evaluate for minutes
    stop_s: float = 3.0  #: from SIGTERM to SIGKILL
    finish_s: float = 600.0  #: for the last lines of a script: evaluating, writing the final model
    leave_s: float = 10.0  #: from Left to the exit
    step_end_s: float = 5.0  #: until SIGTERM where no step of a script ends; the first word is STOP_AT_STEP
    restart_s: float = 10.0  #: from SIGTERM to SIGKILL where the script writes its own checkpoint
    trial_s: float = 120.0  #: a trial run of a script, and each calibration, take no longer
    idle_share: float = 0.05  #: a device that is used for less of the time does nothing
    idle_s: float = 600.0  #: so long, and its job's owner is warned
    audit_share: float = 0.005  #: of a gang's device time, that its audits take at most
    checkpoint_interval_s: float = 0.0  #: 0: chosen for each gang
    keep_checkpoints: int = _WELCOME["keep_checkpoints"]
    heartbeat_s: float = _WELCOME["heartbeat_s"]
    log_bytes: int = 64 << 20  #: of what the workers of a job print that names no limit


@dataclass(frozen=True, slots=True)
class JobContext:
    """One job: its request, and what each device id stands for on which host."""

    job_id: str
    spec: JobSpec
    total_steps: int | None
    bindings: Mapping[str, DeviceBinding]
    settings: GangSettings = field(default_factory=GangSettings)
    hosts: Mapping[str, str] = field(default_factory=dict)  #: by device; those not named are of one host
    #: By host; of a job whose script knows nothing of Swell.
    meeting_points: dict[str, MeetingPoint] = field(default_factory=dict)

    @property
    def limits(self) -> GangSettings:
        """The settings of its gang: a fixed job has a grace of its own."""
        if (terms := self.spec.fixed) is None:
            return self.settings
        return replace(self.settings, stop_s=terms.grace_s, step_end_s=0.0, restart_s=terms.grace_s)

    def host_of(self, devices: tuple[str, ...]) -> str:
        """Return the host of a worker on these devices."""
        return self.hosts.get(devices[0], "")

    def welcome(
        self,
        devices: tuple[str, ...],
        mode: Literal["train", "profile", "calibrate", "group"] = "train",
        **fields: Any,
    ) -> Welcome:
        """Return the welcome of a worker on these devices. The paces of its paced devices add up.

        Args:
            fields: further ones of `Welcome`, which belong to the mode.
        """
        bindings = [self.bindings[device] for device in devices]
        paces = [binding.pace_per_s for binding in bindings if binding.pace_per_s is not None]
        target = self.spec.end.target
        interval_s = self.spec.checkpoint_interval_s or self.settings.checkpoint_interval_s
        return Welcome(
            mode=mode,
            device=bindings[0].torch_device,
            global_batch=self.spec.global_batch,
            total_steps=self.total_steps,
            epochs=self.spec.end.epochs,
            seed=self.spec.seed,
            stop_on_nan=self.spec.stop_on_nan,
            on_drift=cast(OnDrift, self.spec.on_drift or "heal"),
            checkpoint_dir="",  # its host names it
            target=None if target is None else EarlyStop(**msgspec.structs.asdict(target)),
            pace_per_s=sum(paces) if paces else None,
            checkpoint_interval_s=interval_s or None,
            keep_checkpoints=self.settings.keep_checkpoints,
            heartbeat_s=self.settings.heartbeat_s,
            measures_noise=mode == "train" and self.spec.may_change_batch,
            **fields,
        )

    def may_have(self, batch: int | None) -> bool:
        """Whether a change may give it this batch; None is its own."""
        spec = self.spec
        if batch is None or batch == spec.global_batch:
            return True
        if spec.batch_per_worker is not None:
            return batch % spec.batch_per_worker == 0
        most = spec.max_batch if spec.elasticity is Elasticity.LIVE else None
        return most is not None and spec.least_batch <= batch <= most

    def configuration_of(self, num_workers: int, told: Configuration) -> Configuration:
        """Return how a group of so many workers runs that was told to run like this.

        The job's own batch is None, however it was said. Where each worker has a batch of its own the group's
        follows from their number, also after a loss that the head has not heard of yet.
        """
        own, each = self.spec.global_batch, self.spec.batch_per_worker
        batch = told.global_batch if each is None else each * num_workers
        return msgspec.structs.replace(told, global_batch=None if batch == own else batch)


@dataclass(frozen=True, slots=True)
class LocalRank:
    """Where one rank of a group stands among those of its host, as torchrun numbers them."""

    local_rank: int = 0
    local_world_size: int = 1
    group_rank: int = 0  #: of its host, counted by first appearance


def local_ranks(hosts: Sequence[str]) -> list[LocalRank]:
    """
    Args:
        hosts: by rank.
    """
    sizes, seen = Counter(hosts), Counter[str]()
    order = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
    ranks = []
    for host in hosts:
        ranks.append(LocalRank(seen[host], sizes[host], order[host]))
        seen[host] += 1
    return ranks
