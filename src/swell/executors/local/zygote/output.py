"""The zygote's side of what workers print: from a pipe for each worker to its log.

A worker's stdout and stderr are a pipe and not its log file: when the disk is full `print` does not fail, and
training goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import termios
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.executors.local.logs.writer import LogWriter
from swell.executors.local.zygote.forking import Fork, OutputDropped, ValuesPrinted
from swell.executors.local.zygote.value_lines import ValueLines

#: What a worker can print while the zygote is stopped. More would exhaust an ordinary user's share of pipes.
PIPE_BYTES = 256 << 10
#: Read from one pipe before others, and forks, have their turn.
TURN_BYTES = 64 << 10
#: Between two tries to write what a log lacks, and at least between two words about it.
RETRY_S = 1.0
TELL_S = 5.0


@dataclass(slots=True)
class _Output:
    key: str
    log: LogWriter
    descriptor: int | None  #: the end that is read; None: closed by all that could write to it
    is_gone: bool = False  #: the worker; its log lacks a line
    told_bytes: int | None = None  #: that the agent was last told of; None: of nothing
    told_s: float = 0.0
    values: ValueLines | None = None  #: None: its lines are not read

    def take(self, content: bytes) -> None:
        """A piece of what the worker has printed."""
        self.log.append(content)
        if self.values is not None:
            self.values.feed(content)


class Outputs:
    """Output pipes and logs of all workers.

    Descriptors are registered with `selector`, with the worker's key as their data.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        say: Callable[[OutputDropped | ValuesPrinted], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._selector = selector
        self._say = say
        self._clock = clock
        self._outputs: dict[str, _Output] = {}

    @property
    def wait_s(self) -> float | None:
        """How long the caller may wait before it calls `try_again` and `tell_values`."""
        waits_s = [RETRY_S for output in self._outputs.values() if output.log.is_dropping]
        waits_s += [
            wait_s
            for output in self._outputs.values()
            if output.values is not None and (wait_s := output.values.wait_s) is not None
        ]
        return min(waits_s, default=None)

    def open(self, request: Fork) -> int:
        """The end that the worker writes to, to be closed by the caller. Raises OSError."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError):  # the user has many pipes: a smaller one does as well
            fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        log = LogWriter(Path(request.log_path), request.log_bytes, clock=self._clock)
        values = ValueLines(request.value_name, self._clock) if request.value_name else None
        self._outputs[request.key] = _Output(request.key, log, ours, values=values)
        self._selector.register(ours, selectors.EVENT_READ, request.key)
        return theirs

    def read(self, key: str) -> None:
        """A turn's worth of what the worker has printed."""
        output = self._outputs.get(key)
        if output is None or output.descriptor is None:
            return
        content = _read(output.descriptor, TURN_BYTES)
        if content:
            output.take(content)
            self._tell(output)
        elif content is not None:  # it has closed both; it may live on
            self._close(output)

    def end(self, key: str) -> None:
        """The worker is gone: its last words go to its log. What others that hold its pipe print is lost."""
        output = self._outputs[key]
        if output.descriptor is not None:
            left = _num_unread(output.descriptor)
            while left > 0 and (content := _read(output.descriptor, min(left, TURN_BYTES))):
                output.take(content)
                left -= len(content)
            self._close(output)
        self._tell_values(output, is_last=True)
        if output.log.is_dropping:
            output.log.try_again(at_once=True)
        output.is_gone = True
        self._settle(output)

    def try_again(self) -> None:
        """Write what logs lack; workers that print nothing now are told of too."""
        for output in [output for output in self._outputs.values() if output.log.is_dropping]:
            output.log.try_again()
            self._settle(output)

    def tell_values(self) -> None:
        """What lines tell that were printed some time ago."""
        for output in self._outputs.values():
            self._tell_values(output)

    def abandon(self) -> None:
        """Close all descriptors and logs in a forked child: they are the parent's."""
        for output in self._outputs.values():
            if output.descriptor is not None:
                os.close(output.descriptor)
            output.log.close()

    def _settle(self, output: _Output) -> None:
        """Tell, and forget a worker that is gone, unless its log lacks a line that may yet be written."""
        self._tell(output)
        if output.is_gone:
            output.log.close()
            if not output.log.is_dropping or output.log.is_gone:
                del self._outputs[output.key]

    def _close(self, output: _Output) -> None:
        assert output.descriptor is not None  # noqa: S101 - asked by the callers
        self._selector.unregister(output.descriptor)
        os.close(output.descriptor)
        output.descriptor = None

    def _tell_values(self, output: _Output, is_last: bool = False) -> None:
        if output.values is None:
            return
        if is_last:
            output.values.close()
        if values := output.values.take(at_once=is_last):
            self._say(ValuesPrinted(key=output.key, values=values))

    def _tell(self, output: _Output) -> None:
        """Report dropped output: when it begins and ends, and meanwhile when it has grown tenfold."""
        log, now_s = output.log, self._clock()
        if not log.is_dropping:
            if output.told_bytes is not None:
                output.told_bytes = None
                self._say(OutputDropped(key=output.key, num_bytes=0, why=""))
        elif log.num_dropped and (
            output.told_bytes is None
            or (log.num_dropped >= 10 * output.told_bytes and now_s >= output.told_s + TELL_S)
        ):
            output.told_bytes, output.told_s = log.num_dropped, now_s
            self._say(OutputDropped(key=output.key, num_bytes=log.num_dropped, why=log.why))


def _read(descriptor: int, limit: int) -> bytes | None:
    """Empty at the end, None if nothing is there now."""
    try:
        return os.read(descriptor, limit)
    except BlockingIOError:
        return None


def _num_unread(descriptor: int) -> int:
    number = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, number)
    return number[0]
