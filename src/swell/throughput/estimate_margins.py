"""Margins of speed estimates, learnt from how much too high earlier estimates were."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from statistics import NormalDist
from typing import TypeVar

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, each

#: What an estimate was made from: a trial run alone, other sizes of the same job, or this very size. A guess
#: of how a job scales that had no trial run is none of these.
TRIAL, OTHER_SIZES, SAME_SIZE, GUESS = range(4)
NUM_BASES = 4
#: A promise counts on no size that it has only been guessed for: a smaller one is always safer.
GUESS_MARGIN = 1e3
#: Jobs of one script are of one kind. Scripts beyond so many share kinds.
NUM_KINDS = 64

#: Of each basis, the latest errors that are remembered.
NUM_ERRORS = 256
#: Standard deviation of errors before any was measured, by basis, which counts as `PRIOR_WEIGHT` errors.
PRIOR_SCALES = (0.05, 0.05, 0.01)
PRIOR_WEIGHT = 2.0
#: Beside the errors themselves, normal ones of their standard deviation count as so many: the highest of a
#: few errors says little of a quantile.
SMOOTH_WEIGHT = 20.0
#: To a kind's own errors, those of all kinds together count as so many.
PLATFORM_WEIGHT = 40.0
LARGEST_MARGIN = 1.0
#: Of estimates that are to be no more wrong than the margin says.
KEPT_SHARE = 0.97

#: Sum of squared errors for which "other sizes are wrong by the same" counts before anything was measured.
CARRIED_WEIGHT = 0.02

_NORMAL = np.array([NormalDist().inv_cdf((place + 0.5) / 100) for place in range(100)])
_NO_KINDS = np.full(len(_NORMAL), -1.0)

Basis = TypeVar("Basis", int, IntArray)


class SizeError(msgspec.Struct, frozen=True, omit_defaults=True):
    """Error of the estimate for one job at one size."""

    job_id: str
    num_workers: int
    error: float  #: log(measured step / estimated step), > 0 where the estimate was too fast
    num_hosts: int = 1
    basis: int = TRIAL
    kind: int = 0
    #: log(measured / estimated) of the job's other sizes by then, which `error` does not count; of that basis
    others: float = 0.0


def kind_of(entry: str) -> int:
    """The kind of jobs that run this script."""
    return zlib.crc32(entry.encode()) % NUM_KINDS


def class_of(kind: int, basis: Basis) -> Basis:
    """Where the margin of estimates of a basis, or of several, is in `EstimateMargins.margins`."""
    return kind * NUM_BASES + basis


class EstimateMargins:
    """The margins of estimates, by their latest errors, of which each job, size and basis has one.

    An error of another size of the same job says how wrong this size is by as much as it has done so before
    (`carried_share`): a slow machine slows all sizes, a curve of the wrong shape does not.

    Args:
        kept_share: of estimates that are to be no more wrong than the margin says.

    References: empirical quantiles as margins are split conformal prediction, Papadopoulos et al. 2002.
    Deviates: a normal distribution is mixed in, as in a smoothed bootstrap, which few errors need.
    """

    def __init__(self, kept_share: float = KEPT_SHARE) -> None:
        self._kept_share = kept_share
        self.restore(())

    def restore(self, errors: Iterable[SizeError]) -> None:
        """Remember these alone, oldest first."""
        self._errors = [dict[tuple[str, int, int], SizeError]() for _ in range(GUESS)]
        #: By basis, (3, n) of the same in the same order: the error, that of other sizes, and the kind.
        self._columns: list[FloatArray] = [np.zeros((3, 0)) for _ in range(GUESS)]
        #: Margins by kind, as far as they are known.
        self._of_bases = {GUESS: np.full(NUM_KINDS, GUESS_MARGIN)}
        self._margins: FloatArray | None = None
        self._carried_share: float | None = None
        for error in errors:
            self.note(error)

    @property
    def errors(self) -> list[SizeError]:
        """All that are remembered: of each basis, the oldest first."""
        return [error for errors in self._errors for error in errors.values()]

    def error_of(self, job_id: str, num_workers: int, num_hosts: int, basis: int) -> float | None:
        """None: none is remembered."""
        error = self._errors[basis].get((job_id, num_workers, num_hosts))
        return None if error is None else error.error

    def note(self, error: SizeError) -> None:
        """It takes the place of an earlier one of the same job, size and basis."""
        errors, columns, key = self._errors[error.basis], self._columns[error.basis], _key(error)
        place = list(errors).index(key) if key in errors else len(errors)
        told = [[error.error], [error.others], [error.kind]]
        columns = np.concatenate([columns[:, :place], columns[:, place + 1 :], told], axis=1)
        errors.pop(key, None)
        errors[key] = error
        if len(errors) > NUM_ERRORS:
            del errors[next(iter(errors))]
        self._columns[error.basis] = columns[:, -NUM_ERRORS:]
        self._margins = None
        if error.basis == OTHER_SIZES:
            self._carried_share = None
        self._of_bases.pop(error.basis, None)

    @property
    def carried_share(self) -> float:
        """Share of the error of a job's other sizes that an estimate is corrected by, within 0 and 1."""
        if self._carried_share is None:
            told, others, _ = self._columns[OTHER_SIZES]
            products = np.concatenate([np.zeros((2, 1)), [others * told, others * others]], axis=1)
            both, alone = (CARRIED_WEIGHT + products.cumsum(axis=1)[:, -1]).tolist()
            self._carried_share = min(max(both / alone, 0.0), 1.0)
        return self._carried_share

    @property
    def margins(self) -> FloatArray:
        """(NUM_KINDS * NUM_BASES,) by class, shares within 0 and 1; the very same until an error is noted."""
        if self._margins is None:
            for basis in set(range(NUM_BASES)) - self._of_bases.keys():
                self._of_bases[basis] = self._margins_of(basis)
            columns = [self._of_bases[basis] for basis in range(NUM_BASES)]
            self._margins = np.stack(columns, axis=1).ravel()
            self._margins.setflags(write=False)
        return self._margins

    def _margins_of(self, basis: int) -> FloatArray:
        """(NUM_KINDS,) of estimates that were made from this."""
        told, others, kinds_of_errors = self._columns[basis]
        errors = told - self.carried_share * others
        slow = np.maximum(errors, 0.0)  # an estimate that was too slow breaks no promise
        squares = PRIOR_WEIGHT * PRIOR_SCALES[basis] ** 2 + 2.0 * float(slow @ slow)
        scale = math.sqrt(squares / (PRIOR_WEIGHT + len(errors)))
        values = np.concatenate([scale * _NORMAL, errors])
        weights = np.ones(len(values))
        weights[: len(_NORMAL)] = SMOOTH_WEIGHT / len(_NORMAL)
        order = values.argsort(kind="stable")
        kind = np.concatenate([_NO_KINDS, kinds_of_errors])[order]
        kinds = np.array(sorted(set(kinds_of_errors.tolist())), dtype=np.int64)
        platform = weights[order] * min(1.0, PLATFORM_WEIGHT / weights.sum())
        of_kinds = np.vstack([weights[order], platform + (kind == kinds[:, None])])
        of_all, *own = self._margins_by(values[order], of_kinds).tolist()
        margins = np.full(NUM_KINDS, of_all)
        margins[kinds] = own
        return margins

    def _margins_by(self, errors: FloatArray, weights: FloatArray) -> FloatArray:
        """(K,) shares of time that `kept_share` of (n,) ascending errors keep within, by (K, n) weights."""
        reached = weights.cumsum(axis=1)
        at = (reached < self._kept_share * reached[:, -1:]).sum(axis=1)
        kept = each(math.expm1, errors[np.minimum(at, len(errors) - 1)])
        return np.minimum(np.maximum(kept, 0.0), LARGEST_MARGIN)


def _key(error: SizeError) -> tuple[str, int, int]:
    return error.job_id, error.num_workers, error.num_hosts
