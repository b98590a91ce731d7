"""Snapshots of jobs' code in a state folder: contents by digest, and a manifest for each snapshot."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swell.model.code import CodeFile, CodeTree, decode_tree, job_tree_path, object_path, tree_path
from swell.store.code_files import CodeFiles, CodeLimits, find_code
from swell.wire.whole_files import write_whole

#: What was used so recently is kept: its job may be about to be written into the journal.
GRACE_S = 3600.0
#: A file that was changed later than so long before it was read may be changed again unseen: clocks of file
#: systems tick slowly.
SETTLED_NS = 2 * 10**9
#: With the first snapshot, and after so many, those that no job uses are looked for.
COLLECT_EVERY = 500
NUM_REMEMBERED = 100_000
#: Folders that are looked through at the same time: each look holds the state of all files that it finds.
LOOKS_AT_ONCE = 2
#: Stands beside the manifest of a snapshot that has users without a link to it.
KEPT = ".kept"
#: Files of these kinds decide how fast a job is, besides its script.
SOURCES = (".py", ".yaml", ".yml", ".toml", ".cfg", ".ini")

Fingerprint = tuple[int, int, int, int, int]


class CodeStore:
    """Thread-safe. A snapshot is used as long as a job's folder has a link to its manifest."""

    def __init__(self, state_dir: Path, limits: CodeLimits | None = None) -> None:
        self._state_dir = state_dir
        self._limits = limits or CodeLimits()
        self._lock = threading.Lock()
        self._looking = threading.Semaphore(LOOKS_AT_ONCE)
        self._known: dict[str, tuple[Fingerprint, CodeFile]] = {}
        self._num_taken = 0

    def take(self, workdir: str, script: str | None) -> str:
        """Keep the code of a job as it is now; returns the digest of its `CodeTree`.

        Args:
            script: absolute path of the script; it is kept in any case, and what lies in its folder if that
                is not below the working directory.

        Raises:
            CodeNotFound: it exceeds a limit, or cannot be told from other files.
            OSError: it cannot be read, or kept.
        """
        real = os.path.realpath(workdir)
        main = None if script is None else os.path.realpath(script)
        roots = [real]
        if main is not None and not f"{os.path.dirname(main)}{os.sep}".startswith(f"{real}{os.sep}"):
            roots.append(os.path.dirname(main))
        with self._looking:
            own = self._state_dir, (self._state_dir / "code").resolve().parent
            found = find_code(roots, self._limits, tuple(map(os.path.realpath, own)))
        if main is not None:
            found.files[main] = os.stat(main)
        tree = self._keep(tuple(roots), found, main)
        content = msgspec.json.encode(tree)
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            _write(tree_path(self._state_dir, digest), content)
            self._num_taken += 1
            is_due = self._num_taken % COLLECT_EVERY == 1
        if is_due:
            threading.Thread(target=self.collect, args=(time.time(),), name="swell-code", daemon=True).start()
        return digest

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
            _write(link, tree.read_bytes())

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

    # ------------------------------------------------------------ contents
    def _keep(self, roots: tuple[str, ...], found: CodeFiles, main: str | None) -> CodeTree:
        files: dict[str, CodeFile] = {}
        for path, state in sorted(found.files.items()):
            try:
                files[path] = self._keep_file(path, state)
            except OSError:
                if path == main:
                    raise
        return CodeTree(
            roots=roots,
            files=files,
            links=dict(sorted(found.links.items())),
            sources_digest=_digest_sources(roots, files, main),
        )

    def _keep_file(self, path: str, state: os.stat_result) -> CodeFile:
        fingerprint, known = self._known.get(path, (None, None))
        if known is not None and fingerprint == _fingerprint(state):
            with self._lock:
                if _touch(object_path(self._state_dir, known.digest), known.num_bytes):
                    return known
        read_ns = time.time_ns()
        content, state = _read(path)
        file = CodeFile(hashlib.sha256(content).hexdigest(), len(content), bool(state.st_mode & stat.S_IXUSR))
        with self._lock:
            _write(object_path(self._state_dir, file.digest), content)
            if state.st_mtime_ns < read_ns - SETTLED_NS:
                if len(self._known) >= NUM_REMEMBERED:
                    self._known.clear()
                self._known[path] = (_fingerprint(state), file)
        return file


def _digest_sources(roots: Iterable[str], files: dict[str, CodeFile], main: str | None) -> str:
    lines = [] if main is None else [files[main].digest]
    for number, root in enumerate(roots):
        lines += [
            f"{number} {os.path.relpath(path, root)} {file.digest}"
            for path, file in files.items()
            if path.endswith(SOURCES) and path.startswith(root + os.sep)
        ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _fingerprint(state: os.stat_result) -> Fingerprint:
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _read(path: str) -> tuple[bytes, os.stat_result]:
    """Content and state of a regular file; a pipe that took its place keeps no thread."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(f"{path} is no file any more")
        return file.read(), state


def _touch(path: Path, num_bytes: int) -> bool:
    """Whether this content is there; then it counts as used now."""
    try:
        if path.stat().st_size != num_bytes:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    """Unless it is there: whole or not at all, for its owner only."""
    if _touch(path, len(content)):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, content, mode=0o400)
