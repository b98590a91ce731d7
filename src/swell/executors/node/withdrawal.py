"""How a host that will be gone soon leaves: it says so, lets its workers move away, and ends in time.

`swell node --leave 30s` writes the time into a file of the host's state folder, and sends SIGUSR1.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from swell.executors.gang.host_messages import HostLeaving
from swell.executors.node.options import find_host
from swell.executors.node.state import HostStateError
from swell.wire.whole_files import write_whole

LEAVE_FILE = "leave"
#: The host has not been needed for so long: what was on its way to it when it said that it leaves has come.
IDLE_S = 2.0
#: Before the time is over: workers are killed, and the head hears of it.
END_AHEAD_S = 3.0
#: Of a short time, no more than this part is for the end.
END_SHARE = 0.5


class Withdrawal:
    """Withdrawal of one host process from its platform, from now on. Times are of one clock."""

    def __init__(self, within_s: float, why: str, now_s: float) -> None:
        """The machine will be gone so soon."""
        self._why, self._needed_s, self._until_s = why, now_s, now_s + within_s
        self._end_s = self._until_s - min(END_AHEAD_S, END_SHARE * within_s)

    def warning(self, now_s: float) -> HostLeaving:
        """What a controller is to hear."""
        return HostLeaving(within_s=max(0.0, self._until_s - now_s), why=self._why)

    def is_due(self, is_needed: bool, now_s: float) -> bool:
        """Whether to end now. `is_needed`: workers, or what they have left, are here yet."""
        if is_needed:
            self._needed_s = now_s
        return now_s >= self._end_s or now_s >= self._needed_s + IDLE_S


def order_leave(state_dir: Path, within_s: float) -> None:
    """Have the host process of this folder leave. Returns before it has.

    Raises:
        HostStateError, OSError.
    """
    state_dir = state_dir.resolve()
    pid = find_host(state_dir)
    if pid is None:
        raise HostStateError(
            f"no host process runs with the state folder {state_dir}; `swell node --leave` tells the one of "
            "its folder: run it on that host as the same user, and name the folder with --state"
        )
    write_whole(state_dir / LEAVE_FILE, f"{within_s}\n".encode())
    os.kill(pid, signal.SIGUSR1)


def take_order(state_dir: Path) -> float | None:
    """What was ordered last, once; None: nothing that can be read."""
    path = state_dir / LEAVE_FILE
    try:
        text = path.read_text("ascii")
        path.unlink()
        return float(text)
    except (OSError, ValueError):
        return None
