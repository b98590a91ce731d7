"""Lines of a worker's output that are JSON objects with a number under a given name: the script's report.

    {"step": 120, "loss": 0.31, "accuracy": 0.9}

Of many lines in a short time the latest is read, so a flood of them costs a search for the name.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator

from swell.wire.numbers import Number, spelled

#: A longer line is no report.
MAX_LINE_BYTES = 4096
#: Of lines that hold the name so many are kept, for the newest may be something else.
NUM_TRIES = 4
#: They are read at most so often.
INTERVAL_S = 0.5


class ValueLines:
    """Finds them in what comes in pieces. Other text may stand in the same line before the object.

    A carriage return ends a line, too: a progress bar that is drawn again and again has no other end.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._key = json.dumps(name).encode()
        self._clock = clock
        self._open = b""  # the begin of a line whose end has yet to come, no report if it is too long
        self._lines: deque[bytes] = deque(maxlen=NUM_TRIES)  # the newest last
        self._due_s = 0.0

    @property
    def wait_s(self) -> float | None:
        """Until there is something to read; None: no line is kept."""
        return max(0.0, self._due_s - self._clock()) if self._lines else None

    def feed(self, content: bytes) -> None:
        """A piece of the output."""
        text = self._open + content.replace(b"\r", b"\n")
        lines = text.split(b"\n") if self._key in text else [text.rpartition(b"\n")[2]]
        self._open = lines.pop()[: MAX_LINE_BYTES + 1]
        self._lines.extend(line for line in lines if self._key in line and len(line) <= MAX_LINE_BYTES)

    def close(self) -> None:
        """The last line may lack its end."""
        self.feed(b"\n")

    def take(self, at_once: bool = False) -> dict[str, Number]:
        """The numbers of the newest such line, if it is time to read them; else empty."""
        if not self._lines or (self._due_s > self._clock() and not at_once):
            return {}
        self._due_s = self._clock() + INTERVAL_S
        found = next((values for line in reversed(self._lines) if (values := self._values_of(line))), {})
        self._lines.clear()
        return found

    def _values_of(self, line: bytes) -> dict[str, Number]:
        """Empty if it is no such line."""
        try:
            found = json.loads(line[max(0, line.find(b"{")) :])
        except (ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        values = dict(_numbers(found))
        return values if self._name in values else {}


def _numbers(found: dict[str, object]) -> Iterator[tuple[str, Number]]:
    for name, value in found.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                yield name, spelled(float(value))
            except OverflowError:
                continue  # a whole number that no float can hold
