"""What a script that knows nothing of Swell measures, as it says by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from swell.executors.gang.progress import INTERVAL_S
from swell.model.job import LOSS
from swell.wire.numbers import Number, value_of

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
        self._since_s = 0.0  # of what is held, the oldest came then
        self._is_warned = False

    def note(self, values: Mapping[str, Number], now_s: float) -> str:
        """Returns what the job's owner is to be told of it; empty: nothing."""
        if not self._held:
            self._since_s = now_s
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
        """The loss, and all others by name."""
        values, self._held = self._held, {}
        return values.pop(LOSS, None), values

    def _is_known(self, name: str) -> bool:
        if name not in self._names and len(self._names) < MAX_NAMES and NAME.fullmatch(name):
            self._names.add(name)
        return name in self._names
