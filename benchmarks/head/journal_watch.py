"""When events come to be in the journal, as another process sees it."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

LOOK_EVERY_S = 0.002

_decode = msgspec.json.Decoder(list[dict[str, Any]]).decode


class JournalWatch:
    """Keeps when each batch was first seen, and what is in it. Times are of `CLOCK_MONOTONIC`."""

    def __init__(self, path: Path) -> None:
        self.batches: list[tuple[float, list[dict[str, Any]]]] = []
        self._path = path
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_ending.set()
        self._thread.join()

    def _run(self) -> None:
        with sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, isolation_level=None) as database:
            seq = self._newest(database)
            version = 0
            while not self._is_ending.wait(LOOK_EVERY_S):
                ((now_version,),) = database.execute("PRAGMA data_version")
                if now_version == version:
                    continue
                version, now_s = now_version, time.monotonic()
                rows = database.execute("SELECT seq, events FROM batches WHERE seq > ? ORDER BY seq", (seq,))
                for newest, events in rows.fetchall():
                    seq = newest
                    self.batches.append((now_s, _decode(events)))

    def _newest(self, database: sqlite3.Connection) -> int:
        ((newest,),) = database.execute("SELECT max(seq) FROM batches")
        return newest or 0
