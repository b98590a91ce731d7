"""How far along its loss curve a job is, as probabilities: curves by shape, noise and all."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray

#: Of its drop from the first sample to the end of the job, what makes a model usable.
TARGET_SHARE = 0.95
#: Curves that fit within this part of the range of the values fit equally well: none is exactly right.
MISFIT_SHARE = 0.005
#: Neighbouring samples err alike: more of them than this say no more about which curve it is.
MOST_INDEPENDENT = 32
#: With fewer samples there is nothing but the prior.
LEAST_SAMPLES = 3
#: Residuals beyond so many deviations count less, as by Huber.
HUBER = 2.5
#: So many latest samples, so many deviations and such a part of the range below the curve: it learns again.
RESUMED_SAMPLES, RESUMED_DEVIATIONS, RESUMED_SHARE = 3, 4.0, 0.03
#: Before anything is known: that nothing is learnt.
FLAT_PRIOR = 0.1

#: Time scales as parts of the whole job, and how likely each family is.
_SCALES = np.geomspace(1 / 60, 3.0, 14)
_MIDDLES = np.array([0.1, 0.2, 0.35, 0.55, 0.8])
_PRIORS = (0.45, 0.25, 0.15, 0.15)


class CurveBelief(NamedTuple):
    """Hypotheses, the last of which is that nothing is learnt. Times count from the first sample."""

    probability: FloatArray  #: (H,)
    reached_s: FloatArray  #: (H,) CPU time until the target is reached; inf: never
    progress: float  #: expected part of the drop that is done

    def has_reached(self, at_s: float) -> float:
        """Probability that the target is reached by then, if anything is learnt."""
        learns = 1.0 - float(self.probability[-1])
        return float(self.probability[self.reached_s <= at_s].sum()) / learns if learns > 0.0 else 0.0


def believe(cpu_s: FloatArray, value: FloatArray, weight: FloatArray, end_s: float) -> CurveBelief:
    """What samples say of the curve of a job that ends after `end_s` of CPU time.

    Each hypothesis is a shape c + a f(x), a >= 0, at one time scale: an exponential, a hyperbola, an inverse
    root, or a plateau before a fall. Its c and a are those of least squares, where outliers count less. Its
    likelihood is that of normal errors of unknown size. The answer is the same in all units of the loss.

    Args:
        cpu_s: (n,) ascending, from 0.
        value: (n,) finite; learning lowers it.
        weight: (n,) of the samples.
    """
    table = _table()
    probability = _posterior(cpu_s / end_s, value, weight, table.prior)
    reached_s = np.append(table.reached * end_s, np.inf)
    at = min(float(cpu_s[-1]) / end_s, 1.0) if len(cpu_s) else 0.0
    shapes = _shapes(np.array([0.0, at, 1.0]))
    done = (shapes[:, 0] - shapes[:, 1]) / (shapes[:, 0] - shapes[:, 2])
    return CurveBelief(probability, reached_s, float(probability[:-1] @ done))


def index_per_s(belief: CurveBelief, at_s: float) -> float:
    """How soon the target may be reached: probability per CPU second, for the best time to spend.

    References: Gittins, "Bandit processes and dynamic allocation indices", 1979: to serve the highest index
        first gives the least mean time to an end of which only the distribution is known.
    """
    is_ahead = (belief.reached_s > at_s) & np.isfinite(belief.reached_s)
    if not is_ahead.any():
        return 0.0
    left_s = belief.reached_s[is_ahead] - at_s
    order = np.argsort(left_s)
    left_s, probability = left_s[order], belief.probability[is_ahead][order]
    reached = np.cumsum(probability)
    spent_s = np.cumsum(probability * left_s) + left_s * (1.0 - reached)
    return float(np.max(reached / np.maximum(spent_s, 1e-9)))


def resumed(cpu_s: FloatArray, value: FloatArray, weight: FloatArray) -> bool:
    """Whether the latest samples lie clearly below the curve of those before them: a learning-rate drop."""
    num = len(value) - RESUMED_SAMPLES
    if num < 2 * RESUMED_SAMPLES or cpu_s[-1] <= 0.0:
        return False
    fitted, deviation = _best_fit(_shapes(cpu_s / cpu_s[-1]), value, weight, num)
    below = (fitted - value)[num:]
    value_range = float(np.ptp(value[:num]))
    return bool(below.min() > max(RESUMED_DEVIATIONS * deviation, RESUMED_SHARE * value_range))


def thinned(cpu_s: FloatArray, value: FloatArray, weight: FloatArray) -> tuple[FloatArray, ...]:
    """Half as many samples: the first one and the latest stay, of the others two become their mean."""
    pairs = (len(cpu_s) - 2) // 2
    inner = slice(1, 1 + 2 * pairs)
    sums = weight[inner].reshape(pairs, 2).sum(axis=1)
    means = [
        (column[inner] * weight[inner]).reshape(pairs, 2).sum(axis=1) / sums for column in (cpu_s, value)
    ]
    columns = zip((cpu_s, value, weight), (*means, sums), strict=True)
    return tuple(np.concatenate([old[:1], new, old[inner.stop :]]) for old, new in columns)


class _Table(NamedTuple):
    """What is known of the shapes of curves, whatever the job."""

    prior: FloatArray  #: (H,) with the flat one
    reached: FloatArray  #: (H - 1,) as a part of the whole job


@cache
def _table() -> _Table:
    grid = np.append(0.0, np.geomspace(1 / 500, 1.0, 120))
    shapes = _shapes(grid)
    left = (shapes - shapes[:, -1:]) / (shapes[:, :1] - shapes[:, -1:])
    reached = np.array([np.interp(TARGET_SHARE - 1.0, -one, grid) for one in left])
    sizes = (len(_SCALES), len(_SCALES), len(_SCALES), len(_MIDDLES))
    shaped = np.repeat(np.array(_PRIORS) / np.array(sizes), sizes)
    return _Table(np.append((1.0 - FLAT_PRIOR) * shaped, FLAT_PRIOR), reached)


def _shapes(at: FloatArray) -> FloatArray:
    """(H - 1, n) each falling shape at these parts of the whole job."""
    scaled = at[None, :] / _SCALES[:, None]
    to_middle = np.minimum((at[None, :] / _MIDDLES[:, None] - 1.0) * 5.0, 50.0)
    return np.concatenate(
        [np.exp(-scaled), 1.0 / (1.0 + scaled), (1.0 + scaled) ** -0.5, 1.0 / (1.0 + np.exp(to_middle))]
    )


def _posterior(at: FloatArray, value: FloatArray, weight: FloatArray, prior: FloatArray) -> FloatArray:
    """(H,) probabilities, the prior as long as there are few samples."""
    value_range = float(np.ptp(value)) if len(value) else 0.0
    if len(value) < LEAST_SAMPLES:
        return prior
    if value_range == 0.0:
        return np.append(np.zeros(len(prior) - 1), 1.0)
    shapes, scaled = _shapes(at), (value - value.min()) / value_range
    fits = _fits(shapes, scaled, weight)
    deviation = max(1.5 * float(np.median(fits.residual)), MISFIT_SHARE)
    robust = weight * np.minimum(1.0, HUBER * deviation / np.maximum(fits.residual, MISFIT_SHARE))
    fits = _fits(shapes, scaled, robust)
    degrees = min(len(value), MOST_INDEPENDENT)
    likely = -0.5 * (degrees - 2) * np.log(fits.error + MISFIT_SHARE**2) + np.log(fits.width)
    likely = np.append(likely, -0.5 * (degrees - 2) * np.log(fits.spread + MISFIT_SHARE**2))
    probability = prior * np.exp(likely - likely.max())
    summed: FloatArray = probability / probability.sum()
    return summed


class _FitTable(NamedTuple):
    """Fit of each shape to values scaled to [0, 1]."""

    error: FloatArray  #: (H - 1,) mean squared error of each shape
    width: FloatArray  #: (H - 1,) how much of the heights between 0 and 1 fits about as well
    spread: float  #: mean squared error of a constant
    residual: FloatArray  #: (n,) of the best shape, absolute


def _fits(shapes: FloatArray, value: FloatArray, weight: FloatArray) -> _FitTable:
    num = max(float(weight.sum()), 1.0)
    weight = weight / weight.sum()
    centred, deviation = shapes - (shapes @ weight)[:, None], value - float(value @ weight)
    spread = float(deviation**2 @ weight)
    square = np.maximum(centred**2 @ weight, 1e-12)
    free = centred @ (weight * deviation) / square
    height = np.maximum(free, 0.0)
    error = np.maximum(spread + (height**2 - 2.0 * height * free) * square, 0.0)
    best = int(error.argmin())
    own_width = np.sqrt((error + MISFIT_SHARE**2) / (num * square))
    width = np.where(free >= 0.0, 2.5 * own_width, own_width**2 / (0.4 * own_width + np.abs(free)))
    return _FitTable(
        error, np.clip(width, 1e-9, 1.0), spread, np.abs(deviation - height[best] * centred[best])
    )


def _best_fit(
    shapes: FloatArray, value: FloatArray, weight: FloatArray, num: int
) -> tuple[FloatArray, float]:
    """(n,) the best curve by the first `num` samples, at all of them, and the deviation of those from it."""
    early, known = weight[:num] / weight[:num].sum(), value[:num]
    centred = shapes - (shapes[:, :num] @ early)[:, None]
    mean = float(known @ early)
    square = centred[:, :num] ** 2 @ early
    product = centred[:, :num] @ (early * (known - mean))
    height = np.maximum(product / np.maximum(square, 1e-12), 0.0)
    best = int((height**2 * square - 2.0 * height * product).argmin())
    fitted = mean + height[best] * centred[best]
    return fitted, float(np.sqrt((fitted[:num] - known) ** 2 @ early))
