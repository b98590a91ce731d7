"""An environment variable that says of a process which platform, zygote and worker it comes from.

The kernel shows it to others in /proc/PID/environ. All that a worker starts inherits it, whatever session it
goes to; only a program that is started with another environment does not carry it.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, replace
from pathlib import Path

from swell.wire.environ import MARK

#: Of the worker's number: it is written over in place.
NUM_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """Where a process comes from."""

    agent_pid: int
    zygote_id: str  #: of one zygote process; never used twice
    worker: int  #: which fork of its zygote; 0: the zygote itself
    state_dir: str

    def text(self) -> str:
        """The mark as an environment variable; `parse_mark` reads it back."""
        return f"{self.agent_pid}:{self.zygote_id}:{self.worker:0{NUM_DIGITS}d}:{self.state_dir}"


def parse_mark(text: str) -> ProcessMark | None:
    """None if it is no mark."""
    parts = text.split(":", 3)
    if len(parts) != 4 or not (parts[0].isdecimal() and parts[2].isdecimal()):
        return None
    return ProcessMark(int(parts[0]), parts[1], int(parts[2]), parts[3])


def read_mark(pid: int) -> ProcessMark | None:
    """None of a process that carries no mark, is gone, or is none that this one may look at."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    name = f"{MARK}=".encode()
    found = next((variable for variable in variables if variable.startswith(name)), None)
    return None if found is None else parse_mark(os.fsdecode(found[len(name) :]))


class MarkStamp:
    """Marks this process, after a fork, as a worker of the zygote that made the stamp.

    What a process changes in its environment is seen by the programs that it starts, and not by others: they
    see the memory that it was started with. So the number is written there too.
    """

    def __init__(self) -> None:
        """Raises RuntimeError if this process was started without a mark."""
        text = os.environ.get(MARK, "")
        mark = parse_mark(text)
        if mark is None:
            raise RuntimeError(f"the environment variable {MARK} is {text!r} and no mark of a zygote")
        self.mark = mark
        self._address = _address_of(
            f"{MARK}={text}".encode(), len(f"{MARK}={mark.agent_pid}:{mark.zygote_id}:")
        )

    def stamp(self, worker: int) -> None:
        """Mark this process as a worker; called after the fork. `worker`: number of the fork."""
        mark = replace(self.mark, worker=worker)
        os.environ[MARK] = mark.text()
        if self._address is not None:
            ctypes.memmove(self._address, f"{worker:0{NUM_DIGITS}d}".encode(), NUM_DIGITS)


def _address_of(variable: bytes, offset: int) -> int | None:
    """Where in this process's memory the byte `offset` of a variable is that it was started with.

    None where the kernel does not tell: then a process that forks without starting a program is not told
    from those of other workers.
    """
    begin = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47])  # env_start, see proc(5)
    place = Path("/proc/self/environ").read_bytes().find(variable)
    if not begin or place < 0 or ctypes.string_at(begin + place, len(variable)) != variable:
        return None
    return begin + place + offset
