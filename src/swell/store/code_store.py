"""Snapshots of jobs' code in a state folder: contents by digest, and manifests."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.code import decode_tree, job_tree_path, object_path, tree_path
from swell.store.code_snapshot import CodeLimits, CodeSnapshot, SnapshotRequest, is_used, read_snapshot
from swell.wire.whole_files import write_whole

#: What was used so recently is kept: its job may be about to be written into the journal.
GRACE_S = 3600.0
#: With the first snapshot, and after so many, those that no job uses are looked for.
COLLECT_EVERY = 500
#: Stands beside the manifest of a snapshot that has users without a link to it.
KEPT = ".kept"


class KeptCode(NamedTuple):
    """A snapshot in the store."""

    digest: str  #: of its `CodeTree`
    left_out: str  #: as in `CodeSnapshot`
    new: dict[Path, int]  #: files that the store did not have before, and their times in ns


class CodeStore:
    """Thread-safe. A snapshot is used as long as a job's folder has a link to its manifest.

    Args:
        read: what reads the folders of submitters, in this process or in another one.
    """

    def __init__(
        self,
        state_dir: Path,
        limits: CodeLimits | None = None,
        read: Callable[[SnapshotRequest], CodeSnapshot] = read_snapshot,
    ) -> None:
        self._state_dir = state_dir
        self._limits = limits or CodeLimits()
        self._read = read
        self._lock = threading.Lock()
        self._num_taken = 0

    def take(self, workdir: str, script: str | None) -> KeptCode:
        """Keep the code of a job as it is now.

        Args:
            workdir: a real path.
            script: a real path; it is kept in any case, and what lies in its folder if that
                is not below the working directory.

        Raises:
            CodeNotFound: it exceeds a limit, or cannot be told from other files.
            OSError: it cannot be read, or kept; nothing new is kept then.
        """
        with self._draft() as draft:
            request = SnapshotRequest(
                workdir=workdir,
                script=script,
                limits=self._limits,
                state_dir=str(self._state_dir),
                draft=str(draft),
            )
            kept = self._keep(self._read(request), draft)
        self._num_taken += 1
        if self._num_taken % COLLECT_EVERY == 1:
            threading.Thread(target=self.collect, args=(time.time(),), name="swell-code", daemon=True).start()
        return kept

    def discard(self, kept: KeptCode) -> None:
        """Remove what a refused submission has brought, but for what others have used since."""
        with self._lock:
            _remove(kept.new)

    @contextlib.contextmanager
    def _draft(self) -> Iterator[Path]:
        """A folder for contents until all are there."""
        draft = self._state_dir / "code" / "drafts" / secrets.token_hex(8)
        draft.mkdir(mode=0o700, parents=True)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _keep(self, snapshot: CodeSnapshot, draft: Path) -> KeptCode:
        content = msgspec.json.encode(snapshot.tree)
        digest = hashlib.sha256(content).hexdigest()
        write_whole(draft / "tree", content, mode=0o400)
        sizes = {
            object_path(self._state_dir, file.digest): (draft / file.digest, file.num_bytes)
            for file in snapshot.tree.files.values()
        }
        sizes[tree_path(self._state_dir, digest)] = (draft / "tree", len(content))
        new: dict[Path, int] = {}
        with self._lock:
            try:
                for path, (drafted, num_bytes) in sizes.items():
                    if not is_used(path, num_bytes):
                        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                        drafted.replace(path)
                        now_ns = time.time_ns()  # finer than the clock by which others change it
                        os.utime(path, ns=(now_ns, now_ns))
                        new[path] = path.stat().st_mtime_ns
            except OSError:
                _remove(new)
                raise
        return KeptCode(digest, snapshot.left_out, new)

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
            if not is_used(link, tree.stat().st_size):
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
            if draft.stat().st_mtime < now_s - GRACE_S:
                shutil.rmtree(draft)

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


def _remove(new: dict[Path, int]) -> None:
    """Files that have still the time that they were given."""
    for path, time_ns in new.items():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime_ns == time_ns and path.stat().st_nlink == 1:
                path.unlink()
