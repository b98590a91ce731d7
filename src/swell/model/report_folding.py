"""Two reports of a gang's progress are folded into one that says the same."""

from __future__ import annotations

import msgspec

from swell.model.event import StepsReported
from swell.tally import plus


def can_fold(older: StepsReported, newer: StepsReported) -> bool:
    """Whether one report can stand for both: same job, same generation, and for steps same size and batch."""
    if older.brings_steps and newer.brings_steps:
        return _made_by(older) == _made_by(newer)
    return (older.job_id, older.generation) == (newer.job_id, newer.generation)


def _made_by(report: StepsReported) -> tuple[str, int, int, int | None]:
    return report.job_id, report.generation, report.num_workers, report.global_batch


def fold(older: StepsReported, newer: StepsReported) -> StepsReported:
    """Return the newer report, with what only the older one said; pauses add up.

    If only the older one brings steps, both are of when those were made.
    """
    pauses = [pause for pause in (older.pause_s, newer.pause_s) if pause is not None]
    return msgspec.structs.replace(
        older if older.brings_steps and not newer.brings_steps else newer,
        step_s=newer.step_s if newer.step_s is not None else older.step_s,
        sample_s=newer.sample_s or older.sample_s,
        loss=newer.loss if newer.loss is not None else older.loss,
        metrics={**older.metrics, **newer.metrics},
        between=older.between.plus(newer.between) if older.between else newer.between,
        pause_s=sum(pauses) if pauses else None,
        save_s=older.save_s if newer.save_s is None else newer.save_s,
        found_steps=older.found_steps if newer.found_steps is None else newer.found_steps,
        usage=newer.usage or older.usage,
        noise_scale=newer.noise_scale if newer.noise_scale is not None else older.noise_scale,
        curves=plus(older.curves, newer.curves),
        mark=older.mark or newer.mark,
    )
