"""A set of throughput profiles, whatever they come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from swell.model.errors import InvalidInput
from swell.sim.profiles.curve import ThroughputCurve


class ProfileError(InvalidInput):
    """A table cannot be used; the text names the place, the rule and the remedy."""


class UnknownProfile(InvalidInput):
    """No such set, model or global batch; the text names those there are."""


class ProfileSet(Protocol):
    """Curves by model and global batch."""

    @property
    def name(self) -> str: ...

    def models(self) -> tuple[str, ...]:
        """Return the names of the models, in alphabetical order."""

    def batches(self, model: str) -> tuple[int, ...]:
        """Ascending. Raises UnknownProfile."""

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        """Raises UnknownProfile that names what there is."""


class Curves:
    """A set that is a list of curves. Implements `ProfileSet`."""

    def __init__(self, name: str, curves: Iterable[ThroughputCurve]) -> None:
        self.name = name
        self._curves = {(curve.model, curve.global_batch): curve for curve in curves}

    def models(self) -> tuple[str, ...]:
        return tuple(sorted({model for model, _ in self._curves}))

    def batches(self, model: str) -> tuple[int, ...]:
        batches = tuple(sorted(batch for name, batch in self._curves if name == model))
        if not batches:
            raise UnknownProfile(
                f"profiles {self.name!r} have no model {model!r}; they have {', '.join(self.models())}"
            )
        return batches

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        found = self._curves.get((model, global_batch))
        if found is None:
            known = ", ".join(map(str, self.batches(model)))
            raise UnknownProfile(
                f"profiles {self.name!r} have no global batch {global_batch} of model {model!r}; "
                f"they have {known}"
            )
        return found


def pairs(profiles: ProfileSet) -> tuple[tuple[str, int], ...]:
    """Every (model, global batch) of a set, in a fixed order."""
    return tuple((model, batch) for model in profiles.models() for batch in profiles.batches(model))
