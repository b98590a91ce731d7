"""Folders for as long as the process lives that they are for: its zygote makes them, they go when it is gone.

A trial run writes in one instead of the job's working directory (`mirror`), and another one takes the place
of its temporary directory. Every worker has one for the sockets of its loader's processes, which leave them
behind when they are killed. Sockets need short paths (107 bytes), so these folders are in the machine's
temporary directory, in one that is named after the state folder; the others are in the state folder. Those of
another user are in the temporary directory of their zygote, which removes them itself.
"""

from __future__ import annotations

import itertools
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.executors.local.limits.control_groups import platform_prefix
from swell.executors.local.zygote.messages import Fork
from swell.wire import environ
from swell.wire.untrusted_files import is_own_folder, remove_folder

log = logging.getLogger("swell.agent")


class Scratch:
    """One agent's. A folder that cannot be made is done without: workers then use what they find."""

    def __init__(self, state_dir: Path, in_background: Callable[[Callable[[], None]], object]) -> None:
        """`in_background`: runs what may take long."""
        self._root = state_dir / "scratch"
        self._prefix = platform_prefix(state_dir)
        self._in_background = in_background
        self._own: Path | None = None
        self._temporary: Path | None = None
        self._numbers = itertools.count()
        self._folders: dict[str, list[Path]] = {}  #: by worker

    def make_folders(self) -> None:
        """Make the folders of this agent; remove those of killed ones, of which no process is left."""
        left = [*self._root.glob("*"), *Path(tempfile.gettempdir()).glob(f"{self._prefix}*")]
        self._in_background(lambda: _remove(left))
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._own = Path(tempfile.mkdtemp(dir=self._root))
            self._temporary = Path(tempfile.mkdtemp(prefix=self._prefix))
        except OSError as error:
            log.warning("cannot make folders for workers' temporary files: %s", error)

    def equip(self, fork: Fork, is_trial: bool, is_own: bool = True) -> Fork:
        """The same request, with folders for the worker.

        Args:
            is_trial: it runs a script on trial.
            is_own: it runs as this user.
        """
        number = str(next(self._numbers))
        sockets, mirror = number, f"{number}/mirror"
        if is_own:
            tops = (self._temporary, self._own if is_trial else None)
            sockets, mirror = (str(top / number) if top else "" for top in tops)
            self._folders[fork.key] = [Path(path) for path in (sockets, mirror) if path]
        if not is_trial:
            return msgspec.structs.replace(fork, sockets=sockets)
        told = {environ.TRIAL: "1", environ.WORKDIR: fork.workdir}
        return msgspec.structs.replace(fork, sockets=sockets, mirror=mirror, environ=fork.environ | told)

    def drop(self, key: str) -> None:
        """The worker is gone."""
        if folders := self._folders.pop(key, []):
            self._in_background(lambda: _remove(folders))

    def end(self) -> None:
        """Every worker is gone."""
        _remove([folder for folder in (self._own, self._temporary) if folder is not None])


def _remove(folders: list[Path]) -> None:
    """Remove those that are folders of this user, and no links to any."""
    for folder in folders:
        if is_own_folder(folder):
            remove_folder(folder)  # what is left goes with the agent
