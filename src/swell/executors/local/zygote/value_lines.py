"""Lines of a worker's output that are JSON objects with a number under a given name: the script's report.

    {"step": 120, "loss": 0.31, "accuracy": 0.9}

Of many lines in a short time the latest is read, so a flood of them costs a search for the name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from swell.wire.numbers import Number, spelled

#: A longer line is no report.
MAX_LINE_BYTES = 4096
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
        self._line = b""  # the newest that holds the name, and may be an object
        self._due_s = 0.0

    @property
    def wait_s(self) -> float | None:
        """Until there is something to read; None: no line is kept."""
        return max(0.0, self._due_s - self._clock()) if self._line else None

    def feed(self, content: bytes) -> None:
        """A piece of the output."""
        text = self._open + content.replace(b"\r", b"\n")
        lines = text.split(b"\n") if self._key in text else [text.rpartition(b"\n")[2]]
        self._open = lines.pop()[: MAX_LINE_BYTES + 1]
        for line in lines:
            if self._key in line and b"{" in line and len(line) <= MAX_LINE_BYTES:
                self._line = line

    def close(self) -> None:
        """The last line may lack its end."""
        self.feed(b"\n")

    def take(self, at_once: bool = False) -> dict[str, Number]:
        """The numbers of the newest such line, if it is time to read them; else empty."""
        if not self._line or (self._due_s > self._clock() and not at_once):
            return {}
        self._due_s = self._clock() + INTERVAL_S
        line, self._line = self._line, b""
        return self._values_of(line)

    def _values_of(self, line: bytes) -> dict[str, Number]:
        """Empty if it is no such line."""
        try:
            found = json.loads(line[line.find(b"{") :])
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
