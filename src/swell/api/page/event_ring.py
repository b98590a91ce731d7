"""The latest events of the page, each encoded once, and who waits for the next one."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable

from swell.model.coding import encode

#: A page that was away for no more events than these, and no more bytes, goes on where it was.
EVENTS_KEPT = 512
BYTES_KEPT = 16 << 20


class EventReader:
    """One open page: woken in its own event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Wake the reader; may be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:
            pass  # its loop has ended, and it with it

    async def wait(self, limit_s: float) -> bool:
        """False if nothing has come in that time."""
        try:
            await asyncio.wait_for(self._woken.wait(), limit_s)
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class EventRing:
    """Written by one thread, read by any.

    An id is the name of the ring's life and a number: one of another life, or one that is gone, is answered
    with the whole state.
    """

    def __init__(
        self, whole: Callable[[], object], kept: int = EVENTS_KEPT, bytes_kept: int = BYTES_KEPT
    ) -> None:
        """Args:
        whole: the present state, with the place of the sequence at which it is as `id`.
        bytes_kept: of events; the latest one is kept even if it is larger.
        """
        self._whole = whole
        self._life = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._frames: deque[bytes] = deque(maxlen=kept)
        self._num_bytes, self._bytes_kept = 0, bytes_kept
        self._number = 0  #: of the latest event
        self._readers: set[EventReader] = set()
        self.is_closed = False

    @property
    def last_id(self) -> str:
        return f"{self._life}-{self._number}"

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    def publish(self, delta: object) -> None:
        """Tell all readers."""
        with self._lock:
            self._number += 1
            self._keep(frame("delta", self.last_id, encode(delta)))
            readers = list(self._readers)
        for reader in readers:
            reader.wake()

    def _keep(self, content: bytes) -> None:
        if len(self._frames) == self._frames.maxlen:
            self._num_bytes -= len(self._frames.popleft())
        self._frames.append(content)
        self._num_bytes += len(content)
        while self._num_bytes > self._bytes_kept and len(self._frames) > 1:
            self._num_bytes -= len(self._frames.popleft())

    def begin_again(self) -> None:
        """Give all readers the whole state: events cannot tell them what they lack."""
        with self._lock:
            self._life, self._number = secrets.token_hex(4), 0
            self._frames.clear()
            self._num_bytes = 0
            readers = list(self._readers)
        for reader in readers:
            reader.wake()

    def since(self, last_id: str) -> tuple[bytes, str]:
        """Frames after the one of that id, and the id to ask with next time."""
        with self._lock:
            missed = self._missed(last_id)
            if missed is not None:
                return b"".join(missed), self.last_id
        whole = self._whole()
        now_id: str = getattr(whole, "id", self.last_id)
        return frame("state", now_id, encode(whole)), now_id

    def knows(self, last_id: str) -> bool:
        """Whether it has all that a reader of that id has missed."""
        with self._lock:
            return self._missed(last_id) is not None

    def _missed(self, last_id: str) -> list[bytes] | None:
        """None: it is not known what a reader of that id has missed."""
        life, _, number = last_id.partition("-")
        if life != self._life or not number.isdecimal():
            return None
        num_missed = self._number - int(number)
        if not 0 <= num_missed <= len(self._frames):
            return None
        return list(self._frames)[len(self._frames) - num_missed :]

    def join(self, reader: EventReader) -> None:
        """It is woken at each event, until it leaves."""
        with self._lock:
            self._readers.add(reader)

    def leave(self, reader: EventReader) -> None:
        with self._lock:
            self._readers.discard(reader)

    def close(self) -> None:
        """All readers are to end."""
        self.is_closed = True
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            reader.wake()


def frame(kind: str, event_id: str, content: bytes) -> bytes:
    """One server-sent event. JSON has no line breaks."""
    return b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), event_id.encode(), content)
