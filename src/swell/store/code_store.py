"""Snapshots of jobs' code in a state folder: contents by digest, and manifests.

From other machines they come in pieces, each of which may be sent again. What has come of a content is kept
for a while, so that an upload whose line broke goes on where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.code import (
    CodeFile,
    CodeGaps,
    CodeLimits,
    CodeTree,
    ContentPiece,
    decode_tree,
    job_tree_path,
    object_path,
    tree_path,
)
from swell.store.code_snapshot import (
    MIB,
    CodeNotFound,
    CodeSnapshot,
    CodeTooLarge,
    SnapshotRequest,
    read_snapshot,
)
from swell.wire.whole_files import write_whole

#: What was used so recently is kept: its job may be about to be written into the journal.
GRACE_S = 3600.0
#: With the first intake, and after so many, snapshots that no job uses are looked for.
COLLECT_EVERY = 500
#: Stands beside the manifest of a snapshot that has users without a link to it.
KEPT = ".kept"


class CodeIntake:
    """The one door by which code comes into a store. Nothing that is said of a content is believed.

    What has come is kept, unless it is discarded, until no job has used it for a while.
    """

    def __init__(self, state_dir: Path, limits: CodeLimits, lock: threading.Lock) -> None:
        self._state_dir = state_dir
        self._limits = limits
        self._lock = lock
        self.new: dict[Path, int] = {}  #: files that the store did not have before, and their times in ns

    def lacking(self, tree: CodeTree) -> list[CodeFile]:
        """Files of which the content is not in the store, one for each content.

        Raises:
            CodeNotFound: it is no tree of files, or exceeds a limit.
        """
        if fault := tree.fault():
            raise CodeNotFound(f"its code is no tree of files: {fault}; submit it again")
        files = {file.digest: file for file in tree.files.values()}
        num_bytes = sum(file.num_bytes for file in tree.files.values())
        most, most_mib = self._limits.code_num_files + 1, self._limits.code_total_mib  #: with the script
        if max(len(tree.files), len(tree.links)) > most or num_bytes > most_mib * MIB:
            raise CodeTooLarge(
                f"its code is more than {most - 1} files or {most_mib:g} MiB; submit less of it"
            )
        paths = {object_path(self._state_dir, digest): file for digest, file in files.items()}
        return [
            file
            for path, file in paths.items()
            if path not in self.new and not _is_used(path, file.num_bytes)
        ]

    def store_file(self, file: CodeFile, chunks: Iterable[bytes]) -> None:
        """Keep a content. No more of it is read than the file holds.

        Raises:
            CodeNotFound: it is another content, which is not kept.
            OSError: it cannot be kept.
        """
        self._store_file(object_path(self._state_dir, file.digest), file, chunks)

    def finish(self, tree: CodeTree, script: str | None) -> str:
        """Keep the manifest of a tree, of which all contents have come, and return its digest.

        Raises:
            CodeNotFound: it lacks a content or the script.
            OSError: it cannot be kept.
        """
        if self.lacking(tree) or not tree.files.keys() >= {script} - {None}:
            raise CodeNotFound("a part of its code has not come; submit it again")
        content = msgspec.json.encode(tree.known_by(script))
        manifest = CodeFile(hashlib.sha256(content).hexdigest(), len(content))
        path = tree_path(self._state_dir, manifest.digest)
        if not _is_used(path, manifest.num_bytes):
            self._store_file(path, manifest, (content,))
        return manifest.digest

    def discard(self) -> None:
        """Remove what came by this door, but for what others have used since."""
        with self._lock:
            for path, time_ns in self.new.items():
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime_ns == time_ns and path.stat().st_nlink == 1:
                        path.unlink()

    def _store_file(self, path: Path, file: CodeFile, chunks: Iterable[bytes]) -> None:
        draft = self._state_dir / "code" / "drafts" / secrets.token_hex(8)
        draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._write(draft, file, chunks)
            with self._lock:
                if not _is_used(path, file.num_bytes):
                    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    draft.replace(path)
                    now_ns = time.time_ns()  # finer than the clock by which others change it
                    os.utime(path, ns=(now_ns, now_ns))
                    self.new[path] = path.stat().st_mtime_ns
        finally:
            draft.unlink(missing_ok=True)

    def _write(self, draft: Path, file: CodeFile, chunks: Iterable[bytes]) -> None:
        content, num_bytes = hashlib.sha256(), 0
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        with os.fdopen(descriptor, "wb") as copy:
            for chunk in chunks:
                num_bytes += len(chunk)
                if num_bytes > file.num_bytes:
                    break
                content.update(chunk)
                copy.write(chunk)
        if num_bytes != file.num_bytes or content.hexdigest() != file.digest:
            raise CodeNotFound(
                f"a content of its code is not what was announced ({file.digest[:12]}); submit it again"
            )


class KeptCode(NamedTuple):
    """A snapshot in the store."""

    digest: str  #: of its `CodeTree`
    left_out: str  #: as in `CodeSnapshot`
    intake: CodeIntake


#: Reads a submitter's folders, and brings what the store lacks of the contents through its door.
CodeReader = Callable[[SnapshotRequest, CodeIntake], CodeSnapshot]


def read_here(request: SnapshotRequest, intake: CodeIntake) -> CodeSnapshot:
    """Read folders in this process. Raises as `read_snapshot` does."""
    snapshot, contents = read_snapshot(request)
    for file in intake.lacking(snapshot.tree):
        intake.store_file(file, (contents[file.digest],))
    return snapshot


class CodeStore:
    """Thread-safe. A snapshot is used as long as a job's folder has a link to its manifest."""

    def __init__(self, state_dir: Path, limits: CodeLimits | None = None) -> None:
        self._state_dir = state_dir
        self._limits = limits or CodeLimits()
        self._lock = threading.Lock()
        self._num_intakes = 0

    def intake(self) -> CodeIntake:
        """A door for what one submission brings."""
        self._num_intakes += 1
        if self._num_intakes % COLLECT_EVERY == 1:
            threading.Thread(target=self.collect, args=(time.time(),), name="swell-code", daemon=True).start()
        return CodeIntake(self._state_dir, self._limits, self._lock)

    def take_snapshot(self, workdir: str, script: str | None, read: CodeReader = read_here) -> KeptCode:
        """Keep the code of a job as it is now.

        Args:
            workdir: a real path.
            script: a real path; it is kept in any case, and what lies in its folder if that
                is not below the working directory.
            read: what reads these folders, in this process or in another one.

        Raises:
            CodeNotFound: it exceeds a limit, or cannot be told from other files.
            OSError: it cannot be read, or kept; nothing is kept then.
        """
        own = os.path.realpath(self._state_dir), os.path.dirname(os.path.realpath(self._state_dir / "code"))
        request = SnapshotRequest(workdir=workdir, script=script, limits=self._limits, but_not=own)
        intake = self.intake()
        try:
            snapshot = read(request, intake)
            if snapshot.tree.roots != request.roots:
                raise CodeNotFound(f"the code is not that of {workdir}; submit it again")
            digest = intake.finish(snapshot.tree, script)
        except BaseException:
            intake.discard()
            raise
        return KeptCode(digest, snapshot.left_out, intake)

    def bind(self, job_id: str, digest: str) -> None:
        """The snapshot is this job's as long as the job's folder has a link to it.

        Where a file can have no further link it gets a copy, and the snapshot is kept for good.
        """
        tree, link = tree_path(self._state_dir, digest), job_tree_path(self._state_dir / "jobs" / job_id)
        link.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            os.link(tree, link)
        except FileExistsError:
            return
        except OSError:
            tree.with_suffix(KEPT).touch()
            if not _is_used(link, tree.stat().st_size):
                write_whole(link, tree.read_bytes(), mode=0o400)

    def collect(self, now_s: float) -> None:
        """Remove snapshots that no job uses, and contents that no snapshot has."""
        with contextlib.suppress(FileNotFoundError):  # the state folder is removed meanwhile
            self._collect(now_s)

    def _collect(self, now_s: float) -> None:
        """Raises FileNotFoundError: a folder is gone that is looked through."""
        used: set[Path] = set()
        for path in (self._state_dir / "code" / "trees").glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                is_linked = path.stat().st_nlink > 1 or path.with_suffix(KEPT).exists()
                if is_linked or not self._remove_old(path, now_s):
                    files = decode_tree(path.read_bytes()).files.values()
                    used.update(object_path(self._state_dir, file.digest) for file in files)
        for path in (self._state_dir / "code" / "objects").glob("*/*"):
            if path not in used:
                self._remove_old(path, now_s)
        for draft in (self._state_dir / "code" / "drafts").glob("*"):  # of a daemon that was killed
            self._remove_old(draft, now_s)

    def _remove_old(self, path: Path, now_s: float) -> bool:
        """Whether it is gone: it was used so long ago that no submission under way counts on it."""
        with self._lock:
            try:
                if path.stat().st_mtime >= now_s - GRACE_S or path.stat().st_nlink > 1:
                    return False
                path.unlink()
            except FileNotFoundError:  # a draft, which has its name by now
                return True
            return True


def _is_used(path: Path, num_bytes: int) -> bool:
    """Whether this content is there; then it counts as used now."""
    try:
        if path.stat().st_size != num_bytes:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


# ---------------------------------------------------------------- from other machines
class CodeUploads:
    """Thread-safe. `user` is who sends; what one user has sent of a content is no other's."""

    def __init__(self, state_dir: Path, store: CodeStore, most_bytes: float) -> None:
        """`most_bytes`: that a content may have."""
        self._state_dir, self._store, self._most_bytes = state_dir, store, most_bytes

    def open(self, tree: CodeTree, script: str | None, user: str) -> CodeGaps:
        """What the store lacks of a tree. Lacking nothing, it is kept, for this user's submissions.

        Raises:
            CodeNotFound: it is no tree of files, or exceeds a limit.
            OSError: it cannot be kept.
        """
        if not tree.roots:
            raise CodeNotFound("its code is below no folder; name its workdir as the first root")
        intake, own = self._store.intake(), msgspec.structs.replace(tree, uploaded_by=user)
        if lacking := intake.lacking(own):
            return CodeGaps(lacking={file.digest: _size(self._draft(file, user)) for file in lacking})
        return CodeGaps(digest=intake.finish(own, script))

    def add(self, pieces: Iterable[ContentPiece], user: str) -> None:
        """Keep pieces; a content is let into the store when its last piece is there.

        Raises:
            CodeNotFound: a piece is of no content that may be, or the content is not what was announced.
            OSError: it cannot be kept.
        """
        intake = self._store.intake()
        for file, start, content in pieces:
            if start + len(content) > file.num_bytes or file.num_bytes > self._most_bytes:
                raise CodeTooLarge(f"a content of its code has over {self._most_bytes:g} bytes; leave it out")
            draft = self._draft(file, user)
            if len(content) == file.num_bytes:
                intake.store_file(file, (content,))
            elif _write(draft, start, content) == file.num_bytes:
                try:
                    intake.store_file(file, _chunks(draft))
                finally:
                    draft.unlink(missing_ok=True)

    def tree(self, digest: str, user: str) -> CodeTree | None:
        """The tree of this digest, if this user has uploaded it, and it is there still."""
        try:
            tree = decode_tree(tree_path(self._state_dir, digest).read_bytes())
        except (OSError, ValueError):
            return None
        return tree if tree.uploaded_by == user else None

    def _draft(self, file: CodeFile, user: str) -> Path:
        name = hashlib.sha256(f"{user}:{file.digest}".encode()).hexdigest()
        return self._state_dir / "code" / "drafts" / name


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _write(path: Path, start: int, content: bytes) -> int:
    """Write a piece where it belongs. Returns how much is there then."""
    if start > _size(path):
        raise CodeNotFound("a piece of its code has come before the one before it; submit it again")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(start)
        file.write(content)
        return file.truncate()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk
