"""What Swell's workers say of the parts of a change, kept by group."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from benchmarks.training.steplog import this_group
from swell.train.collective.part_times import PartTimes


class LapsLog(logging.Handler):
    """Takes what `swell.train` logs after the first step of a group."""

    def __init__(self, folder: Path) -> None:
        super().__init__(logging.DEBUG)
        self._file = (folder / f"laps-{socket.gethostname()}-{os.getpid()}.log").open("a", buffering=1)

    def emit(self, record: logging.LogRecord) -> None:
        laps = [each for each in record.args or () if isinstance(each, PartTimes)]
        if laps:
            self._file.write(json.dumps([this_group(), dict(laps[0].parts_s)]) + "\n")


def read_laps(folder: Path, group: str) -> Mapping[str, float]:
    """Seconds of each part, of the worker that waited least for others; empty if none has told."""
    texts = [text for path in folder.glob("laps-*.log") for text in path.read_text().splitlines(True)]
    entries = [json.loads(text) for text in texts if text.endswith("\n")]
    found: list[Mapping[str, float]] = [parts_s for of, parts_s in entries if of == group]
    return min(found, key=lambda parts_s: parts_s.get("meet", 0.0), default={})
