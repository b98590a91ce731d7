"""Times of the parts of a gang's change."""

from __future__ import annotations

import time


class PartTimes:
    """Seconds by part. Each part lasts from the end of the one before."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.parts_s: dict[str, float] = {}
        self._last_s = time.monotonic()

    def note(self, part: str) -> None:
        """This part is over."""
        now_s = time.monotonic()
        self.parts_s[part] = self.parts_s.get(part, 0.0) + now_s - self._last_s
        self._last_s = now_s

    def __str__(self) -> str:
        return ", ".join(f"{part} {seconds:.4f} s" for part, seconds in self.parts_s.items())
