"""A request as users write it, in YAML, in Python or on the command line."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from swell.api import fields
from swell.api.batch_fields import batches_of
from swell.api.fields import InvalidField, shown
from swell.model.coding import encode
from swell.model.job import (
    AfterRefusal,
    CodeSource,
    DriftAction,
    Elasticity,
    EndCondition,
    JobClass,
    JobSpec,
    Origin,
)

Number = int | float

KEY = re.compile(r"[\x21-\x7e]{1,200}")


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job is to be. `to_spec` checks it and makes it complete."""

    global_batch: Annotated[
        int | None,
        Meta(
            description="Samples in one optimizer step, over all workers together. It never "
            "changes, unless `batch` or `batch_per_worker` is given: then it is the "
            "batch that the learning rate was chosen for, and in which `steps` are "
            "counted. Required for `live` jobs without these two; the script of a "
            "`restart` job divides its batches itself."
        ),
    ] = None
    batch: Annotated[
        str | int | None,
        Meta(
            description="`MIN:MAX`, such as `32:512`: policies that choose batches (`pollux`, "
            "`saxena`) may change the samples of a step within this range while "
            "the job runs. Others keep `global_batch`. Default of `global_batch`: MIN."
        ),
    ] = None
    batch_per_worker: Annotated[
        int | None,
        Meta(
            description="Samples in one optimizer step for each worker: the batch grows and "
            "shrinks with the workers, under every policy. Default of "
            "`global_batch`: that of the smallest number of workers."
        ),
    ] = None
    name: Annotated[
        str | None,
        Meta(description="Letters, digits, `.`, `_`, `-`; at most 63. Default: the script's or function's."),
    ] = None
    script: Annotated[str | None, Meta(description="Path of a Python script. This or `entry`, not both.")] = (
        None
    )
    entry: Annotated[str | None, Meta(description="`package.module:function`, called without arguments.")] = (
        None
    )
    args: Annotated[tuple[str | Number, ...], Meta(description="Arguments of the script (`sys.argv`).")] = ()
    workdir: Annotated[
        str | None,
        Meta(description="Folder the script runs in. Default: the job file's folder, else the current one."),
    ] = None
    code: Annotated[
        CodeSource,
        Meta(
            description="`snapshot`: all workers run the code as it was submitted: the "
            "script, its folder and the workdir, limited to files that are "
            "tracked by git or small. `live`: each worker runs the files as they "
            "are when it starts."
        ),
    ] = CodeSource.SNAPSHOT
    env: Annotated[
        dict[str, str | Number | None],
        Meta(
            description="Environment variables of the workers, in addition to those of "
            "`swell up`. A name without a value takes its value from the "
            "submitter's environment."
        ),
    ] = {}
    python: Annotated[
        str | None,
        Meta(
            description="Interpreter of the workers, such as `~/env/bin/python`; "
            "`swell[torch]` must be installed for it. Default: the platform's."
        ),
    ] = None
    image: Annotated[
        str | None,
        Meta(
            description="Run the workers in a container of this image, which must be on the machine "
            "already. Its `python3` is their interpreter. Default: no container."
        ),
    ] = None
    needs: Annotated[
        tuple[str, ...],
        Meta(
            description="Paths, such as that of a data set, that a host must have to run workers of the job. "
            "Each host looks for them itself."
        ),
    ] = ()
    steps: Annotated[int | None, Meta(description="End after this many optimizer steps.")] = None
    epochs: Annotated[
        Number | None, Meta(description="End after this many passes over the data. May be a fraction.")
    ] = None
    samples: Annotated[int | None, Meta(description="End after this many samples.")] = None
    until: Annotated[
        str | None, Meta(description="End earlier, once a reported metric reaches a value: `accuracy>=0.97`.")
    ] = None
    metric: Annotated[
        str | None,
        Meta(
            description="Name of the job's evaluation function: `loss`, or a metric that the script reports, "
            "such as `accuracy`. Policies that divide the cores of a node (`flowcon`) tell by its change how "
            "much the job still learns. `until` does not set it. Default: `loss`."
        ),
    ] = None
    metric_goes: Annotated[
        Literal["down", "up"] | None,
        Meta(
            description="Where learning takes the metric: `down` (a loss) or `up` (an accuracy). "
            "Default: `up` if `until` names the same metric with `>=`, else `down`."
        ),
    ] = None
    deadline: Annotated[
        str | Number | None,
        Meta(
            description="When the job must have ended: `now+3m`, a time such as "
            "`2030-01-31T18:00:00` (local, or with a zone: `...+00:00`), or "
            "seconds since 1970."
        ),
    ] = None
    or_soft: Annotated[
        bool,
        Meta(
            description="`true`: if the deadline of a strict job is refused, it runs as a soft job with that "
            "deadline, without a promise. Default: a refused job ends."
        ),
    ] = False
    accept_until: Annotated[
        str | Number | None,
        Meta(
            description="If the deadline of a strict job is refused, the earliest one that can be promised "
            "is taken at once, provided that it is no later than this time. Written as `deadline` is."
        ),
    ] = None
    job_class: Annotated[
        JobClass | None,
        Meta(
            description="`strict`: the deadline is promised or the job is refused. `soft`: finishing late "
            "still counts. `best_effort`: no deadline. Default: strict with a deadline, best_effort without."
        ),
    ] = msgspec.field(name="class", default=None)
    workers: Annotated[
        str | int | None,
        Meta(
            description="`MIN:MAX`, `MIN:` for no upper limit, or `N` for exactly N. Gangs have 1, 2, 4, 8, "
            "... workers. Default: `1:`."
        ),
    ] = None
    devices_per_worker: Annotated[int, Meta(description="Devices of each worker: 1, 2, 4, 8, ...")] = 1
    kind: Annotated[
        str | None,
        Meta(
            description="Kind of the devices that the job runs on, as `swell nodes` lists it, such as "
            "`cuda:NVIDIA H200`. Required where the platform has several kinds. Default: the only one."
        ),
    ] = None
    memory: Annotated[
        str | int | None,
        Meta(
            description="Limit of the memory of all workers of the job on one node together, such as "
            "`500MB` or `4GiB`, or in bytes. Default: none."
        ),
    ] = None
    elasticity: Annotated[
        Elasticity,
        Meta(
            description="`live`: the script uses `swell.train`, and the job is resized "
            "inside its running processes. `restart`: the script does not use "
            "it, and is stopped and started from its own checkpoint."
        ),
    ] = Elasticity.LIVE
    estimate: Annotated[
        str | Number | None,
        Meta(description="For `restart` jobs: expected time on one worker, such as `10m`, or in seconds."),
    ] = None
    seed: Annotated[int, Meta(description="Random seed of the sample order.")] = 0
    tenant: Annotated[
        str | None,
        Meta(
            description="Team, project or user that the job belongs to, on a shared cluster. "
            "Fair-share policies divide the cluster between tenants. Jobs "
            "without a tenant share a default one."
        ),
    ] = None
    webhook: Annotated[
        str | None,
        Meta(
            description="Address (`https://...`) that is told of the job by signed POST requests. Default: "
            "only those that the platform has for all jobs."
        ),
    ] = None
    on: Annotated[
        str | tuple[str, ...],
        Meta(
            description="What the address is told: `finished` (the job ended, in whichever way), `at_risk` "
            "(it is expected to end after its deadline), `missed` (the deadline is over). Default: all three."
        ),
    ] = ()
    stop_on_nan: Annotated[
        bool,
        Meta(
            description="`true`: the job fails at the first loss that is NaN or infinite. "
            "The update of that step is not applied, and the state before it is "
            "saved. Default: only a warning."
        ),
    ] = False
    on_drift: Annotated[
        DriftAction | None,
        Meta(
            description="What to do when parameters, optimizer state or hyperparameters "
            "differ between workers. `heal`: all workers take those of rank 0, "
            "with a warning. `warn`: only the warning. `fail`: the job fails. "
            "Default: the script's `elastic(on_drift=...)`, else `heal`."
        ),
    ] = None

    def anchored(self, base_dir: Path) -> Submission:
        """The same with absolute paths, relative ones start at `base_dir`, and the submitter's variables."""
        script = self.script and fields.anchored("script", self.script, base_dir)
        workdir = fields.anchored("workdir", self.workdir or ".", base_dir)
        return msgspec.structs.replace(
            self,
            script=script,
            workdir=workdir,
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
            return self.anchored(base_dir).to_spec(now_s)
        min_workers, max_workers = fields.worker_range(self.workers)
        batches = batches_of(
            self.elasticity is Elasticity.LIVE,
            self.global_batch,
            self.batch,
            self.batch_per_worker,
            min_workers,
            max_workers,
        )
        entry = fields.entry(self.script, self.entry)
        deadline_s = fields.deadline(self.deadline, now_s)
        job_class = fields.job_class(self.job_class, deadline_s)
        if self.or_soft:
            fields.check_strict("or_soft", job_class)
        return JobSpec(
            name=fields.job_name(self.name, entry),
            entry=entry,
            workdir=fields.folder("workdir", self.workdir),
            global_batch=batches.own,
            min_batch=batches.least,
            max_batch=batches.most,
            batch_per_worker=batches.per_worker,
            args=fields.arguments(self.args),
            end=self._end(),
            job_class=job_class,
            deadline_s=deadline_s,
            after_refusal=AfterRefusal.SOFT if self.or_soft else AfterRefusal.END,
            accept_until_s=fields.accept_until(self.accept_until, job_class, deadline_s, now_s),
            min_workers=min_workers,
            max_workers=max_workers,
            devices_per_worker=fields.power_of_two("devices_per_worker", self.devices_per_worker),
            elasticity=self.elasticity,
            estimate_s=self._estimate_s(deadline_s),
            seed=fields.bounded("seed", self.seed, 0, 2**63 - 1),
            tenant=fields.tenant(self.tenant),
            stop_on_nan=self._stop_on_nan(),
            env=fields.variables(self.env),
            python=fields.interpreter(self.python),
            image=fields.image(self.image, self.python),
            needs=fields.needs(self.needs),
            metric=fields.metric(self.metric),
            metric_rises=fields.metric_rises(self.metric_goes, self.metric, fields.target(self.until)),
            memory_bytes=fields.memory(self.memory),
            kind=fields.kind(self.kind),
            grows_when_distributed=self.elasticity is Elasticity.RESTART,
            on_drift=self._on_drift(),
            webhook=fields.webhook(self.webhook, self.on),
        )

    def _end(self) -> EndCondition:
        given = [name for name in ("steps", "epochs", "samples") if getattr(self, name) is not None]
        if self.elasticity is Elasticity.RESTART:
            if given or self.until is not None:
                raise InvalidField(
                    given[0] if given else "until",
                    "a restart job ends when its script does; remove it, or use elasticity live",
                )
            return EndCondition()
        if len(given) != 1:
            raise InvalidField(
                given[1] if given else "steps",
                f"{' and '.join(given) or 'no end condition'} given; "
                "give exactly one of steps, epochs and samples",
            )
        for name in given:
            fields.bounded(name, getattr(self, name), 1 if name != "epochs" else 1e-6, 10**12)
        return EndCondition(
            steps=self.steps,
            epochs=None if self.epochs is None else float(self.epochs),
            samples=self.samples,
            target=fields.target(self.until),
        )

    def _stop_on_nan(self) -> bool:
        if self.stop_on_nan and self.elasticity is Elasticity.RESTART:
            raise InvalidField(
                "stop_on_nan", "a restart job updates its model itself; remove it, and stop in the script"
            )
        return self.stop_on_nan

    def _on_drift(self) -> DriftAction | None:
        if self.on_drift is not None and self.elasticity is Elasticity.RESTART:
            raise InvalidField(
                "on_drift",
                "Swell does not compare the workers of a restart job; remove it, or use elasticity live",
            )
        return self.on_drift

    def _estimate_s(self, deadline_s: float | None) -> float | None:
        if self.elasticity is Elasticity.LIVE:
            if self.estimate is not None:
                raise InvalidField("estimate", "live jobs are measured, not estimated; remove it")
            return None
        if self.estimate is None:
            if deadline_s is not None:
                raise InvalidField(
                    "estimate",
                    "a restart job with a deadline needs an estimate; give its time on one "
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


def request_key(key: str | None) -> str:
    """The idempotency key of a request; empty if it has none. Raises InvalidField."""
    if key is not None and not KEY.fullmatch(key):
        raise InvalidField(
            "key", f"{shown(key)} is not a valid idempotency key; use 1 to 200 printable ASCII characters"
        )
    return key or ""


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
    """How far ahead a deadline `now+...` was; None for any other."""
    is_relative = isinstance(deadline, str) and deadline.startswith("now+")
    return spec.deadline_s - now_s if is_relative and spec.deadline_s is not None else None


#: As written in a job file, in its order.
FIELD_NAMES = Submission.__struct_encode_fields__
