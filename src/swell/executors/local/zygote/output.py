"""The zygote's side of what workers print: from a pipe for each worker to its log.

A worker's stdout and stderr are a pipe and not its log file: when the disk is full or hangs, `print` does not
fail, and training goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from swell.executors.local.logs.writer import ANSWER_WITHIN_S, LogWriter
from swell.executors.local.zygote.messages import Exited, Fork, ValuesPrinted
from swell.wire.reports import LINK, Number, link_fault, spelled

#: A longer line is no report.
MAX_LINE_BYTES = 4096
#: They are read at most so often.
INTERVAL_S = 0.5
#: What a worker can print while the zygote is stopped. More would exhaust an ordinary user's share of pipes.
PIPE_BYTES = 256 << 10
#: Different lines with links that are read of a worker.
MOST_READ = 100
_LINK = f'"{LINK}"'.encode()
#: Read from one pipe before others, and forks, have their turn.
TURN_BYTES = 64 << 10


class ValueLines:
    """Finds lines that are JSON objects with a number under this name, in what comes in pieces: its report.

        {"step": 120, "loss": 0.31, "accuracy": 0.9}

    Other text may stand in the same line before the object. Of many lines in a short time the latest is
    read, so a flood of them costs a search for the name. Lines that tell a link (`swell.link`) are found too.

    A carriage return ends a line, too: a progress bar that is drawn again and again has no other end.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._keys = [_LINK, *([json.dumps(name).encode()] if name else [])]
        self._links: dict[str, str] = {}  #: that are not told yet
        self._read = set[bytes]()  #: lines that told a link; a program may print one in each step
        self._clock = clock
        self._open = b""  # the begin of a line whose end has yet to come, no report if it is too long
        self._line = b""  # the newest that holds the name, and may be an object
        self._due_s = 0.0

    @property
    def wait_s(self) -> float | None:
        """Until there is something to read; None: no line is kept."""
        return max(0.0, self._due_s - self._clock()) if self._line or self._links else None

    def feed(self, content: bytes) -> None:
        """A piece of the output."""
        text = self._open + content.replace(b"\r", b"\n")
        is_wanted = any(key in text for key in self._keys)
        lines = text.split(b"\n") if is_wanted else [text.rpartition(b"\n")[2]]
        self._open = lines.pop()[: MAX_LINE_BYTES + 1]
        for line in lines:
            if b"{" not in line or len(line) > MAX_LINE_BYTES:
                continue
            if _LINK in line:
                if line not in self._read and len(self._read) < MOST_READ:
                    self._read.add(line)
                    told = _object_in(line)
                    name, url = told.get(LINK), told.get("url")
                    if isinstance(name, str) and isinstance(url, str) and not link_fault(name, url):
                        self._links[name] = url
            elif self._keys[-1] in line:
                self._line = line

    def close(self) -> None:
        """The last line may lack its end."""
        self.feed(b"\n")

    def take_values(self, at_once: bool = False) -> tuple[dict[str, Number], dict[str, str]]:
        """The numbers of the newest such line, and links, if it is time to read them; else empty."""
        if self.wait_s is None or (self._due_s > self._clock() and not at_once):
            return {}, {}
        self._due_s = self._clock() + INTERVAL_S
        line, links, self._line, self._links = self._line, self._links, b"", {}
        values = dict(_numbers(_object_in(line)))
        return values if self._name in values else {}, links


def _object_in(line: bytes) -> dict[str, object]:
    """The JSON object with which the line ends; empty: it ends with none."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line[line.find(b"{") :])
        return found if isinstance(found, dict) else {}
    return {}


def _numbers(found: dict[str, object]) -> Iterator[tuple[str, Number]]:
    for name, value in found.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                yield name, spelled(float(value))
            except OverflowError:
                continue  # a whole number that no float can hold


@dataclass(slots=True)
class _Output:
    key: str
    log: LogWriter
    values: ValueLines
    descriptor: int | None  #: the end that is read; None: closed by all that could write to it
    is_paused: bool = False  #: it is not read, so that the disk can catch up


class WorkerOutput:
    """Output pipes and logs of all workers.

    Descriptors are registered with `selector`, with the worker's key as their data.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        say: Callable[[ValuesPrinted | Exited], None],
        wake: Callable[[], None],
    ) -> None:
        """`wake`: called by a thread, to have `tick` called soon."""
        self._selector = selector
        self._say = say
        self._wake = wake
        self._outputs: dict[str, _Output] = {}
        #: To be told in this order, each once its log is complete, or in trouble.
        self._ends: deque[tuple[Exited, LogWriter]] = deque()

    @property
    def wait_s(self) -> float | None:
        """How long the caller may wait before it calls `tick`."""
        outputs = self._outputs.values()
        waits_s = [wait_s for output in outputs if (wait_s := output.values.wait_s) is not None]
        if self._ends or any(output.is_paused for output in outputs):
            waits_s.append(ANSWER_WITHIN_S)
        return min(waits_s, default=None)

    def open(self, request: Fork) -> int:
        """The end that the worker writes to, to be closed by the caller.

        Raises:
            OSError: the user has no pipe left; RuntimeError: no thread.
        """
        log = LogWriter(Path(request.log_path), request.log_bytes)
        log.start(self._wake)  # a worker that prints nothing has a log, too
        try:
            ours, theirs = os.pipe()
        except OSError:
            log.end()
            raise
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):  # the user has many pipes: a smaller one does as well
            fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._outputs[request.key] = _Output(request.key, log, ValueLines(request.value_name), ours)
        self._selector.register(ours, selectors.EVENT_READ, request.key)
        return theirs

    def read(self, key: str) -> None:
        """A turn's worth of what the worker has printed."""
        output = self._outputs.get(key)
        if output is None or output.descriptor is None:
            return
        if output.log.is_full:
            self._selector.unregister(output.descriptor)
            output.is_paused = True
            return
        content = _read(output.descriptor, TURN_BYTES)
        if content:
            self._take(output, content)
        elif content is not None:  # it has closed both; it may live on
            self._close(output)

    def end(self, exited: Exited) -> None:
        """The worker is gone: its last words go to its log. What others that hold its pipe print is lost.

        Ends are told in the order of these calls, however long the log of each takes.
        """
        output = self._outputs[exited.key]
        if output.descriptor is not None:
            for _ in range(PIPE_BYTES // TURN_BYTES):
                if content := _read(output.descriptor, TURN_BYTES):
                    self._take(output, content)
            self._close(output)
        self._tell_values(output, is_last=True)
        self._ends.append((exited, output.log))
        output.log.end()

    def tick(self) -> None:
        """Time has passed, or logs were flushed."""
        for output in list(self._outputs.values()):
            log = output.log
            if output.is_paused and output.descriptor is not None and not log.is_full:
                self._selector.register(output.descriptor, selectors.EVENT_READ, output.key)
                output.is_paused = False
            self._tell_values(output)
            if log.is_over:
                del self._outputs[output.key]
        while self._ends and (self._ends[0][1].is_over or self._ends[0][1].trouble):
            self._say(self._ends.popleft()[0])

    def _take(self, output: _Output, content: bytes) -> None:
        """A piece of what the worker has printed."""
        output.log.append(content)
        output.values.feed(content)

    def _close(self, output: _Output) -> None:
        assert output.descriptor is not None  # noqa: S101 - asked by the callers
        if not output.is_paused:
            self._selector.unregister(output.descriptor)
        os.close(output.descriptor)
        output.descriptor = None

    def _tell_values(self, output: _Output, is_last: bool = False) -> None:
        if is_last:
            output.values.close()
        values, links = output.values.take_values(at_once=is_last)
        if values or links:
            self._say(ValuesPrinted(key=output.key, values=values, links=links))


def _read(descriptor: int, limit: int) -> bytes | None:
    """Empty at the end, None if nothing is there now."""
    try:
        return os.read(descriptor, limit)
    except BlockingIOError:
        return None
