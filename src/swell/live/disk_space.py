"""Free space on the disk of a folder that may be on a file server, which may not answer."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

#: Whoever asks waits so long at most.
ANSWER_S = 2.0
#: An answer is given again for so long: pages and clients of a platform ask many times a second.
KEPT_S = 1.0


class Space(NamedTuple):
    """What a disk has, in bytes."""

    free: int
    total: int


def _space_of(path: Path) -> Space:
    usage = shutil.disk_usage(path)
    return Space(usage.free, usage.total)


class SpaceWatch:
    """Thread-safe. One thread looks at a time: others than the first wait for the same answer."""

    def __init__(self, path: Path, look: Callable[[Path], Space] = _space_of) -> None:
        self.path = path
        self._look = look
        self._lock = threading.Lock()
        self._found: list[Space | OSError] = []
        self._looking: threading.Thread | None = None
        self._begun_s = 0.0

    def look(self) -> Space | None:
        """What there is now, or was in the last second; None: the disk does not answer. Raises OSError."""
        with self._lock:
            now_s = time.monotonic()
            if self._looking is None or not (self._looking.is_alive() or now_s < self._begun_s + KEPT_S):
                self._found, self._begun_s = [], now_s
                self._looking = threading.Thread(target=self._find, args=(self._found,), daemon=True)
                self._looking.start()
            looking, found = self._looking, self._found
        looking.join(ANSWER_S)
        if not found:
            return None
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]

    def _find(self, found: list[Space | OSError]) -> None:
        try:
            found.append(self._look(self.path))
        except OSError as error:
            found.append(error)
