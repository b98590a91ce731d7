"""An environment variable that says of a process which platform, zygote and worker it comes from.

The kernel shows in /proc/PID/environ what a program was started with. All programs that a worker starts
inherit its mark, whatever session they go to, unless they are given another environment. A process that is
forked and starts no program shows the mark of the zygote.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from swell.wire.environ import MARK


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """Where a process comes from."""

    agent_pid: int
    zygote_id: str  #: of one zygote process; never used twice
    worker: int  #: which fork of its zygote; 0: the zygote itself, or a copy of a worker
    state_dir: str

    def text(self) -> str:
        """The mark as an environment variable; `parse_mark` reads it back."""
        return f"{self.agent_pid}:{self.zygote_id}:{self.worker}:{self.state_dir}"


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


def own_mark() -> ProcessMark:
    """Raises RuntimeError if this process was started without a mark."""
    text = os.environ.get(MARK, "")
    mark = parse_mark(text)
    if mark is None:
        raise RuntimeError(f"the environment variable {MARK} is {text!r} and no mark of a zygote")
    return mark
