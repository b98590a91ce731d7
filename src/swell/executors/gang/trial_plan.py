"""The parts of a trial run: which are left, and what those before them have measured.

| part | its workers | begins | if it fails |
|---|---|---|---|
| `SUM` | time all-reduces, 2, 4 and 8 of them | first, once for a kind of device | the trial run is lost |
| `ALONE` | one runs the script, with each local batch | once | the trial run fails; in less memory, or without a comparison, it is repeated |
| `CROSSING` | two on two hosts time all-reduces | then, once for a kind of device, if both have idle ones | it is left out |
| `GROUP` | run the script, and make steps together | last, if the job is to be held then and devices are idle | no larger one follows |
"""  # noqa: E501 - a table

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from swell.executors.gang.allreduce import GroupTimes, allreduce_s
from swell.executors.gang.script_conditions import ScriptConditions
from swell.model.command import ProfileJob
from swell.model.job import BetweenSteps, JobFinding, Profile
from swell.wire.findings import ScriptFinding
from swell.wire.messages import CALIBRATED_BYTES, Calibrated, Profiled

#: Steps of a group that are timed.
LEAST_GROUP_STEPS, MOST_GROUP_STEPS = 3, 20


class PartKind(Enum):
    """What the workers of a part of a trial run do."""

    SUM = auto()  #: they time all-reduces
    ALONE = auto()  #: one runs the script
    CROSSING = auto()  #: they time all-reduces, each on a host of its own
    GROUP = auto()  #: they run the script, and make steps together


@dataclass(frozen=True, slots=True)
class Part:
    """One set of workers of a trial run."""

    kind: PartKind
    num_workers: int = 1

    @property
    def sums(self) -> bool:
        """Whether its workers time all-reduces, and do not run the script."""
        return self.kind in (PartKind.SUM, PartKind.CROSSING)

    @property
    def is_needed(self) -> bool:
        """Whether the job waits for it, though all devices are busy."""
        return self.kind in (PartKind.SUM, PartKind.ALONE)


ALONE, CROSSING = Part(PartKind.ALONE), Part(PartKind.CROSSING, 2)


class TrialPlan:
    """What one trial run has measured, and what it has yet to measure."""

    def __init__(
        self,
        command: ProfileJob,
        num_devices: int,
        times: GroupTimes,
    ) -> None:
        spec = command.spec
        self.times = times
        self.script = ScriptConditions(spec, command.sizes, max(command.sizes) > 1, spec.min_workers)
        self.measured: Profiled | None = None  #: by the script's own run
        self.start_s: float | None = None  #: from the fork of that to its being ready
        self.between_s: float | None = None  #: at least so long, if the worker does not tell
        self.group_step_s: dict[int, float] = {}
        self.crosses = False  #: whether there is another host, so that two workers can be on two
        self._command = command
        self._num_devices = num_devices
        self._most_workers = num_devices // spec.devices_per_worker
        self._groups: list[int] = []  #: numbers of workers that are to make steps, ascending

    # ------------------------------------------------------------ what is left
    @property
    def sums(self) -> list[Part]:
        """Parts that time all-reduces on one host, and come first."""
        sizes = self.times.unmeasured(self._command.sizes, self._num_devices)
        return [Part(PartKind.SUM, size) for size in sizes]

    @property
    def next_part(self) -> Part | None:
        """None: all is measured."""
        if sums := self.sums:
            return sums[0]
        if self.measured is None:
            return ALONE
        if self.crosses and not self.times.crossing_s:
            return CROSSING
        return Part(PartKind.GROUP, self._groups[0]) if self._groups else None

    def leave_out(self, part: Part) -> bool:
        """Do without what this part would measure, and what follows from it. False: that cannot be."""
        if part.kind is PartKind.GROUP:
            self._groups = []
        elif part.kind is PartKind.CROSSING:  # reports will show what a gang over several hosts takes
            self.crosses = False
        else:
            return False
        return True

    # ------------------------------------------------------------ what workers are told
    def group_batch(self, size: int) -> int:
        """The local batch of one of so many workers."""
        spec = self._command.spec
        return spec.batch_per_worker or -(-spec.global_batch // size)

    def group_steps(self, size: int) -> int:
        """The number of steps that take a second by what is known, within bounds."""
        assert self.measured is not None  # noqa: S101 - groups come after the script's own run
        compute_s = self.measured.compute_s
        alone_s = compute_s.get(self.group_batch(size)) or max(compute_s.values())
        step_s = alone_s + allreduce_s(self.times.allreduce_s, size, self.measured.grad_bytes)
        return min(max(round(1.0 / max(step_s, 1e-6)), LEAST_GROUP_STEPS), MOST_GROUP_STEPS)

    # ------------------------------------------------------------ what was measured
    def note_sums(self, part: Part, said: Calibrated, launch_s: float) -> None:
        """What a group tells of its all-reduces."""
        times, size = self.times, part.num_workers
        if part == CROSSING:
            times.crossing_s = said.allreduce_s
        else:
            times.allreduce_s[size], times.launch_s[size] = said.allreduce_s, launch_s

    def note_script(self, said: Profiled) -> None:
        """What the script's own run tells. It may tell more of the same later."""
        if self.measured is None and self._command.spec.hold_after_trial:
            self._groups = self._wanted_groups(said)
        self.measured, self.between_s = said, said.between_s

    def note_group(self, size: int, step_s: float) -> None:
        """A step of so many workers. Past the peak there is nothing to be found.

        References: ElasticFlow, section 6.6: profiling ends where one more device brings nothing.
        """
        self.group_step_s[size] = step_s
        self._groups = [other for other in self._groups if other != size]
        each = self._command.spec.batch_per_worker
        rates = [(1 if each is None else num) / step_s for num, step_s in sorted(self.group_step_s.items())]
        if len(rates) > 1 and rates[-1] <= rates[-2]:
            self._groups = []

    def _wanted_groups(self, measured: Profiled) -> list[int]:
        """Numbers of workers, ascending, up to k_max: what the host and the job allow."""
        most = min(self._most_workers, measured.num_shards or max(self._command.sizes))
        is_stream_of_shards = measured.num_shards is not None and not measured.samples_per_epoch
        is_held = any(finding.holds for finding in measured.findings) or len(self.script.tried_sizes) == 1
        wanted = () if is_held or is_stream_of_shards else self.script.sizes_in_memory
        return sorted(size for size in wanted if 1 < size <= most)

    # ------------------------------------------------------------ the answer
    def profile(self) -> Profile:
        """What the head is told once nothing is left."""
        assert self.measured is not None  # noqa: S101 - the script has run
        measured, script, times = self.measured, self.script, self.times
        table, num_bytes = times.allreduce_s, measured.grad_bytes
        return Profile(
            device_kind=self._command.device_kind,
            compute_s=dict(measured.compute_s),
            allreduce_s={size: allreduce_s(table, size, num_bytes) for size in script.sizes},
            grad_bytes=num_bytes,
            state_bytes=measured.state_bytes,
            divided_bytes=measured.divided_bytes,
            has_mirrors=measured.has_mirrors,
            samples_per_epoch=measured.samples_per_epoch,
            start_s=self.start_s or 0.0,
            group_launch_s=dict(times.launch_s),
            state_s_per_byte=times.send_s_per_byte,
            save_s=measured.save_s,
            crossing_s=times.extra_s(num_bytes),
            max_local_batch=script.max_local_batch,
            num_shards=measured.num_shards,
            between=self._between(measured),
            findings=self._findings(measured),
            allreduce_sizes=tuple(sorted(table)) if num_bytes <= max(CALIBRATED_BYTES) else (),
            group_step_s=dict(self.group_step_s),
            least_workers=script.least_workers if script.is_raised else 1,
        )

    def _findings(self, measured: Profiled) -> tuple[JobFinding, ...] | None:
        """None: the job cannot have several workers."""
        if max(self.script.sizes) == 1:
            return None
        why = self.script.why_not_compared
        return tuple(map(job_finding, measured.findings if why is None else (why, *measured.findings)))

    def _between(self, measured: Profiled) -> BetweenSteps | None:
        """None for a job in which no epoch ends, or whose script does not say how long one is."""
        num_steps = self._command.spec.steps_to_epoch_end(measured.samples_per_epoch)
        if num_steps is None:
            return None
        is_seen = measured.between_s is not None
        return BetweenSteps(
            time_s=max(self.between_s or 0.0, 0.0), num_steps=num_steps, num_epochs=int(is_seen)
        )


def job_finding(finding: ScriptFinding) -> JobFinding:
    """The finding as the head keeps it."""
    return JobFinding(**msgspec.structs.asdict(finding))
