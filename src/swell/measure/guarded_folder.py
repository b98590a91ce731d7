"""A folder with an agent in it, of which nothing is left when its maker ends, by SIGKILL too."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swell.executors.local.launch import stop_agent

#: In the folder: the state folder of the agent.
STATE = "state"


@contextmanager
def guarded_folder(prefix: str) -> Iterator[Path]:
    """Make the folder, and a process in a session of its own that cleans up when this one closes its pipe."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    words = [sys.executable, "-P", "-m", __name__, str(folder)]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield folder
    finally:
        guard.communicate()


def main() -> None:
    """Wait for the end of the standard input, then end the agent and remove the folder."""
    sys.stdin.read()
    folder = Path(sys.argv[1])
    try:
        stop_agent(folder / STATE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
