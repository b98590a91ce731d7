"""Files that this host lacks and the controller has: each is fetched once, and few at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from swell.executors.hosts.file_messages import FilePart, NamedFile, NoFile, PartRequest
from swell.executors.local.files.background import Background
from swell.executors.local.files.incoming import Cause, IncomingFile, TransferFailure
from swell.executors.local.files.places import place_of

#: Most files are small, and each takes a way there and back.
NUM_AT_ONCE = 8

Ended = Callable[[TransferFailure | None], None]


class Fetches:
    """Fetches of files that one state folder lacks."""

    def __init__(self, state_dir: Path, ask: Callable[[PartRequest], None], background: Background) -> None:
        """`ask`: tells the controller."""
        self._state_dir, self._ask, self._background = state_dir, ask, background
        self._waiting: dict[NamedFile, list[Ended]] = {}  #: who waits for each
        self._queue: deque[NamedFile] = deque()
        self._incoming: dict[NamedFile, IncomingFile] = {}

    def fetch(self, file: NamedFile, ended: Ended) -> None:
        """`ended` is called once; None: it is there."""
        waiting = self._waiting.setdefault(file, [])
        waiting.append(ended)
        if len(waiting) == 1:
            self._queue.append(file)
            self._advance()

    def hear(self, message: FilePart | NoFile) -> None:
        """What was not asked for has no effect."""
        if (incoming := self._incoming.get(message.file)) is not None:
            incoming.hear(message)

    def give_up(self, why: str) -> None:
        """Everything: another controller is there, or none. What is asked for from now on begins again."""
        self._queue.clear()
        waiting, self._waiting = self._waiting, {}
        under_way, self._incoming = self._incoming, {}
        for incoming in under_way.values():
            incoming.give_up(why)
        for ended in chain.from_iterable(waiting.values()):
            ended(TransferFailure(Cause.GIVEN_UP, why))

    def _advance(self) -> None:
        while self._queue and len(self._incoming) < NUM_AT_ONCE:
            self._begin(self._queue.popleft())

    def _begin(self, file: NamedFile) -> None:
        def ended(failure: TransferFailure | None) -> None:
            if self._incoming.get(file) is incoming:  # else it was given up while a part was written
                self._end(file, failure)

        try:
            path = place_of(self._state_dir, file)
            incoming = IncomingFile(file, path, self._ask, self._background, ended)
        except ValueError as error:
            self._end(file, TransferFailure(Cause.MISSING, str(error)))
            return
        self._incoming[file] = incoming
        incoming.begin()

    def _end(self, file: NamedFile, failure: TransferFailure | None) -> None:
        self._incoming.pop(file, None)
        waiting = self._waiting.pop(file, [])
        self._advance()
        for ended in waiting:
            ended(failure)
