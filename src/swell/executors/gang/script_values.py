"""What a script that knows nothing of Swell measures, as it says by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from swell.executors.gang.progress import INTERVAL_S
from swell.model.job import LOSS
from swell.tally import Tally, plus, tally_of
from swell.wire.numbers import Number, value_of
from swell.wire.reports import MOST_STEPS

#: Under this name a line of output may say after which step its values were measured.
STEP = "step"

#: A script may print or report anything: what is shown of it is bounded.
MAX_NAMES = 32
NAME = re.compile(r"[A-Za-z_][\w./-]{0,62}", re.ASCII)

TOO_MANY = (
    f"the script reports more than {MAX_NAMES} names, and values of further ones are ignored: report the "
    "same names each time"
)


class ScriptValues:
    """Held for a moment, to be told together with the next steps; and if none follow, by themselves."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._held: dict[str, float] = {}
        self._curves: dict[str, Tally] = {}
        self._since_s = 0.0  # of what is held, the oldest came then
        self._is_warned = False

    def note(
        self,
        values: Mapping[str, Number],
        curves: Mapping[str, Tally],
        steps: int,
        num_workers: int,
        now_s: float,
    ) -> str:
        """Returns what the job's owner is to be told of it; empty: nothing.

        Args:
            curves: of the values. A value without one is a line of output, which may name its `step`.
            steps: that the gang has finished, as far as is known.
        """
        if not self._held:
            self._since_s = now_s
        at_step = _step_of(values, steps)
        single = {name: tally_of([(at_step, value_of(value))], num_workers) for name, value in values.items()}
        for name, tally in (single | dict(curves)).items():
            if tally is not None and self._is_known(name):
                self._curves = plus(self._curves, {name: tally})
        known = {name: value_of(value) for name, value in values.items() if self._is_known(name)}
        self._held |= known
        if self._is_warned or len(known) == len(values) or len(self._names) < MAX_NAMES:
            return ""
        self._is_warned = True
        return TOO_MANY

    def __bool__(self) -> bool:
        """Whether any is held."""
        return bool(self._held)

    def is_due(self, now_s: float) -> bool:
        return bool(self._held) and now_s - self._since_s >= INTERVAL_S

    def take(self) -> tuple[float | None, dict[str, float]]:
        """The loss, and all others by name; `take_curves` is to be told with them."""
        values, self._held = self._held, {}
        return values.pop(LOSS, None), values

    def take_curves(self) -> dict[str, Tally]:
        curves, self._curves = self._curves, {}
        return curves

    def _is_known(self, name: str) -> bool:
        if name not in self._names and len(self._names) < MAX_NAMES and NAME.fullmatch(name):
            self._names.add(name)
        return name in self._names


def _step_of(values: Mapping[str, Number], steps: int) -> int:
    """What the values say of it, if that is a step."""
    step = value_of(values.get(STEP, steps))
    return int(step) if 0 <= step < MOST_STEPS and step.is_integer() else steps
