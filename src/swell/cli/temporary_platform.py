"""A platform for the length of a command, in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from swell.api.client import Client, connect_as_owner
from swell.api.errors import NoPlatform, PlatformSilent
from swell.cli.launch import launch
from swell.store.folder import StateFolder


@contextmanager
def brief_platform(options: Sequence[str], prefix: str, say: Callable[[str], None]) -> Iterator[Client]:
    """It always ends; the folder stays only if something went wrong.

    Args:
        options: of `swell up`.
        prefix: of the folder's name.
        say: is told where the folder is if it stays.
    """
    state = Path(tempfile.mkdtemp(prefix=prefix))
    is_good = False
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)  # to be asked to end is as Ctrl-C
    try:
        with launch(StateFolder(state), options) as client:
            yield client
        is_good = True
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # one is enough: what follows ends soon and must be done
        _take_down(state)
        if is_good:
            shutil.rmtree(state)
            for number, handler in before.items():
                signal.signal(number, handler)
        else:
            say(f"Journal and logs are kept in {state}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _take_down(state: Path) -> None:
    """Nothing of the platform runs when this returns."""
    try:
        with connect_as_owner(state) as client:
            for job in client.jobs():
                if not job.phase.is_end:
                    client.cancel(job.id)  # it never goes on: no checkpoint is needed
    except (NoPlatform, PlatformSilent):
        pass  # it never came up, or was killed, or hangs: `down` ends what it may have left
    # It says on stderr what it could not end; that it saved nothing of what was cancelled is no matter.
    subprocess.run(
        [sys.executable, "-P", "-m", "swell.cli.main", "down", "--force", "--state", str(state)],
        check=False,
        stdout=subprocess.DEVNULL,
    )
