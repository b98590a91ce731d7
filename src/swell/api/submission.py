"""A request as users write it, in YAML, in Python or on the command line.

A field is declared here once: its option of `swell submit`, its line in the reference of job files and its
part of the API's schema are made of the declaration.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from swell.api import fields
from swell.api.fields import InvalidField, shown
from swell.api.times import is_relative, with_offset
from swell.model.coding import encode
from swell.model.job import (
    LOCAL_BATCH,
    MOST_PRIORITY,
    MOST_WEIGHT,
    AfterRefusal,
    CodeSource,
    DifferenceAction,
    DriftAction,
    Elasticity,
    EndCondition,
    JobClass,
    JobSpec,
    Origin,
)

Number = int | float

KEY = re.compile(r"[\x21-\x7e]{1,200}")

#: How a moment is written, in each text that says so.
MOMENT = "2030-01-31T18:00:00"
#: Steps, epochs or samples that a job may have.
MOST_COUNTED = 10**12
_BATCH = "the script of a restart job divides its batches itself; remove it, or use elasticity live"
_END = "a restart job ends when its script does; give its steps, or use elasticity live"
#: Fields that a restart job does not have, and why.
NOT_OF_RESTART = {
    **dict.fromkeys(("batch", "batch_per_worker"), _BATCH),
    **dict.fromkeys(("epochs", "samples", "until"), _END),
    "or_nothing": "the deadline of a restart job is decided on once it runs; remove it, and cancel a job "
    "that is refused",
    "hold_after_trial": "a restart job has no trial run; remove it, and hold the job with `swell hold`",
    "stop_on_nan": "a restart job updates its model itself; remove it, and stop in the script",
    "speed": "Swell does not see the samples of a restart job; remove it, or use live",
    "on_drift": "Swell does not compare the workers of a restart job; remove it, or use elasticity live",
    "on_difference": "no step of a restart job is computed again; remove it, or use elasticity live",
    "checkpoint_interval": "the script of a restart job writes its own checkpoints; remove it, or use "
    "elasticity live",
}


def _option(metavar: str, help_text: str, more: str = "", bounds: tuple[float, float] | None = None) -> Meta:
    """A field that is an option too.

    Args:
        help_text: all that its option says of it.
        more: what the reference says besides.
        bounds: the least and the most that it may be.
    """
    limits = {} if bounds is None else dict(zip(("minimum", "maximum"), bounds, strict=True))
    return Meta(
        description=f"{help_text} {more}".rstrip(),
        extra_json_schema=limits,
        extra={"metavar": metavar, "help": help_text},
    )


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job is to be. `to_spec` checks it and makes it complete."""

    global_batch: Annotated[
        int | None,
        _option(
            "SAMPLES",
            "Samples in one optimizer step, over all workers. Not needed for `restart` jobs.",
            "It never changes, unless `batch` or `batch_per_worker` is given: then it is the batch that the "
            "learning rate was chosen for, and in which `steps` are counted. Default without these two: that "
            "of the script's loader, which the trial run tells. The script of a `restart` job divides its "
            "batches itself; `{local_batch}` in its arguments is the part of each "
            "worker, and the job has only sizes that divide the batch.",
        ),
    ] = None
    batch: Annotated[
        str | int | None,
        _option(
            "MIN:MAX",
            "Range of the samples in one step, such as `32:512`: policies that choose batches (`unified`, "
            "`saxena`) may change them while the job runs.",
            "Others keep `global_batch`. Default of `global_batch`: MIN.",
        ),
    ] = None
    batch_per_worker: Annotated[
        int | None,
        _option(
            "SAMPLES",
            "Samples in one step for each worker, whatever their number.",
            "The batch grows and shrinks with the workers, under every policy. Default of `global_batch`: "
            "that of the smallest number of workers.",
        ),
    ] = None
    name: Annotated[
        str | None,
        _option(
            "NAME",
            "Name of the job. Default: that of the script or function.",
            "Letters, digits, `.`, `_`, `-`; at most 63.",
        ),
    ] = None
    script: Annotated[
        str | None, _option("PATH", "Path of a Python script.", "This or `entry`, not both.")
    ] = None
    entry: Annotated[
        str | None,
        _option(
            "PACKAGE.MODULE[:FUNCTION]",
            "A function, called without arguments; or a module, run as `python -m` does.",
            "Written `package.module:function` or `package.module`.",
        ),
    ] = None
    args: Annotated[tuple[str | Number, ...], Meta(description="Arguments of the script (`sys.argv`).")] = ()
    workdir: Annotated[
        str | None,
        _option("FOLDER", "Folder the script runs in. Default: the job file's folder, else the current one."),
    ] = None
    code: Annotated[
        CodeSource,
        _option(
            "KIND",
            "`snapshot` (default): all workers run the code as it was submitted; `live`: each worker runs it "
            "as it is when the worker starts.",
            "A snapshot has the script, its folder and the workdir, limited to files that are tracked by git "
            "or small.",
        ),
    ] = CodeSource.SNAPSHOT
    env: Annotated[
        dict[str, str | Number | None],
        _option(
            "NAME[=VALUE]",
            "Environment variables of the workers, in addition to those of `swell up`; one without a value "
            "has that of the submitter.",
        ),
    ] = {}
    python: Annotated[
        str | None,
        _option(
            "PATH",
            "Interpreter of the workers. Default: the platform's.",
            "A path such as `~/env/bin/python`; `swell[torch]` must be installed for it.",
        ),
    ] = None
    image: Annotated[
        str | None,
        _option(
            "NAME",
            "Run the workers in a container of this image (Docker or Podman).",
            "Each host must have the image. Its `python3` is their interpreter. Default: no container.",
        ),
    ] = None
    needs: Annotated[
        tuple[str, ...],
        _option(
            "PATH",
            "Paths that a host must have to run the workers, such as that of a data set.",
            "Each host looks for them itself.",
        ),
    ] = ()
    steps: Annotated[
        int | None,
        _option(
            "N",
            "End after this many optimizer steps.",
            "Default without `epochs` and `samples`: the `epochs` or `steps` that the script gives to "
            "`elastic`, which the trial run tells.",
            bounds=(1, MOST_COUNTED),
        ),
    ] = None
    epochs: Annotated[
        Number | None,
        _option(
            "N",
            "End after this many passes over the data.",
            "May be a fraction.",
            bounds=(1e-6, MOST_COUNTED),
        ),
    ] = None
    samples: Annotated[int | None, _option("N", "End after this many samples.", bounds=(1, MOST_COUNTED))] = (
        None
    )
    until: Annotated[
        str | None,
        _option("TARGET", "End earlier, once a reported metric reaches a value, such as `'accuracy>=0.97'`."),
    ] = None
    metric: Annotated[
        str | None,
        _option(
            "NAME",
            "Evaluation function by which policies tell how much the job still learns, such as `accuracy`. "
            "Default: `loss`.",
            "It is `loss`, or a metric that the script reports. Policies that divide the cores of a node "
            "(`flowcon`) go by its change. `until` does not set it.",
        ),
    ] = None
    metric_goes: Annotated[
        Literal["down", "up"] | None,
        _option(
            "WHERE",
            "Where learning takes the metric: `down` (a loss) or `up` (an accuracy). Default: `up` if "
            "`until` names the same metric with `>=`, else `down`.",
        ),
    ] = None
    deadline: Annotated[
        str | Number | None,
        _option(
            "TIME",
            f"When the job must have ended: 18:00, 5m, tomorrow 08:00 or `{MOMENT}`; times are in your "
            "time zone, unless they have an offset.",
            "An offset is written `...+00:00`. A number is seconds since 1970.",
        ),
    ] = None
    or_nothing: Annotated[
        bool,
        _option(
            "",
            "If the deadline is refused, end. Default: run as a soft job with it: not promised, but tried.",
        ),
    ] = False
    accept_until: Annotated[
        str | Number | None,
        _option(
            "TIME",
            "If the deadline is refused, take the earliest one that can be promised, if it is no later than "
            f"TIME: `now+10m` or `{MOMENT}`.",
            "Written as `deadline` is.",
        ),
    ] = None
    job_class: Annotated[
        JobClass | None,
        _option(
            "CLASS",
            "`strict` (default with a deadline), `soft` or `best_effort` (default without one).",
            "`strict`: the deadline is promised or the job is refused. `soft`: finishing late still counts.",
        ),
    ] = msgspec.field(name="class", default=None)
    priority: Annotated[
        int,
        _option(
            "N",
            "Among the jobs of its class, those with the highest priority get devices first. Default: 0.",
            "A promise that was given is kept, whatever comes later. The jobs of all tenants are ordered by "
            "it; quotas apply as before.",
            bounds=(-MOST_PRIORITY, MOST_PRIORITY),
        ),
    ] = 0
    weight: Annotated[
        Number,
        _option(
            "W",
            "Factor of what the job gains, in policies that add up the gains of jobs. Default: 1.",
            "`bftrainer`, `saxena`, `hu`, their variants, and `elasticflow` beyond what promises need: of "
            "two jobs that are alike, the heavier one has no fewer devices.",
            bounds=(1 / MOST_WEIGHT, MOST_WEIGHT),
        ),
    ] = 1
    workers: Annotated[
        str | int | None,
        _option(
            "MIN:MAX",
            "Number of workers; `MIN:` for no upper limit (default: `1:`), or `N` for exactly N.",
            "Gangs have 1, 2, 4, 8, ... workers.",
        ),
    ] = None
    devices_per_worker: Annotated[int, _option("N", "Devices of each worker: 1, 2, 4, 8, ...")] = 1
    processes: Annotated[
        int | None,
        _option(
            "N",
            "Processes of each worker: one for each of its devices (default of live jobs), or 1 (others).",
            "Several have a default process group of their own, as under torchrun, in which the script "
            "divides the model (`fully_shard`, tensor parallel). 1: one process uses all of its devices.",
        ),
    ] = None
    kind: Annotated[
        str | tuple[str, ...] | None,
        _option(
            "KIND,...",
            "Kind of the devices that the job runs on, as `swell nodes` lists it. Default: the only one.",
            "Required where the platform has several kinds. For example `cuda:NVIDIA H200`. Of several the "
            "job gets the first that has room; `any` stands for all that the platform has.",
        ),
    ] = None
    memory: Annotated[
        str | int | None,
        _option(
            "SIZE",
            "Memory limit of all workers on a node together, such as `500MB` or `4GiB`.",
            "A number is bytes. Default: none.",
        ),
    ] = None
    log_limit: Annotated[
        str | int | None,
        _option(
            "SIZE",
            "What is kept of its output, the begin and the end, such as `1GB`. Default: 64MiB.",
            "A number is bytes, of all workers together. `swell up --set log_bytes=N` sets another default.",
        ),
    ] = None
    checkpoint_interval: Annotated[
        str | Number | None,
        _option(
            "TIME",
            "Time between two checkpoints, from 1s to 1d, such as `10m`. Default: the platform chooses.",
            "A number is seconds. The platform chooses by what a checkpoint takes and how often training is "
            "lost on its nodes.",
        ),
    ] = None
    elasticity: Annotated[
        Elasticity,
        _option(
            "KIND",
            "`live` (default): the script uses `swell.train`; `restart`: it is stopped and started from its "
            "own checkpoints.",
            "A live job is resized inside its running processes.",
        ),
    ] = Elasticity.LIVE
    estimate: Annotated[
        str | Number | None,
        _option(
            "DURATION",
            "Expected time on one worker, such as `10m`.",
            "A number is seconds. A `restart` job without `steps` is planned by it; others are measured, and "
            "`swell show` tells how wrong the estimate of a `live` job was.",
        ),
    ] = None
    seed: Annotated[int, _option("N", "Random seed of the sample order.", bounds=(0, 2**63 - 1))] = 0
    tenant: Annotated[
        str | None,
        _option(
            "NAME",
            "Team, project or user that the job belongs to, on a shared cluster.",
            "Fair-share policies divide the cluster between tenants. Jobs without a tenant share a default "
            "one.",
        ),
    ] = None
    after: Annotated[
        str | tuple[str, ...],
        _option(
            "JOB,...",
            "Jobs that must have succeeded before this one starts, by their ids or names.",
            "If one ends in another way, this job is cancelled. A job that follows others is measured, and "
            "its deadline is decided on, when it may start.",
        ),
    ] = ()
    group: Annotated[
        str | None,
        _option(
            "NAME",
            "Name of a group of jobs that belong together.",
            "`swell jobs --group NAME` compares them. The jobs of a sweep are a group. Formed as the name of "
            "a job.",
        ),
    ] = None
    tags: Annotated[
        tuple[str, ...],
        _option(
            "TAG",
            "Word by which jobs are found, such as `baseline` or `lr=0.1`.",
            "`swell jobs --tag TAG` lists them. At most 20 of 100 characters, without blanks and commas. A "
            "tag `NAME=VALUE` is a column in the table of a group.",
        ),
    ] = ()
    webhook: Annotated[
        str | None,
        _option(
            "URL",
            "Address (`https://...`) that is told of the job by signed POST requests.",
            "Default: only those that the platform has for all jobs.",
        ),
    ] = None
    on: Annotated[
        str | tuple[str, ...],
        _option(
            "EVENT,...",
            "What its address is told: `finished`, `at_risk`, `missed`, `stalled`. Default: all.",
            "`finished`: the job ended, in whichever way. `at_risk`: it is expected to end after its "
            "deadline. `missed`: the deadline is over. `stalled`: it runs, and makes no steps.",
        ),
    ] = ()
    hold_after_trial: Annotated[
        bool,
        _option(
            "",
            "Hold the job once its trial run is over, which measures as many numbers of workers as idle "
            "devices allow. `swell resume` starts it.",
        ),
    ] = False
    speed: Annotated[
        str | None,
        _option(
            "WORKERS:RATE,...",
            "Samples a second at some numbers of workers, such as `1:7100,2:13100`: believed until the job "
            "has run at a size and was measured.",
            "The trial run is made all the same. Other sizes are estimated from these. A promise counts it "
            "as it does a measured speed.",
        ),
    ] = None
    resize_up_s: Annotated[
        Number | None,
        _option(
            "SECONDS",
            "Time that a growth takes from training (R_up of BFTrainer): believed until growths of the job "
            "were measured.",
            bounds=(0, 1e6),
        ),
    ] = None
    resize_down_s: Annotated[
        Number | None,
        _option(
            "SECONDS",
            "Time that a shrink takes from training (R_dw): believed until shrinks of the job were measured.",
            bounds=(0, 1e6),
        ),
    ] = None
    keep_estimates: Annotated[
        bool,
        _option(
            "", "Count the stated `speed`, `resize_up_s` and `resize_down_s` also once they were measured."
        ),
    ] = False
    stop_on_nan: Annotated[
        bool,
        _option(
            "",
            "Fail at the first loss that is NaN or infinite, before the model is updated with it.",
            "The state before that step is saved. Default: only a warning.",
        ),
    ] = False
    accept_differences: Annotated[
        tuple[str, ...],
        _option(
            "NAME",
            "Accept that the result depends on the number of workers in this way, as the trial run found "
            "it, such as `weighted-mean`.",
            "A job with such a finding keeps its smallest number of workers otherwise. `swell check` and "
            "`swell submit` print the names.",
        ),
    ] = ()
    on_drift: Annotated[
        DriftAction | None,
        _option(
            "WHAT",
            "What to do when the workers' replicas differ: `heal` (default), `warn` or `fail`.",
            "Compared are parameters, optimizer state and hyperparameters. `heal`: all workers take those of "
            "rank 0, with a warning. `warn`: only the warning. `fail`: the job fails.",
        ),
    ] = None
    on_difference: Annotated[
        DifferenceAction | None,
        _option(
            "WHAT",
            "What to do when a new process computes a step otherwise than the workers: `hold` (default) or "
            "`roll_back`.",
            "`hold`: the job keeps its smallest number of workers. `roll_back`: it also begins again at the "
            "newest checkpoint from which a new process has computed the same.",
        ),
    ] = None

    def anchored(self, base_dir: Path, now_s: float | None = None) -> Submission:
        """The same as the submitter means it: relative paths start at `base_dir`, variables without a value
        and times without an offset are those of this process.

        Args:
            now_s: by which today and tomorrow are known; None: the present.
        """
        now_s = time.time() if now_s is None else now_s
        script = self.script and fields.anchored("script", self.script, base_dir)
        workdir = fields.anchored("workdir", self.workdir or ".", base_dir)
        return msgspec.structs.replace(
            self,
            script=script,
            workdir=workdir,
            deadline=with_offset(self.deadline, now_s),
            accept_until=with_offset(self.accept_until, now_s),
            env=fields.own_variables(self.env),
            python=self.python and fields.found_interpreter(self.python, base_dir),
            needs=tuple(fields.anchored("needs", path, base_dir) for path in self.needs),
        )

    def to_spec(self, now_s: float, base_dir: Path | None = None) -> JobSpec:
        """The complete request.

        Args:
            now_s: what `now` means in a deadline, seconds since 1970.
            base_dir: where relative paths start; None: paths must be absolute.

        Raises:
            InvalidField: names the field, the rule and the remedy.
        """
        if base_dir is not None:
            return self.anchored(base_dir, now_s).to_spec(now_s)
        min_workers, max_workers = fields.worker_range(self.workers)
        is_restart = self.elasticity is Elasticity.RESTART
        if is_restart:
            self._check_restart()
        if any(LOCAL_BATCH in str(arg) for arg in self.args):
            self._check_local_batch(min_workers)
        for name, field in declared().items():
            if field.bounds and getattr(self, name) is not None:
                within_bounds(name, getattr(self, name))
        entry = fields.entry(self.script, self.entry)
        deadline_s = fields.deadline(self.deadline, now_s)
        job_class = fields.job_class(self.job_class, deadline_s)
        if self.or_nothing:
            fields.check_strict("or_nothing", job_class)
        is_tried = job_class is JobClass.STRICT and not self.or_nothing
        return JobSpec(
            name=fields.job_name(self.name, entry),
            entry=entry,
            workdir=fields.folder("workdir", self.workdir),
            **self._batches(min_workers, max_workers),
            args=fields.arguments(self.args),
            end=self._end(),
            job_class=job_class,
            deadline_s=deadline_s,
            after_refusal=AfterRefusal.SOFT if is_tried else AfterRefusal.END,
            accept_until_s=fields.accept_until(self.accept_until, job_class, deadline_s, now_s),
            min_workers=min_workers,
            max_workers=max_workers,
            devices_per_worker=fields.power_of_two("devices_per_worker", self.devices_per_worker),
            processes_per_worker=self._processes(),
            elasticity=self.elasticity,
            estimate_s=self._estimate_s(deadline_s),
            seed=self.seed,
            tenant=fields.formed("tenant", self.tenant),
            stop_on_nan=self.stop_on_nan,
            hold_after_trial=self.hold_after_trial,
            **self._stated(),
            env=fields.variables(self.env),
            python=fields.interpreter(self.python),
            image=fields.image(self.image, self.python),
            needs=fields.needs(self.needs),
            metric=fields.metric(self.metric),
            metric_rises=fields.metric_rises(self.metric_goes, self.metric, fields.target(self.until)),
            memory_bytes=fields.size("memory", self.memory, *fields.MEMORY_BYTES),
            log_limit_bytes=fields.size("log_limit", self.log_limit, *fields.LOG_BYTES),
            **fields.kinds(self.kind),
            checkpoint_interval_s=fields.checkpoint_interval(self.checkpoint_interval),
            grows_when_distributed=is_restart,
            on_drift=self.on_drift,
            on_difference=self.on_difference,
            accept_differences=tuple(
                fields.formed("accept_differences", name) for name in self.accept_differences
            ),
            webhook=fields.webhook(self.webhook, self.on),
            after=fields.predecessors(self.after),
            group=fields.formed("group", self.group),
            tags=fields.tags(self.tags),
            priority=self.priority,
            weight=float(self.weight),
        )

    def _processes(self) -> int:
        most = 1 if self.elasticity is Elasticity.RESTART else self.devices_per_worker
        if self.processes in (None, 1, most):
            return self.processes or most
        why = "a worker of a restart job is one process; remove it, and give the job more workers instead"
        if self.elasticity is not Elasticity.RESTART:
            why = f"a worker has {self.devices_per_worker} devices; give 1, or one for each of them"
        raise InvalidField("processes", why)

    def _batches(self, min_workers: int, max_workers: int | None) -> dict[str, Any]:
        if self.elasticity is Elasticity.RESTART:  # its script divides its batches itself
            own = 1 if self.global_batch is None else self.global_batch
            return {"global_batch": fields.bounded("global_batch", own, 1, fields.MAX_BATCH)}
        return fields.batches_of(
            self.global_batch, self.batch, self.batch_per_worker, min_workers, max_workers
        )

    def _end(self) -> EndCondition:
        given = [name for name in ("steps", "epochs", "samples") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidField(
                given[1], f"{' and '.join(given)} given; give one of them, or none for the script's own end"
            )
        return EndCondition(
            steps=self.steps,
            epochs=None if self.epochs is None else float(self.epochs),
            samples=self.samples,
            target=fields.target(self.until),
        )

    def _stated(self) -> dict[str, Any]:
        """What its owner states of its speed and of what changes take."""
        stated = (self.speed, self.resize_up_s, self.resize_down_s)
        if self.speed is not None and (self.batch, self.batch_per_worker) != (None, None):
            raise InvalidField(
                "speed", "a speed is that of one batch; remove it, or `batch`/`batch_per_worker`"
            )
        if self.speed is not None and self.global_batch is None:
            raise InvalidField("speed", "a speed is that of one batch; give global_batch, too")
        if self.keep_estimates and stated == (None, None, None):
            raise InvalidField(
                "keep_estimates", "nothing is stated; give speed, resize_up_s or resize_down_s, or remove it"
            )
        up_s, down_s = (None if pause_s is None else float(pause_s) for pause_s in stated[1:])
        return {
            "speed": fields.speed(self.speed),
            "resize_up_s": up_s,
            "resize_down_s": down_s,
            "keeps_estimates": self.keep_estimates,
        }

    def _check_restart(self) -> None:
        """Raises InvalidField for what only a script that uses `swell.train` can have."""
        for name, why in NOT_OF_RESTART.items():
            if getattr(self, name) != declared()[name].default:
                raise InvalidField(name, why)

    def _check_local_batch(self, min_workers: int) -> None:
        """Raises InvalidField where no worker could be told its part of the batch."""
        if self.elasticity is not Elasticity.RESTART:
            raise InvalidField(
                "args",
                f"{LOCAL_BATCH} is for restart jobs, and Swell itself divides the batches of this one; write "
                "the batch of all workers there",
            )
        if self.global_batch is None:
            raise InvalidField(
                "global_batch", f"{LOCAL_BATCH} is a part of it; give the batch of all workers"
            )
        if self.global_batch % min_workers:
            raise InvalidField(
                "workers",
                f"{min_workers} workers cannot have equal parts of a batch of {self.global_batch}, as "
                f"{LOCAL_BATCH} in the arguments wants; choose a number that divides it",
            )

    def _estimate_s(self, deadline_s: float | None) -> float | None:
        if self.estimate is None:
            if deadline_s is not None and self.elasticity is Elasticity.RESTART and self.steps is None:
                raise InvalidField(
                    "estimate",
                    "a restart job with a deadline needs its steps, or an estimate; give its time on one "
                    "worker, such as 10m",
                )
            return None
        return fields.duration("estimate", self.estimate)


def parse(value: Any) -> Submission:
    """A submission from what JSON, YAML or keywords hold; keys are the words of the job file.

    Raises:
        InvalidField: a key is unknown or missing, or a value has the wrong type.
    """
    return fields.parsed(value, Submission, "a job")


def within_bounds(name: str, value: Number) -> Number:
    """The value of a number, if it is within the bounds of its field. Raises InvalidField."""
    return fields.bounded(name, value, *declared()[name].bounds)


def request_key(key: object) -> str:
    """The idempotency key of a request; empty if it has none. Raises InvalidField."""
    if key is None:
        return ""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise InvalidField(
            "key", f"{shown(key)} is not a valid idempotency key; use 1 to 200 printable ASCII characters"
        )
    return key


def origin_of(submission: Submission, spec: JobSpec, key: str, now_s: float) -> Origin:
    """What is to be remembered of a request that came at `now_s`."""
    return Origin(
        key=key,
        fingerprint=fingerprint(encode(submission)) if key else "",
        deadline_in_s=deadline_in_s(submission.deadline, spec, now_s),
    )


def fingerprint(content: bytes) -> str:
    """Equal for equal requests."""
    return hashlib.sha256(content).hexdigest()


def deadline_in_s(deadline: str | Number | None, spec: JobSpec, now_s: float) -> float | None:
    """How far ahead a deadline as `now+...` was; None for any other."""
    return spec.deadline_s - now_s if is_relative(deadline) and spec.deadline_s is not None else None


@dataclass(frozen=True, slots=True)
class JobField:
    """What `Submission` says of one of its fields."""

    word: str  #: its name in a job file
    kinds: tuple[Any, ...]  #: types that its value may have; None is left out
    meta: Meta
    default: Any
    bounds: tuple[Number, ...]  #: the least and the most that a number may be; empty: nothing is declared


@cache
def declared() -> dict[str, JobField]:
    """All fields by the names of their attributes."""
    hints = get_type_hints(Submission, include_extras=True)
    return {
        field.name: JobField(
            word=field.encode_name,
            kinds=fields.alternatives(hints[field.name].__origin__),
            meta=(meta := hints[field.name].__metadata__[0]),
            default=field.default,
            bounds=tuple((meta.extra_json_schema or {}).values()),
        )
        for field in msgspec.structs.fields(Submission)
    }
