"""Nodes that are lent to a platform, and killed without notice when their owner wants them back.

Each is a `swell node` in a PID namespace of its own, so that SIGKILL of one process ends all of it at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from swell.api.client import Client
from swell.cli.tokens import ensure_first_token
from swell.model.errors import InvalidInput
from swell_papers.live_run import LOOK_EVERY_S, NodeChange

#: For nodes to join, and to be given up.
WITHIN_S = 120.0


class LentInterval(NamedTuple):
    """A node is lent from `start_s` until it is reclaimed. Seconds since the beginning."""

    node: str
    start_s: float
    end_s: float


def namespace_words() -> list[str]:
    """The command that runs another one in a PID namespace. Raises InvalidInput: it cannot be had here."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if shutil.which("unshare") is None:
        raise InvalidInput("nodes that can be killed need the program `unshare` (util-linux); install it")
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise InvalidInput(f"nodes that can be killed need PID namespaces: {tried.stderr.strip()}")
    return words


@dataclass(slots=True)
class LentNodes:
    """Starts nodes and kills them. All are gone when its context ends.

    Args:
        devices: of each node.
        folder: for their states.
    """

    client: Client
    devices: str
    folder: Path
    words: Sequence[str] = field(default_factory=namespace_words)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def join(self, name: str) -> None:
        """Start the node, with an empty folder. Returns before it has joined."""
        state = tempfile.mkdtemp(prefix=name, dir=self.folder)
        address, token = ensure_first_token(self.client.folder)
        node = (*("--join", address, "--token-file", token), *("--name", name), *("--state", state))
        command = (sys.executable, "-P", "-m", "swell.cli.main", "node", *node)
        self._processes[name] = subprocess.Popen(
            [*self.words, *map(str, command), "--devices", self.devices, "--borrowed"],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, name: str) -> None:
        """SIGKILL process 1 of the namespace; returns when the kernel has ended its last process."""
        process = self._processes.pop(name)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in children or [str(process.pid)]:
            os.kill(int(pid), signal.SIGKILL)
        process.wait()

    def await_names(self, names: set[str]) -> None:
        """Wait until these nodes are those of the platform. Raises InvalidInput: they are not in time."""
        give_up_s = time.monotonic() + WITHIN_S
        while (there := {node.name for node in self.client.cluster().nodes}) != names:
            if time.monotonic() > give_up_s:
                raise InvalidInput(
                    f"nodes are there: {', '.join(sorted(there)) or 'none'}, and not "
                    f"{', '.join(sorted(names))}; see the log in {self.client.folder.path}"
                )
            time.sleep(LOOK_EVERY_S)


def owner_of(
    lent: LentNodes, intervals: Sequence[LentInterval], changes: list[NodeChange]
) -> Callable[[float], None]:
    """Return who lends nodes and kills them when told how much time has passed, and notes the killed ones."""
    due = [(one.end_s, one.node, False) for one in intervals]
    due += [(one.start_s, one.node, True) for one in intervals if one.start_s]
    coming = deque(sorted(due))

    def look(passed_s: float) -> None:
        while coming and coming[0][0] <= passed_s:
            _, name, is_lent = coming.popleft()
            if is_lent:
                lent.join(name)
            else:
                changes.append(NodeChange(node=name, at_s=time.time(), what="killed"))
                lent.kill(name)

    return look
