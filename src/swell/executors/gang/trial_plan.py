"""The parts of a trial run: which are left, and what those before them have measured.

| part | its workers | begins | if it fails |
|---|---|---|---|
| `SUM` | time all-reduces, 2, 4 and 8 of them | first, once for a kind of device | the trial run is lost |
| `ALONE` | one runs the script, with each local batch | once | the trial run fails; in less memory, or without a comparison, it is repeated |
| `CROSSING` | two on two hosts time all-reduces | then, once for a kind of device, if both have idle ones | it is left out |
| `GROUP` | run the script, and make steps together | last, if the job is to be held then and devices are idle | no larger one follows |
"""  # noqa: E501 - a table

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from swell.executors.gang.gang_record import half
from swell.model.command import ProfileJob
from swell.model.job import JobSpec, Profile
from swell.script_facts import BetweenSteps, ScriptFinding, not_compared
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

    def __init__(self, command: ProfileJob, num_devices: int, times: GroupTimes) -> None:
        spec = command.spec
        self.times = times
        self.script = ScriptConditions(spec, tuple(command.sizes), max(command.sizes) > 1)
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
        self._command = msgspec.structs.replace(self._command, spec=self._command.spec.completed(said.own))
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
        wanted = () if is_held or is_stream_of_shards else self.script.sizes
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
            own=measured.own,
        )

    def _findings(self, measured: Profiled) -> tuple[ScriptFinding, ...] | None:
        """None: the job cannot have several workers."""
        if max(self.script.sizes) == 1:
            return None
        why = self.script.why_not_compared
        return tuple(measured.findings) if why is None else (why, *measured.findings)

    def _between(self, measured: Profiled) -> BetweenSteps | None:
        """None for a job in which no epoch ends, or whose script does not say how long one is."""
        num_steps = self._command.spec.steps_to_epoch_end(measured.samples_per_epoch)
        if num_steps is None:
            return None
        is_seen = measured.between_s is not None
        return BetweenSteps(
            time_s=max(self.between_s or 0.0, 0.0), num_steps=num_steps, num_epochs=int(is_seen)
        )


# ---------------------------------------------------------------- how the script runs next
#: Local batches over the range of an open batch: each twice the one before, or more if these are too many.
MOST_OF_RANGE = 8


@dataclass(slots=True)
class ScriptConditions:
    """They change where a run of the script has failed for want of memory, or could not be compared."""

    spec: JobSpec
    sizes: tuple[int, ...]  #: worker counts that the job may have
    compares: bool  #: one worker with two, which takes more memory than all that follows
    max_local_batch: int | None = None  #: samples that fit on a device at once, as far as is known
    why_not_compared: ScriptFinding | None = None
    resumes: bool = True  #: it is tried whether the script can go on from a checkpoint

    @property
    def tried_sizes(self) -> tuple[int, ...]:
        """The sizes whose parts of a batch are measured: one, where only that is known to go well."""
        finding = self.why_not_compared
        is_held = finding and finding.holds and finding.name not in self.spec.accept_differences
        return (min(self.sizes),) if is_held else self.sizes

    @property
    def batches(self) -> tuple[int, ...]:
        """The local batches that are measured."""
        return local_batches(self.spec, self.tried_sizes, self.max_local_batch)

    def halve(self, num_samples: int) -> bool:
        """So many samples did not fit. Returns whether fewer are left to be tried."""
        bound = half(num_samples, self.max_local_batch)
        is_new, self.max_local_batch = bound != self.max_local_batch, bound
        return is_new

    def do_not_compare(self, why: ScriptFinding) -> None:
        """Leave out the check that the script did not stand.

        That is the comparison or, where none is made any more, whether the script can go on.
        """
        self.resumes = self.resumes and self.compares
        is_first = self.why_not_compared is None or not self.why_not_compared.holds
        self.compares, self.why_not_compared = False, why if is_first else self.why_not_compared

    def take_less(self) -> bool:
        """The process ran out of memory, wherever it was. Returns whether less is left to be tried."""
        if not self.compares:
            return False
        self.do_not_compare(not_compared("there was too little memory for both"))
        return True


def local_batches(spec: JobSpec, sizes: Sequence[int], max_local_batch: int | None) -> tuple[int, ...]:
    """Samples of one worker, in the order in which they are to be measured.

    A batch that stays is measured as each size divides it, the largest part first: memory runs out early
    if it does. An open batch is measured from the smallest part up, for the largest may take very long.

    Args:
        max_local_batch: samples that fit on a device at once; None: no limit is known.
    """
    if spec.batch_per_worker is not None:
        return (spec.batch_per_worker,)
    if not spec.global_batch:
        return ()  # the worker finds them
    own = {-(-spec.global_batch // size) for size in sizes}
    if spec.max_batch is None:
        return tuple(sorted(own, reverse=True))
    # Evenly by ratio, from the least batch on most workers to the largest on fewest.
    low, high = -(-spec.least_batch // max(sizes)), -(-spec.max_batch // min(sizes))
    if max_local_batch is not None:
        high = max(low, min(high, max_local_batch))
    num = min(MOST_OF_RANGE, (high // low).bit_length())
    ratio = (high / low) ** (1.0 / max(num - 1, 1))
    return tuple(sorted(own | {low, high} | {round(low * ratio**index) for index in range(num)}))


# ---------------------------------------------------------------- what groups take
#: Groups larger than this are not measured, but extrapolated.
MAX_MEASURED = 8
#: For which it is worked out how long sums take over two or more.
NUMS_OF_HOSTS = (2, 3, 4, 8, 16)


class GroupTimes(msgspec.Struct, kw_only=True):
    """Times measured on groups of workers that run no script, on one kind of device."""

    allreduce_s: dict[int, dict[int, float]] = {}  #: workers on one host -> bytes -> seconds
    crossing_s: dict[int, float] = {}  #: likewise, of two workers on two hosts
    #: Workers on one host -> seconds from the first fork until all are in the group.
    launch_s: dict[int, float] = {}

    @property
    def send_s_per_byte(self) -> float | None:
        """Seconds to send a byte from one worker to another: in a sum of two, each sends all it has.

        None where no sum of two was measured.
        """
        points = self.allreduce_s.get(2)
        return points[max(points)] / max(points) if points else None

    def unmeasured(self, sizes: Sequence[int], num_devices: int) -> list[int]:
        """Powers of two up to what is asked for, what there is, and `MAX_MEASURED`, less those known."""
        most = min(MAX_MEASURED, max(sizes), num_devices)
        return [size for size in (2, 4, 8) if size <= most and size not in self.allreduce_s]

    def extra_s(self, num_bytes: int) -> dict[int, dict[int, float]]:
        """Hosts -> workers -> seconds that gradients of `num_bytes` take longer there than on one host.

        A ring of h hosts sends 2 (h - 1) messages of 1 / h of the bytes, one after the other, and one of two
        hosts 2 messages of a half: so it takes as long as h - 1 sums of two hosts of 2 / h of the bytes. What
        workers say is a sum of its own there, which takes as long as the smallest one.
        """
        if not self.crossing_s:
            return {}
        within_s = allreduce_s(self.allreduce_s, 2, num_bytes)
        said_s = self.crossing_s[min(self.crossing_s)]
        two_s = {num: sum_s(self.crossing_s, 2 * num_bytes // num) + said_s for num in NUMS_OF_HOSTS}
        return {num: {2: max(0.0, (num - 1) * time_s - within_s)} for num, time_s in two_s.items()}


def allreduce_s(table: Mapping[int, Mapping[int, float]], num_workers: int, num_bytes: int) -> float:
    """Seconds for gradients of `num_bytes` in a group of `num_workers`; linear between points, log-log.

    Args:
        table: workers -> bytes -> seconds.
    """
    if num_workers == 1 or not table:
        return 0.0
    by_size = {size: sum_s(points, num_bytes) for size, points in table.items()}
    return _interpolate(by_size, num_workers)


def sum_s(points: Mapping[int, float], num_bytes: int) -> float:
    """Seconds for so many bytes; beyond the largest measured number they grow as the bytes do.

    That is no less than a sum takes whose time is a latency and a time per byte.
    """
    most = max(points)
    return _interpolate(points, min(num_bytes, most)) * max(1.0, num_bytes / most)


def _interpolate(points: Mapping[int, float], at: float) -> float:
    """Through the two points around `at`; beyond the outermost the line goes on, but never falls."""
    known = sorted((math.log(x), math.log(max(y, 1e-9))) for x, y in points.items())
    x = math.log(max(at, 1))
    if len(known) == 1:
        return math.exp(known[0][1])
    index = min(max(sum(each[0] < x for each in known), 1), len(known) - 1)
    (x0, y0), (x1, y1) = known[index - 1], known[index]
    slope = (y1 - y0) / (x1 - x0)
    if x < x0 or x > x1:
        slope = max(slope, 0.0)
    base_x, base_y = (x0, y0) if x < x0 else (x1, y1)
    return math.exp(base_y + slope * (x - base_x))
