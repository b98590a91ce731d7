"""Filling what a trace lacks, by rules."""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import msgspec
import numpy as np

from swell.model.job import JobClass
from swell.model.option import told_options
from swell.model.quantities import span
from swell.sim.profiles.curve import ProfileSet, ThroughputCurve, UnknownProfile, pairs
from swell.sim.traces.entry import Trace, TraceError, TraceJob, Workload, WorkloadJob
from swell.sim.traces.record import LineRemarks


class JobNumbers(msgspec.Struct, frozen=True):
    """A job's numbers in [0, 1). All are drawn for every job, so that one rule does not shift another."""

    model: float
    deadline: float
    best_effort: float
    soft: float
    elastic: float
    fate: float
    moment: float


#: Limit of time of a fixed job that tells none: users ask for more time than they need.
LIMIT_DURATIONS = 2.0


class UnknownValue(ValueError):
    """The job cannot be filled; the text says what is missing."""


def fill(trace: Trace, profiles: ProfileSet, rules: FillRules | None = None) -> Workload:
    """Every job of the trace, complete or counted among the dropped.

    Raises:
        UnknownProfile: a job's model or global batch is not among the profiles, and the rules refuse that.
    """
    rules = rules or FillRules()
    filling, jobs = _FillState(profiles, rules), list[WorkloadJob]()
    draws = np.random.default_rng(rules.seed).random((len(trace.jobs), len(JobNumbers.__struct_fields__)))
    for job, numbers in zip(trace.jobs, draws.tolist(), strict=True):
        try:
            jobs.append(filling.complete(job, JobNumbers(*numbers)))
        except UnknownValue as error:
            filling.dropped[job.id] = str(error)
            filling.applied.settle(has_job=False)
        else:
            filling.applied.settle(has_job=True)
    return Workload(
        jobs=tuple(jobs),
        dropped=filling.dropped,
        filled=filling.applied.lines(),
        profiles=profiles.name,
        source=trace.source,
        epoch_s=trace.epoch_s,
        tells_losses=any(job.loss_curve is not None for job in jobs),
    )


class _FillState:
    """What jobs of a trace are filled from, what was left out, and which rules were applied."""

    def __init__(self, profiles: ProfileSet, rules: FillRules) -> None:
        self.dropped = dict[str, str]()
        self.applied = LineRemarks()
        self._profiles = profiles
        self._rules = rules
        self._pairs = pairs(profiles)
        self._curve = cache(profiles.curve)
        self._covering = cache(self._find_covering)

    def complete(self, job: TraceJob, draw: JobNumbers) -> WorkloadJob:
        """Raises UnknownValue."""
        curve, is_drawn = self._curve_of(job, draw)
        requested = self._requested(job, curve)
        num_steps, duration_s = self._work(self._without_steps(job) if is_drawn else job, curve, requested)
        job = self._with_limit(job, duration_s, draw)
        deadline_s, job_class = self._deadline(job, job.time_limit_s or duration_s, draw)
        dies_at_step, cancel_s = self._fate(job, num_steps, duration_s, draw)
        least, most = self._batch_range(job, curve) or (None, None)
        return WorkloadJob(
            **msgspec.structs.asdict(job)
            | {
                "model": curve.model,
                "global_batch": curve.global_batch,
                "num_steps": num_steps,
                "deadline_s": deadline_s,
                "is_best_effort": job_class is JobClass.BEST_EFFORT or None,
                "is_soft": job_class is JobClass.SOFT or None,
                "num_devices": requested,
                "duration_s": duration_s,
                "tenant": job.tenant or job.user,
                "min_batch": least,
                "max_batch": most,
                "is_elastic": draw.elastic < self._rules.elastic_share,
                "dies_at_step": dies_at_step,
                "cancel_s": cancel_s,
            }
        )

    def _note(self, rule: str) -> None:
        self.applied.add(rule)

    def _curve_of(self, job: TraceJob, draw: JobNumbers) -> tuple[ThroughputCurve, bool]:
        """Return the job's curve, and whether it was drawn, so that its model is not that of the log."""
        if job.model is not None:
            try:
                return self._curve(job.model, self._batch_of(job, job.model, draw)), False
            except UnknownProfile as error:
                self._meet_unknown(job, error)
        else:
            self._note(f"model and batch drawn from profiles {self._profiles.name!r}")
        choices = self._covering(max(job.num_devices or 1, job.min_devices or 1))
        return self._curve(*choices[int(draw.model * len(choices))]), True

    def _without_steps(self, job: TraceJob) -> TraceJob:
        """Steps of one model are no steps of another: a job keeps the time that it took."""
        if job.num_steps is None or job.duration_s is None:
            return job
        self._note("steps of the log set aside, for its model was drawn: the logged duration is kept")
        return msgspec.structs.replace(job, num_steps=None)

    def _batch_of(self, job: TraceJob, model: str, draw: JobNumbers) -> int:
        if job.global_batch is not None:
            return job.global_batch
        if job.min_batch is not None:
            self._note("batch = the smallest of its range")
            return job.min_batch
        batches = self._profiles.batches(model)
        self._note("batch drawn from its model's")
        return batches[int(draw.model * len(batches))]

    def _batch_range(self, job: TraceJob, curve: ThroughputCurve) -> tuple[int, int] | None:
        """Return the range of batches that the trace allows, cut to what was measured; None without one."""
        if job.max_batch is None:
            return None
        if curve.batches is None:
            self._note(
                f"its range of batches is left out: profiles {self._profiles.name!r} know one batch a job"
            )
            return None
        asked = (job.min_batch or curve.global_batch, job.max_batch)
        least, most = max(asked[0], curve.batches.least_batch), min(asked[1], curve.batches.most_batch)
        if not least <= curve.global_batch <= most:
            self._note("its range of batches is left out: its batch was drawn, and is not within it")
            return None
        if (least, most) != asked:
            self._note("range of batches cut to what was measured")
        return least, most

    def _meet_unknown(self, job: TraceJob, error: UnknownProfile) -> None:
        if self._rules.unknown == "refuse":
            raise UnknownProfile(
                f"job {job.id!r}: {error}; or take --unknown draw, or --unknown drop"
            ) from error
        if self._rules.unknown == "drop":
            raise UnknownValue(str(error))
        self._note(f"model or batch unknown to profiles {self._profiles.name!r}, drawn from them")

    def _find_covering(self, num_devices: int) -> tuple[tuple[str, int], ...]:
        """Pairs measured at this size; all where none is, and the size will be cut."""
        curves = {pair: self._curve(*pair) for pair in self._pairs}
        covering = tuple(
            pair for pair, curve in curves.items() if curve.min_workers <= num_devices <= curve.max_workers
        )
        return covering or self._pairs

    def _requested(self, job: TraceJob, curve: ThroughputCurve) -> int:
        if (least := job.min_devices or 1) > curve.max_workers:
            raise UnknownValue("its state needs more devices than its model was measured on")
        if least > max(curve.min_workers, job.num_devices or 0):
            self._note("devices asked for set to the fewest that hold its state")
            return least
        if job.num_devices is None:
            self._note("devices asked for set to the fewest its model fits on")
            return curve.min_workers
        if job.num_devices > curve.max_workers:
            self._note("asked for more devices than its model was measured on, set to the most measured")
            return curve.max_workers
        if job.num_devices < curve.min_workers:
            self._note("asked for fewer devices than its model fits on, set to the fewest it fits on")
            return curve.min_workers
        return job.num_devices

    def _work(self, job: TraceJob, curve: ThroughputCurve, requested: int) -> tuple[int, float]:
        """Steps, and seconds at the size asked for."""
        rate_per_s = curve.rate_at(requested)
        if job.duration_s is None:
            if job.num_steps is None and curve.num_steps is not None:
                self._note("steps = those that its model took at its batch when it was measured")
                return curve.num_steps, curve.num_steps / rate_per_s
            if job.num_steps is None:
                raise UnknownValue(
                    f"tells neither its duration nor its steps, nor do profiles {self._profiles.name!r}"
                )
            self._note("duration = steps / (steps/s at the size asked for)")
            return max(1, round(job.num_steps)), job.num_steps / rate_per_s
        if job.num_steps is None:
            self._note("steps = duration x steps/s at the size asked for")
            return max(1, round(job.duration_s * rate_per_s)), job.duration_s
        return max(1, round(job.num_steps)), job.duration_s

    def _deadline(self, job: TraceJob, duration_s: float, draw: JobNumbers) -> tuple[float | None, JobClass]:
        rules = self._rules
        if job.is_best_effort or rules.deadlines == "none":
            return None, JobClass.BEST_EFFORT
        deadline_s = job.deadline_s
        if deadline_s is None or rules.deadlines == "all":
            if draw.best_effort < rules.best_effort_share:
                self._note("made best-effort")
                return None, JobClass.BEST_EFFORT
            low, high = rules.tightness
            length = "duration" if job.time_limit_s is None else "time limit"
            self._note(f"deadline = submission + U[{low:g}, {high:g}] x {length}")
            deadline_s = job.submit_s + (low + (high - low) * draw.deadline) * duration_s
        if job.is_soft is None and draw.soft < rules.soft_share:
            self._note("deadline made soft")
            return deadline_s, JobClass.SOFT
        return deadline_s, JobClass.SOFT if job.is_soft else JobClass.STRICT

    def _with_limit(self, job: TraceJob, duration_s: float, draw: JobNumbers) -> TraceJob:
        """Return the job with its kind, and its limit of time if it is a fixed one; others have none."""
        kind, limit_s = job.job_kind, job.time_limit_s
        if kind is None and draw.elastic >= 1.0 - self._rules.fixed_share:
            self._note("made fixed")
            kind = "fixed"
        if kind in (None, "elastic"):
            return msgspec.structs.replace(job, time_limit_s=None)
        if limit_s is None:
            self._note(f"time limit = {LIMIT_DURATIONS:g} x duration")
            limit_s = LIMIT_DURATIONS * duration_s
        is_best_effort = True if kind == "session" else job.is_best_effort
        return msgspec.structs.replace(
            job, job_kind=kind, time_limit_s=limit_s, is_best_effort=is_best_effort
        )

    def _fate(
        self, job: TraceJob, num_steps: int, duration_s: float, draw: JobNumbers
    ) -> tuple[int | None, float | None]:
        """(step at which it dies, when it is given up)."""
        rules = self._rules
        if draw.fate < rules.buggy_share:
            self._note(f"buggy: dies within {span(rules.buggy_within_s)} of training")
            alive_share = min(1.0, draw.moment * rules.buggy_within_s / duration_s)
            return max(1, math.ceil(alive_share * num_steps)), None
        if draw.fate < rules.buggy_share + rules.cancelled_share:
            self._note("given up by its user before submission + duration")
            return None, job.submit_s + draw.moment * duration_s
        return None, None


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise ValueError(f"{text!r} is no range; write LOW:HIGH, as 0.5:1.5") from None


FILL_OPTIONS = told_options(
    """
seed: N
    Random seed. Default: 0.
deadlines: WHICH
    Which deadlines to draw at random: missing, all or none. Default: missing.
tightness: LOW:HIGH
    Range of a drawn deadline: submission plus this many times the job's duration. Default: 0.5:1.5.
best_effort_share (--best-effort): SHARE
    Share of the jobs without a deadline that stay without one (best_effort). Default: 0.
soft_share (--soft): SHARE
    Share of the deadlines that are soft. Default: 0.
fixed_share (--fixed): SHARE
    Share of the jobs that are fixed: one size, a limit of time, no resize. Default: 0.
unknown: WHAT
    Jobs whose model has no profile: refuse the trace, draw another model, or drop the job: refuse, draw,
    drop. Default: refuse.
""",
    tightness=_range,
)


END_OPTIONS = told_options("""
buggy_share (--buggy, rare): SHARE
    Share of jobs that crash early. Default: 0.
cancelled_share (--cancelled, rare): SHARE
    Share of jobs that their users cancel. Default: 0.
""")


class FillRules(msgspec.Struct, frozen=True, kw_only=True):
    """Each rule applies to what a job does not tell itself; the same seed draws the same.

    A job without model or global batch gets one of the profile set's pairs, each as likely as the others, of
    those measured at the size it asks for. Steps are duration x steps/s at that size, durations steps over
    it. Deadlines are submission + U[tightness] x duration.

    References: ElasticFlow, section 6.1, "Workloads" (models, iterations, deadlines); Hu et al., section 5.4
        (bugs and cancellations).
    """

    seed: int = 0
    deadlines: Literal["missing", "all", "none"] = "missing"  #: "none": no job has a deadline
    tightness: tuple[float, float] = (0.5, 1.5)
    best_effort_share: float = 0.0
    soft_share: float = 0.0  #: of the jobs with a deadline whose class the trace leaves open
    elastic_share: float = 1.0  #: the others run on what they ask for
    fixed_share: float = 0.0  #: of the jobs whose kind the trace leaves open
    unknown: Literal["refuse", "draw", "drop"] = "refuse"
    buggy_share: float = 0.0  #: they raise within `buggy_within_s` of training at the size asked for
    buggy_within_s: float = 300.0
    cancelled_share: float = 0.0  #: at a moment drawn from submission to submission + duration

    def __post_init__(self) -> None:
        """Raises TraceError for a rule that cannot be."""
        for name in (name for name in self.__struct_fields__ if name.endswith("_share")):
            if not 0.0 <= (value := getattr(self, name)) <= 1.0:
                word = name.removesuffix("_share").replace("_", "-")
                raise TraceError(f"--{word} is {value:g}; it must be between 0 and 1")
        if self.buggy_share + self.cancelled_share > 1.0:
            raise TraceError("buggy_share and cancelled_share are more than 1 together")
        low, high = self.tightness
        if not 0.0 < low <= high:
            raise TraceError(f"tightness is {low}:{high}; it must be LOW:HIGH with 0 < LOW <= HIGH")
        if self.seed < 0:
            raise TraceError(f"seed is {self.seed}; it must be >= 0")
