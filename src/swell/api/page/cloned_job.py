"""The job file that a job could have come from: with it the form of a new job is filled in."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import Any

import msgspec

from swell.api.durations import format_duration
from swell.api.submission import Submission
from swell.model.event import JobSubmitted
from swell.model.job import LOSS, AfterRefusal, CodeSource, Elasticity, JobSpec, MetricTarget

#: Texts that YAML reads as what they are without quotes.
_PLAIN = re.compile(r"[A-Za-z/~.][\w/.~-]*|now\+\w+", re.ASCII)
_NO_TEXT = re.compile(r"~|null|true|false|\.inf|\.nan", re.IGNORECASE)


def job_file(submitted: JobSubmitted, now_s: float) -> str:
    """One line for each field that was given, with absolute paths.

    Values of environment variables and the address of a webhook may be secrets of who submitted it: names are
    told, and a remark says what to write.
    """
    spec, remarks = submitted.spec, []
    if spec.env:
        remarks.append("values of environment variables are not shown: write them, or take the names out")
    if spec.after:
        remarks.append("it came after other jobs, which are left out: write after: JOB to have it wait")
    if spec.webhook is not None:
        told = ", ".join(spec.webhook.on)
        remarks.append(f"its webhook is not shown: write it, and `on: {told}`, if it is to be told")
    if spec.deadline_s is not None and _deadline(submitted, now_s) is None:
        remarks.append("its deadline has passed: write another one, such as deadline: now+10m")
    lines = [f"# {remark}" for remark in remarks]
    fields: dict[str, Any] = msgspec.to_builtins(_submission(submitted, now_s))
    return "\n".join([*lines, *(f"{name}: {_written(value)}" for name, value in fields.items()), ""])


def _submission(submitted: JobSubmitted, now_s: float) -> Submission:
    spec = submitted.spec
    is_script = spec.entry.startswith("/")
    deadline, metric_goes = _deadline(submitted, now_s), _metric_goes(spec)
    is_restart = spec.elasticity is Elasticity.RESTART
    return Submission(
        name=spec.name,
        script=spec.entry if is_script else None,
        entry=None if is_script else spec.entry,
        args=spec.args,
        workdir=spec.workdir,
        code=CodeSource.SNAPSHOT if spec.code else CodeSource.LIVE,
        env={name: None for name, _ in spec.env},
        python=spec.python or None,
        image=spec.image or None,
        needs=spec.needs,
        fetch=spec.fetch or None,
        global_batch=None if is_restart and spec.global_batch == 1 else spec.global_batch,
        batch=None if spec.max_batch is None else f"{spec.least_batch}:{spec.max_batch}",
        batch_per_worker=spec.batch_per_worker,
        steps=spec.end.steps,
        epochs=_plain_number(spec.end.epochs),
        samples=spec.end.samples,
        until=None if spec.end.target is None else _target(spec.end.target),
        metric=None if spec.metric == LOSS and metric_goes is None else spec.metric,
        metric_goes=metric_goes,
        deadline=deadline,
        or_soft=spec.after_refusal is AfterRefusal.SOFT,
        accept_until=None if deadline is None else _accept_until(submitted, now_s),
        job_class=spec.job_class,
        priority=spec.priority,
        weight=spec.weight,
        workers=_workers(spec.min_workers, spec.max_workers),
        devices_per_worker=spec.devices_per_worker,
        kind=tuple(_with_speed(spec, kind) for kind in spec.kinds) or spec.kind or None,
        memory=spec.memory_bytes,
        checkpoint_interval=spec.checkpoint_interval_s,
        elasticity=spec.elasticity,
        estimate=spec.estimate_s,
        seed=spec.seed,
        tenant=spec.tenant or None,
        group=spec.group or None,
        tags=spec.tags,
        hold_after_trial=spec.hold_after_trial,
        stop_on_nan=spec.stop_on_nan,
        speed=",".join(f"{size}:{rate!r}" for size, rate in spec.speed.items()) or None,
        resize_up_s=spec.resize_up_s,
        resize_down_s=spec.resize_down_s,
        keep_estimates=spec.keeps_estimates,
        accept_differences=spec.accept_differences,
        on_drift=spec.on_drift,
    )


def _deadline(submitted: JobSubmitted, now_s: float) -> str | None:
    """The deadline as far ahead as it was, or as the moment that it was; None: it has none that is ahead."""
    within_s, deadline_s = submitted.origin.deadline_in_s, submitted.spec.deadline_s
    if within_s is not None:
        return f"now+{format_duration(max(1, math.ceil(within_s)))}"
    return _moment(deadline_s) if deadline_s is not None and deadline_s > now_s else None


def _accept_until(submitted: JobSubmitted, now_s: float) -> str | None:
    spec, within_s = submitted.spec, submitted.origin.deadline_in_s
    if spec.accept_until_s is None or spec.deadline_s is None:
        return None
    if within_s is None:
        return _moment(spec.accept_until_s)
    return f"now+{format_duration(math.ceil(within_s + spec.accept_until_s - spec.deadline_s))}"


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(math.ceil(at_s)).astimezone().isoformat()


def _plain_number(value: float | None) -> float | None:
    return int(value) if value is not None and value.is_integer() else value


def _target(target: MetricTarget) -> str:
    return f"{target.name}{'>=' if target.at_least else '<='}{target.value!r}"


def _metric_goes(spec: JobSpec) -> Any:
    is_named = spec.end.target is not None and spec.end.target.name == spec.metric
    is_said = is_named or spec.metric_rises or spec.metric != LOSS
    return ("up" if spec.metric_rises else "down") if is_said else None


def _with_speed(spec: JobSpec, kind: str) -> str:
    return f"{kind}={spec.kind_speeds[kind]!r}" if kind in spec.kind_speeds else kind


def _workers(least: int, most: int | None) -> str | int:
    if most is None:
        return f"{least}:"
    return least if least == most else f"{least}:{most}"


def _written(value: Any) -> str:
    """A value as YAML reads it back, in one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _NO_TEXT.fullmatch(value):
        return value
    return "".join(_escaped(char) for char in json.dumps(value, ensure_ascii=False))


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"
