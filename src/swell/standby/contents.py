"""What of a state folder a standby has besides the journal: small files, and the code of jobs.

With these another machine can be the head: its certificate and its tokens, and which hosts may run workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from swell.executors.remote.certificate import CERTIFICATE_FILE
from swell.executors.remote.claims import KEY_FILE, parse_key
from swell.executors.remote.head_term import REIGN_FILE, parse_head_term
from swell.executors.remote.lease_book import LEASES_FILE, parse_leases
from swell.executors.remote.token_list import TOKENS_FILE, parse_tokens
from swell.model.code import decode_tree, object_path, tree_path
from swell.standby.messages import FileCopied

#: Of a head alone, in no backup, and what is wrong with the content of each: see `CarriedFile`.
HEAD_FILES: dict[str, Callable[[bytes], object]] = {
    "metrics-token": bytes.decode,
    CERTIFICATE_FILE: bytes.decode,
    TOKENS_FILE: parse_tokens,
    REIGN_FILE: parse_head_term,
    LEASES_FILE: parse_leases,
    KEY_FILE: parse_key,
}
SMALL_FILES = ("users.json", "options.json", "webhooks.yaml", "webhook-secret", *HEAD_FILES)
CODE = "code"
#: A folder that was changed later than so long ago may be changed again unseen: clocks of file systems tick
#: slowly.
SETTLED_S = 2.0

_Fingerprint = tuple[int, int, int] | None


def is_copied(name: str) -> bool:
    """Whether a file of this name belongs to a copy."""
    parts = PurePosixPath(name).parts
    return name in SMALL_FILES or (len(parts) > 2 and parts[0] == CODE and ".." not in parts)


class ChangedFiles:
    """Files of a state folder that are not as they were when they were last taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, _Fingerprint] = dict.fromkeys(SMALL_FILES)
        self._trees, self._objects = set[str](), set[str]()
        self._looked_at: int | None = None  #: when the folder of snapshots was changed, as it was last seen

    @property
    def names(self) -> list[str]:
        """Names, relative to the state folder, of all files that were taken and are there."""
        small = [name for name, seen in self._seen.items() if seen is not None]
        code = [tree_path(self._folder, digest) for digest in self._trees]
        code += [object_path(self._folder, digest) for digest in self._objects]
        return [*small, *(path.relative_to(self._folder).as_posix() for path in code)]

    def take(self) -> Iterator[FileCopied]:
        """A snapshot of code comes after its contents. Raises OSError."""
        for name in SMALL_FILES:
            yield from self._take_small(name)
        yield from self._take_code()

    def _take_small(self, name: str) -> Iterator[FileCopied]:
        if _fingerprint(self._folder / name) == self._seen[name]:
            return
        content = None
        self._seen[name] = None
        with suppress(FileNotFoundError), (self._folder / name).open("rb") as file:
            self._seen[name] = _of(os.fstat(file.fileno()))
            content = file.read()
        yield FileCopied(name=name, content=content)

    def _take_code(self) -> Iterator[FileCopied]:
        folder = tree_path(self._folder, "any").parent
        try:
            changed_ns = folder.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed_ns == self._looked_at:
            return
        is_settled = changed_ns < time.time_ns() - SETTLED_S * 1e9
        for digest in {path.stem for path in folder.glob("*.json")} - self._trees:
            yield from self._take_tree(digest)
        self._looked_at = changed_ns if is_settled else None

    def _take_tree(self, digest: str) -> Iterator[FileCopied]:
        """Unless it is being removed: then no job has it."""
        path = tree_path(self._folder, digest)
        with suppress(FileNotFoundError, msgspec.MsgspecError):
            content = path.read_bytes()
            for file in decode_tree(content).files.values():
                if file.digest not in self._objects:
                    yield self._whole(object_path(self._folder, file.digest))
                    self._objects.add(file.digest)
            yield FileCopied(name=path.relative_to(self._folder).as_posix(), content=content)
            self._trees.add(digest)

    def _whole(self, path: Path) -> FileCopied:
        return FileCopied(name=path.relative_to(self._folder).as_posix(), content=path.read_bytes())


def _fingerprint(path: Path) -> _Fingerprint:
    try:
        return _of(path.stat())
    except FileNotFoundError:
        return None


def _of(found: os.stat_result) -> _Fingerprint:
    return (found.st_ino, found.st_size, found.st_mtime_ns)
