"""Folders for as long as the process lives that they are for: they go when it is gone, whatever ended it.

A trial run writes in one instead of the job's working directory (`mirror`), and another one takes the place
of its temporary directory. Every worker has one for the sockets of its loader's processes, which leave them
behind when they are killed. Sockets need short paths (107 bytes), so these folders are in the machine's
temporary directory, in one that is named after the state folder; the others are in the state folder.
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
from swell.wire.private_files import remove_room
from swell.wire.untrusted_files import is_own_folder

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

    def begin(self) -> None:
        """Make the folders of this agent; remove those of killed ones, of which no process is left."""
        left = [*self._root.glob("*"), *Path(tempfile.gettempdir()).glob(f"{self._prefix}*")]
        self._in_background(lambda: _remove(left))
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._own = Path(tempfile.mkdtemp(dir=self._root))
            self._temporary = Path(tempfile.mkdtemp(prefix=self._prefix))
        except OSError as error:
            log.warning("cannot make folders for workers' temporary files: %s", error)

    def equip(self, fork: Fork, is_trial: bool) -> Fork:
        """The same request, with folders for the worker; `is_trial`: it runs a script on trial."""
        number = str(next(self._numbers))
        sockets = self._made(self._temporary, number)
        if not is_trial:
            self._folders[fork.key] = [sockets] if sockets else []
            return msgspec.structs.replace(fork, sockets=str(sockets or ""))
        mirror, temporary = self._made(self._own, number), self._made(sockets, "tmp")
        self._folders[fork.key] = [folder for folder in (sockets, mirror) if folder]
        variables = {environ.TRIAL: "1", environ.WORKDIR: fork.workdir, environ.MIRROR: str(mirror or "")}
        if temporary is not None:
            variables["TMPDIR"] = str(temporary)
        return msgspec.structs.replace(
            fork,
            sockets=str(sockets or ""),
            mirror=str(mirror or ""),
            environ=fork.environ | variables,
        )

    def drop(self, key: str) -> None:
        """The worker is gone."""
        if folders := self._folders.pop(key, []):
            self._in_background(lambda: _remove(folders))

    def end(self) -> None:
        """Every worker is gone."""
        _remove([folder for folder in (self._own, self._temporary) if folder is not None])

    def _made(self, parent: Path | None, name: str) -> Path | None:
        if parent is None:
            return None
        try:
            (parent / name).mkdir(mode=0o700)
        except OSError as error:
            log.warning("a worker does without a folder of its own: %s", error)
            return None
        return parent / name


def _remove(folders: list[Path]) -> None:
    """Remove those that are folders of this user, and no links to any."""
    for folder in folders:
        if is_own_folder(folder):
            remove_room(folder)  # what is left goes with the agent
