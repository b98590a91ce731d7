"""A profile set by what a user writes for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from swell.arrays import each
from swell.sim.profiles.curve import ProfileSet, ThroughputCurve, UnknownProfile
from swell.sim.profiles.pollux import PolluxCurves, is_pollux
from swell.sim.profiles.saxena import saxena
from swell.sim.profiles.tables import read_tables

#: Sizes go up to this many workers.
MAX_WORKERS = 4096
#: The batch of a job that tells none: large enough for every size.
GLOBAL_BATCH = 4096
MODEL = "any"
DEFAULT_EXPONENT = 0.8
LAW = "law:"


class PowerCurves:
    """n workers make n ** exponent steps a second, whatever the model. Implements `ProfileSet`.

    A step is what one worker does in a second, so a job's steps are its seconds on one worker. Sizes are the
    powers of two up to the global batch.
    """

    def __init__(self, exponent: float = DEFAULT_EXPONENT, name: str = "") -> None:
        self.exponent = exponent
        self.name = name or f"law:{exponent:g}"

    def models(self) -> tuple[str, ...]:
        return (MODEL,)

    def batches(self, model: str) -> tuple[int, ...]:
        return (GLOBAL_BATCH,)

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        """Return the curve by this law of any model and any global batch >= 1."""
        num_sizes = int(math.log2(min(MAX_WORKERS, global_batch))) + 1
        sizes = 2 ** np.arange(num_sizes, dtype=np.int64)
        return ThroughputCurve(model, global_batch, sizes, each(lambda size: size**self.exponent, sizes))


def hu() -> PowerCurves:
    """Huawei ModelArts' jobs on average: the speed of n nodes is n * 0.8 ** log2(n).

    References: Hu et al., section 4.2, Equations 2 to 4 and Figure 6: "the actual training speed decreases
        by 20% on average when the number of nodes doubles".
    """
    return PowerCurves(exponent=1.0 + math.log2(0.8), name="hu")


BUILT_IN: dict[str, Callable[[], ProfileSet]] = {
    "hu": hu,
    "law": lambda: PowerCurves(DEFAULT_EXPONENT),
    "saxena": saxena,
}


def load(name: str) -> ProfileSet:
    """A built-in set (`hu`, `law`, `law:0.7`, `saxena`), or a folder of tables or of measurements.

    Raises:
        UnknownProfile: it is neither.
        ProfileError: a table of the folder cannot be used.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name.startswith(LAW):
        return PowerCurves(_exponent(name.removeprefix(LAW)))
    if not Path(name).is_dir():
        raise UnknownProfile(
            f"there are no profiles {name!r}; name a folder of MODEL.csv, or one of {', '.join(BUILT_IN)}, "
            f"{LAW}EXPONENT"
        )
    folder = Path(name)
    return PolluxCurves(folder) if is_pollux(folder) else read_tables(folder)


def _exponent(text: str) -> float:
    try:
        exponent = float(text)
    except ValueError:
        exponent = -1.0
    if not 0.0 <= exponent <= 1.0:
        raise UnknownProfile(f"{LAW}{text} is no law; write an exponent from 0 to 1, as {LAW}0.8")
    return exponent
