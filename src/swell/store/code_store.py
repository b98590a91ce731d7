"""Snapshots of jobs' code in a state folder: which files are code, contents by digest, and manifests."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pathspec import GitIgnoreSpec

from swell.model.code import CodeFile, CodeTree, decode_tree, job_tree_path, object_path, tree_path
from swell.model.quantities import span
from swell.wire.untrusted_files import read_regular
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


MIB = 2**20
IGNORE_FILE = ".swellignore"
MOST_IGNORE_BYTES = 64 << 10
#: Folders that hold no code of the user's; hidden folders are left out too.
SKIPPED = frozenset({"__pycache__", "node_modules"})
#: In this file's folder lies a virtual environment.
ENVIRONMENT_MARK = "pyvenv.cfg"
#: A folder is looked through for so long at most: a submission waits for it, and one that takes longer holds
#: data, or lies on a slow file system.
LOOK_S = 10.0
NUM_NAMED = 5
LOOK_AT_CLOCK_EVERY = 256
REMEDY = (
    f"Name what is no code in {IGNORE_FILE} or .gitignore, give the code a workdir of its own, or submit "
    "with `code: live` (`--code live`)"
)


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
        found.num_bytes = 0  # they may have grown since
        for path, state in sorted(found.files.items()):
            try:
                files[path] = self._keep_file(path, state)
            except OSError:
                if path == main:
                    raise
            else:
                found.num_bytes += files[path].num_bytes
            if found.num_bytes > self._limits.code_total_mib * MIB:
                raise _too_much(found, self._limits)
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
        content = read_regular(Path(path), max(state.st_size, int(self._limits.code_file_mib * MIB)))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """How much a snapshot may hold."""

    code_file_mib: float = 1.0  #: a larger file that git does not track is left out
    code_total_mib: float = 100.0
    code_num_files: int = 10_000


class CodeNotFound(ValueError):
    """It cannot be said which files are the job's code, or they are too many; the text names the remedy."""


@dataclass(slots=True)
class CodeFiles:
    """What was found: regular files with their state, and the targets of symbolic links, by absolute path."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    num_bytes: int = 0  #: of these files


def find_code(roots: Iterable[str], limits: CodeLimits, but_not: Collection[str]) -> CodeFiles:
    """The code below some folders, which are real paths.

    A file that cannot be read, or has a name that is no UTF-8, is left out.

    Args:
        but_not: folders whose content is never code.

    Raises:
        CodeNotFound: it exceeds a limit, or it takes too long to find that out, or a file `.swellignore`
            cannot be read.
    """
    found, until_s = CodeFiles(), time.monotonic() + LOOK_S
    for root in roots:
        patterns = _read_patterns(Path(root, IGNORE_FILE))
        for num_seen, (path, is_tracked) in enumerate(_listed(root, but_not, until_s), 1):
            if num_seen % LOOK_AT_CLOCK_EVERY == 0 and time.monotonic() >= until_s:
                raise _too_long(f"{num_seen} files were found, the last one in {os.path.dirname(path)}")
            is_own = any(_is_below(path, other) for other in but_not)
            if is_own or (patterns and patterns.match_file(os.path.relpath(path, root))):
                continue
            _take(found, path, is_tracked, limits)
            if len(found.files) > limits.code_num_files or found.num_bytes > limits.code_total_mib * MIB:
                raise _too_much(found, limits)
    found.links = _inside(found)
    return found


def _take(found: CodeFiles, path: str, is_tracked: bool, limits: CodeLimits) -> None:
    if path in found.files:  # one of the folders is below another one
        return
    try:
        path.encode()
        state = os.lstat(path)
    except (OSError, UnicodeEncodeError):
        return
    if stat.S_ISLNK(state.st_mode):
        found.links[path] = os.path.realpath(path)
        return
    is_small = is_tracked or state.st_size <= limits.code_file_mib * MIB
    if stat.S_ISREG(state.st_mode) and is_small and os.access(path, os.R_OK):
        found.files[path] = state
        found.num_bytes += state.st_size


def _inside(found: CodeFiles) -> dict[str, str]:
    """Targets relative to their links, of links to code or to a folder that holds some."""
    code = set(found.files)
    for file in found.files:
        folder = os.path.dirname(file)
        while folder not in code:
            code.add(folder)
            folder = os.path.dirname(folder)
    return {
        path: os.path.relpath(target, os.path.dirname(path))
        for path, target in found.links.items()
        if target in code
    }


# ---------------------------------------------------------------- listing
def _listed(root: str, but_not: Collection[str], until_s: float) -> Iterator[tuple[str, bool]]:
    """Paths of files and links below a folder, and whether git tracks them."""
    names = _by_git(root, until_s)
    if not names:  # no work tree, or one that ignores the whole folder
        yield from ((path, False) for path in _walk(root, but_not))
        return
    for name, is_tracked in names.items():
        path = os.path.join(root, name)
        if os.path.isdir(path) and not os.path.islink(path):  # a work tree of its own
            yield from _listed(path.rstrip("/"), but_not, until_s)
        else:
            yield path, is_tracked


def _by_git(root: str, until_s: float) -> dict[str, bool]:
    """Relative names below `root`, and whether they are tracked; empty if git cannot tell.

    Raises CodeNotFound: git takes longer than there is time.
    """
    is_work_tree = any((folder / ".git").exists() for folder in (Path(root), *Path(root).parents))
    git = shutil.which("git") if is_work_tree else None
    if git is None:
        return {}
    command = [git, "-C", root, "ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command,
            check=True,
            capture_output=True,
            timeout=max(0.0, until_s - time.monotonic()),
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except subprocess.TimeoutExpired as error:
        raise _too_long(f"git looks at {root}") from error
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = (os.fsdecode(line) for line in listed.stdout.split(b"\0") if line)
    return {line[2:]: line[0] != "?" for line in lines}


def _walk(root: str, but_not: Collection[str]) -> Iterator[str]:
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if folder != root and any(entry.name == ENVIRONMENT_MARK for entry in entries):
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry.path
            elif not (entry.name in SKIPPED or entry.name.startswith(".") or entry.path in but_not):
                folders.append(entry.path)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)


# ---------------------------------------------------------------- what the user leaves out
def _read_patterns(file: Path) -> GitIgnoreSpec:
    try:
        content = read_regular(file, MOST_IGNORE_BYTES) if os.path.lexists(file) else b""
        return GitIgnoreSpec.from_lines(content.decode("utf-8", "replace").splitlines())
    except (OSError, ValueError) as error:
        raise CodeNotFound(f"{file} cannot be read ({error}); write it as a .gitignore") from error


def _too_long(what: str) -> CodeNotFound:
    return CodeNotFound(f"to look for its code takes longer than {span(LOOK_S)}: {what}. {REMEDY}")


def _too_much(found: CodeFiles, limits: CodeLimits) -> CodeNotFound:
    """Tells where most of it lies of what was found before it was too much."""
    largest = sorted(found.files.items(), key=lambda item: -item[1].st_size)[:NUM_NAMED]
    sizes = ", ".join(f"{path} ({state.st_size / MIB:.1f} MiB)" for path, state in largest)
    ((folder, num),) = Counter(map(os.path.dirname, found.files)).most_common(1)
    return CodeNotFound(
        f"the snapshot of its code would hold more than {limits.code_num_files} files or "
        f"{limits.code_total_mib:g} MiB; of the {len(found.files)} files that were looked at the largest are "
        f"{sizes}, and most are in {folder} ({num}). {REMEDY}, or raise code_total_mib or code_num_files "
        "with `swell up --set`"
    )
