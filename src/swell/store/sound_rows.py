"""Rows that can still be read of a journal, however damaged it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from swell.model.coding import decoder
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.view import JobView, Story
from swell.store import sqlite
from swell.store.carve import Value, rows_in
from swell.store.curves import Piece, ToldCurves, read_piece, read_told
from swell.store.schema import is_sound, submissions_before

_decode_batch: Callable[[str], list[AnyEvent]] = decoder(list[AnyEvent]).decode
_decode_submission: Callable[[str], JobSubmitted] = decoder(JobSubmitted).decode
_decode_view: Callable[[str], JobView] = decoder(JobView).decode

_Key = TypeVar("_Key", int, str)
_Row = TypeVar("_Row")


@dataclass(slots=True)
class SoundRows:
    """Rows whose checksum is right, or, of an earlier version, that can be decoded."""

    folds: dict[int, str] = field(default_factory=dict)  #: states by number; the highest is the latest
    batches: dict[int, list[AnyEvent]] = field(default_factory=dict)
    submissions: dict[str, JobSubmitted] = field(default_factory=dict)
    jobs: dict[str, JobView] = field(default_factory=dict)  #: of the archive
    stories: dict[tuple[str, Story], None] = field(default_factory=dict)
    curves: list[Piece] = field(default_factory=list)
    told: dict[int, list[ToldCurves]] = field(default_factory=dict)  #: of curves, by batch
    num_damaged: int = 0  #: rows that are recognised, and are not what was written

    def take(self, number: int, values: tuple[Value, ...]) -> None:
        """Recognise a row by its columns."""
        match values:
            case (None, str(events), _, crc) if events.startswith("["):
                self._take(self.batches, number, events, crc, _decode_batch)
            case (int(seq), str(events), _) if events.startswith("["):  # version 1
                self._take(self.batches, seq, events, None, _decode_batch)
            case (None, str(state), crc) if state.startswith("{"):
                self._take(self.folds, number, state, crc, str)
            case (int(seq), str(state)) if state.startswith("{"):  # version 1
                self._take(self.folds, seq, state, None, str)
            case (str(job_id), None | str(), str(event), crc) if event.startswith("{"):
                self._take(self.submissions, job_id, event, crc, _decode_submission)
            case (str(job_id), int() | float(), _, str(view), *crc) if view.startswith("{"):
                self._take(self.jobs, job_id, view, crc[0] if crc else None, _decode_view)
            case (None, str(job_id), int() | float() as at_s, str(code), str(text), *crc):
                self._take_story(job_id, Story(at_s=float(at_s), code=code, text=text), crc)
            case (None, bytes(told), int(crc)):
                self._keep_told(number, read_told(number, told, crc))
            case (str(job_id), str(name), int(piece), int(seq), bytes(points), int(crc)):
                self._keep_piece(read_piece(job_id, name, piece, seq, points, crc))

    def _take(
        self, kept: dict[_Key, _Row], key: _Key, text: str, crc: Value, decode: Callable[[str], _Row]
    ) -> None:
        """Keep the row under its key if it is what was written, else count it."""
        try:
            if is_sound(crc, key, text):
                kept[key] = decode(text)
                return
        except msgspec.MsgspecError:
            pass
        self.num_damaged += 1

    def _take_story(self, job_id: str, story: Story, crc: list[Value]) -> None:
        if is_sound(crc[0] if crc else None, job_id, story.at_s, story.code, story.text):
            self.stories[(job_id, story)] = None
        else:
            self.num_damaged += 1

    def _keep_told(self, seq: int, told: list[ToldCurves] | None) -> None:
        if told is None:
            self.num_damaged += 1
        else:
            self.told[seq] = told

    def _keep_piece(self, piece: Piece | None) -> None:
        if piece is None:
            self.num_damaged += 1
        else:
            self.curves.append(piece)

    def all_submissions(self) -> dict[str, JobSubmitted]:
        """Those of the table, and those that batches and folds tell of."""
        found: dict[str, JobSubmitted] = {}
        for state in self.folds.values():
            try:
                told = submissions_before([state], [])
            except msgspec.MsgspecError:
                continue
            found |= {event.job_id: event for event in told}
        events = (event for batch in self.batches.values() for event in batch)
        found |= {event.job_id: event for event in events if isinstance(event, JobSubmitted)}
        return found | self.submissions


def read_remains(journal: Path) -> SoundRows:
    """Return what can be read of the journal's file and write-ahead log, as they are. Raises OSError."""
    log = sqlite.log_of(journal)
    remains = SoundRows()
    database = journal.read_bytes() if journal.exists() else b""
    for number, values in rows_in(database, log.read_bytes() if log.exists() else b""):
        remains.take(number, values)
    return remains
