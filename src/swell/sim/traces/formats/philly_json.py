"""Microsoft's Philly cluster as published: `cluster_job_log`, a JSON list of jobs with their attempts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from swell.sim.traces.cells import is_blank, moment, status
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.errors import Malformed, Outside
from swell.sim.traces.format import Head, Records
from swell.sim.traces.record import LineRemarks, records
from swell.sim.traces.source import Source

CHUNK_CHARS = 1 << 20
#: A job that is still unfinished after so many characters is malformed.
LONGEST_JOB = 1 << 22
KEYS = r'"(?:status|vc|jobid|attempts|submitted_time|user)"\s*:'
JOB_START = re.compile(r"\{\s*" + KEYS)
BROKEN = "is no JSON object"


class JobTexts:
    """The objects of a JSON list, one after the other: (line, decoded, or None if it cannot be).

    After one that is malformed it goes on at what looks like the beginning of the next job.
    """

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._buffer = ""
        self._at = 0
        self._line = 1
        self._decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        while self._find_brace():
            line = self._line
            found = self._decode()
            yield line, found

    def _more(self) -> bool:
        """Read on, forgetting what was passed."""
        chunk = self._text.read(CHUNK_CHARS)
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return bool(chunk)

    def _pass(self, end: int) -> None:
        self._line += self._buffer.count("\n", self._at, end)
        self._at = end

    def _find_brace(self) -> bool:
        while (brace := self._buffer.find("{", self._at)) < 0:
            self._pass(len(self._buffer))
            if not self._more():
                return False
        self._pass(brace)
        return True

    def _decode(self) -> Any:
        while True:
            try:
                found, end = self._decoder.raw_decode(self._buffer, self._at)
            except (json.JSONDecodeError, RecursionError):
                if len(self._buffer) - self._at < LONGEST_JOB and self._more():
                    continue
                self._pass_broken()
                return None
            self._pass(end)
            return found

    def _pass_broken(self) -> None:
        """Skip to where the next job begins, or as far as it is certain that none begins."""
        self._pass(self._at + 1)
        following = JOB_START.search(self._buffer, self._at)
        while following is None and self._more_after_tail():
            following = JOB_START.search(self._buffer, self._at)
        self._pass(following.start() if following else len(self._buffer))

    def _more_after_tail(self) -> bool:
        self._pass(max(self._at, len(self._buffer) - 100))  # a beginning may be cut in two
        return self._more()


def build(line: int, found: Any) -> TraceJob:
    if not isinstance(found, dict):
        raise Malformed(BROKEN)
    attempts = found.get("attempts")
    if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
        raise Malformed("attempts is no list of objects")
    submit_s = _time(found.get("submitted_time"))
    if submit_s is None:
        raise Malformed("submitted_time is missing")
    if not attempts:
        raise Outside("never ran")
    spans = [(_time(attempt.get("start_time")), _time(attempt.get("end_time"))) for attempt in attempts]
    ended_s = [end_s - start_s for start_s, end_s in spans if start_s is not None and end_s is not None]
    is_ended = len(ended_s) == len(spans)
    last_s = max((end_s for _, end_s in spans if end_s is not None), default=None)
    return TraceJob(
        id=_word(found.get("jobid")) or str(line),
        submit_s=submit_s,
        num_devices=max(_num_gpus(attempt) for attempt in attempts),
        duration_s=sum(ended_s) if is_ended else None,
        user=_word(found.get("user")),
        tenant=_word(found.get("vc")),
        status=status(_word(found.get("status")) or ""),
        ended_after_s=last_s - submit_s if is_ended and last_s is not None else None,
    )


def _word(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    words = " ".join(value.split())
    # JSON can spell half a surrogate, which no file can be written with.
    return words.encode("utf-8", "replace").decode() or None


def _time(value: Any) -> float | None:
    if value is None or (isinstance(value, str) and is_blank(value)):
        return None
    if not isinstance(value, str):
        raise Malformed("a time is no text")
    try:
        return moment(value)
    except Malformed as error:
        raise Malformed(f"a time {error}") from error


def _num_gpus(attempt: dict[str, Any]) -> int:
    detail = attempt.get("detail") or []
    try:
        return sum(len(machine["gpus"]) for machine in detail)
    except (TypeError, KeyError):
        raise Malformed("detail is no list of machines with gpus") from None


@dataclass(frozen=True)
class PhillyJson:
    """Implements `Format`."""

    name: str = "philly-json"
    title: str = "Philly, cluster_job_log"
    notes: tuple[str, ...] = (
        "times name no zone: read as UTC",
        "a job's duration is that of its attempts together, its devices those of its largest",
    )

    def is_like(self, head: Head) -> bool:
        return head.text.lstrip()[:1] in ("[", "{") and JOB_START.search(head.text) is not None

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        with source.open() as text:
            yield from records(JobTexts(text), build, remarks)


PHILLY_JSON = PhillyJson()
