"""The rules for the batches of a job: one for good, a range, or so many samples for each worker."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swell.api.fields import InvalidField, bounded, shown

RANGE = re.compile(r"(?P<least>\d{1,10}):(?P<most>\d{1,10})", re.ASCII)

#: Samples that a step may have.
MAX_BATCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Batches:
    own: int  #: that the learning rate was chosen for, and in which steps are counted
    least: int | None = None  #: of an open batch, as is `most`
    most: int | None = None
    per_worker: int | None = None


def batches_of(
    is_live: bool,
    own: int | None,
    given_range: str | int | None,
    per_worker: int | None,
    min_workers: int,
    max_workers: int | None,
) -> Batches:
    """What the three fields mean together. Raises InvalidField.

    Args:
        is_live: False for a restart job, whose script divides its batches itself.
    """
    if not is_live:
        return _of_restart_job(own, given_range, per_worker)
    if given_range is not None and per_worker is not None:
        raise InvalidField(
            "batch_per_worker",
            "excludes batch: a batch has a range or follows the workers; remove one of them",
        )
    if given_range is not None:
        least, most = _range(given_range, min_workers)
        return Batches(_own_in_range(own, least, most), least, most)
    if per_worker is not None:
        bounded("batch_per_worker", per_worker, 1, MAX_BATCH // max(min_workers, max_workers or 1))
        return Batches(_own(per_worker * min_workers if own is None else own, 1), per_worker=per_worker)
    if own is None:
        raise InvalidField(
            "global_batch",
            "missing; every live job needs it, or batch, or batch_per_worker, or a script that states it as "
            "a number: DataLoader(data, batch_size=64)",
        )
    return Batches(_own(own, min_workers))


def _of_restart_job(own: int | None, given_range: str | int | None, per_worker: int | None) -> Batches:
    for field, value in (("batch", given_range), ("batch_per_worker", per_worker)):
        if value is not None:
            raise InvalidField(
                field,
                "the script of a restart job divides its batches itself; remove it, or use elasticity live",
            )
    return Batches(1 if own is None else _own(own, 1))


def _own(own: int, min_workers: int) -> int:
    bounded("global_batch", own, 1, MAX_BATCH)
    if own < min_workers:
        raise InvalidField(
            "global_batch",
            f"{own} samples cannot be shared by {min_workers} workers; "
            "raise global_batch or lower MIN in workers",
        )
    return own


def _range(given: str | int, min_workers: int) -> tuple[int, int]:
    match = RANGE.fullmatch(str(given))
    if not match:
        raise InvalidField(
            "batch",
            f"{shown(given)} is not of the form MIN:MAX; write 32:512, or global_batch for a batch that "
            "never changes",
        )
    least, most = int(match["least"]), int(match["most"])
    if least < 1:
        raise InvalidField("batch", f"MIN is {least} in {given}; a step has at least 1 sample")
    if least > most:
        raise InvalidField("batch", f"MIN {least} is above MAX {most}; write {most}:{least}")
    bounded("batch", most, 1, MAX_BATCH)
    if least == most:
        raise InvalidField(
            "batch", f"{given} leaves no choice; remove it, and write global_batch {least} instead"
        )
    if least < min_workers:
        raise InvalidField(
            "batch",
            f"MIN {least} cannot be shared by {min_workers} workers; raise MIN to {min_workers} or more, or "
            "lower MIN in workers",
        )
    return least, most


def _own_in_range(own: int | None, least: int, most: int) -> int:
    if own is None:
        return least
    if not least <= own <= most:
        raise InvalidField(
            "global_batch",
            f"{shown(own)} is not within batch {least}:{most}; widen the range, or give a batch within it",
        )
    return own
