"""Which files below a folder are a job's code, and what they hold.

The folder is a submitter's, and may change while it is read: nothing in it is run, and no link followed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec
from pathspec import GitIgnoreSpec

from swell.model.code import SOURCES, CodeFile, CodeLimits, CodeTree, is_within
from swell.model.quantities import format_bytes, span
from swell.wire.job_inputs import VALUES_SUFFIX
from swell.wire.untrusted_files import read_regular

MIB = 2**20
IGNORE_FILE = ".swellignore"
MOST_IGNORE_BYTES = 64 << 10
#: A folder with one of these names, or with one of these files, holds no code; hidden folders hold none too.
CACHE = "a cache"
NO_CODE_NAMES = {"__pycache__": CACHE, "node_modules": "packages"}
NO_CODE_MARKS = {"pyvenv.cfg": "a virtual environment", "CACHEDIR.TAG": CACHE}
#: A folder with more entries than this and no source is a data set.
MOST_WITHOUT_SOURCE = 1000
#: A folder is looked through for so long at most: a submission waits for it, and one that takes longer holds
#: data, or lies on a slow file system.
LOOK_S = 10.0
NUM_NAMED = 5
LOOK_AT_CLOCK_EVERY = 256
REMEDY = (
    f"Name what is no code in {IGNORE_FILE} or .gitignore, give the code a workdir of its own, or submit "
    "with `code: live` (`--code live`)"
)
#: Git runs no program that a repository's configuration names, and asks no server. That of the account, or of
#: the machine, is not read.
GIT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
GIT_ENVIRON = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "",
}


class CodeNotFound(ValueError):
    """It cannot be said which files are the job's code, or they are too many; the text names the remedy."""


class CodeTooLarge(CodeNotFound):
    """It exceeds a limit of its size."""


class SnapshotRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Whose code is to be copied. All paths are real ones."""

    workdir: str
    script: str | None  #: it is copied in any case, and what lies in its folder if that is not below workdir
    limits: CodeLimits
    but_not: tuple[str, ...] = ()  #: folders whose content is never code

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that are looked through."""
        if self.script is None or is_within(self.script, self.workdir):
            return (self.workdir,)
        return self.workdir, os.path.dirname(self.script)


class CodeSnapshot(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What was found."""

    tree: CodeTree
    left_out: str  #: a sentence; empty: nothing that its owner could take for code


@dataclass(slots=True)
class CodeFiles:
    """What was found: regular files with their state, and the targets of symbolic links, by absolute path."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    num_bytes: int = 0  #: of these files
    left_out: dict[str, str] = field(default_factory=dict)  #: path -> what it is


def read_snapshot(request: SnapshotRequest) -> tuple[CodeSnapshot, dict[str, bytes]]:
    """Read the code as it is now. Returns what was found, and the contents by digest.

    Raises:
        CodeNotFound: it exceeds a limit, or cannot be told from other files.
        OSError: the script cannot be read, or is no regular file.
    """
    main, roots, limits = request.script, request.roots, request.limits
    found = find_code(roots, limits, request.but_not)
    if main is not None:
        found.files[main] = os.lstat(main)
    files: dict[str, CodeFile] = {}
    contents: dict[str, bytes] = {}
    found.num_bytes = 0  # they may have grown since
    for path, state in sorted(found.files.items()):
        most_bytes = max(state.st_size, int(limits.code_file_mib * MIB))
        try:
            content = read_regular(Path(path), most_bytes, root=Path("/"))
        except OSError:
            if path == main:
                raise
            continue
        found.num_bytes += len(content)
        if found.num_bytes > limits.code_total_mib * MIB:
            raise _too_much(found, limits)
        digest = hashlib.sha256(content).hexdigest()
        files[path] = CodeFile(digest, len(content), bool(state.st_mode & stat.S_IXUSR))
        contents[digest] = content
    tree = CodeTree(roots=roots, files=files, links=dict(sorted(found.links.items()))).known_by(main)
    return CodeSnapshot(tree=tree, left_out=_left_out_text(found.left_out, roots[0])), contents


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
        left_out: dict[str, str] = {}
        for num_seen, (path, is_tracked) in enumerate(_listed(root, but_not, until_s, left_out), 1):
            if num_seen % LOOK_AT_CLOCK_EVERY == 0 and time.monotonic() >= until_s:
                raise _too_long(f"{num_seen} files were found, the last one in {os.path.dirname(path)}")
            is_own = any(is_within(path, other) for other in but_not)
            if is_own or (patterns and patterns.match_file(os.path.relpath(path, root))):
                continue
            _add_file(found, path, is_tracked, limits)
            if len(found.files) > limits.code_num_files or found.num_bytes > limits.code_total_mib * MIB:
                raise _too_much(found, limits)
        for path, what in left_out.items():
            if not patterns.match_file(f"{os.path.relpath(path, root)}/"):
                found.left_out[path] = what
    found.links = _inside(found)
    return found


def _add_file(found: CodeFiles, path: str, is_tracked: bool, limits: CodeLimits) -> None:
    if path in found.files:  # one of the folders is below another one
        return
    if path.endswith(VALUES_SUFFIX) and not is_tracked:
        return
    try:
        path.encode()
        state = os.lstat(path)
    except (OSError, UnicodeEncodeError):
        return
    if stat.S_ISLNK(state.st_mode):
        found.links[path] = os.path.realpath(path)
    elif stat.S_ISREG(state.st_mode) and not (is_tracked or state.st_size <= limits.code_file_mib * MIB):
        found.left_out[path] = format_bytes(state.st_size)
    elif stat.S_ISREG(state.st_mode) and os.access(path, os.R_OK):
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
def _listed(
    root: str, but_not: Collection[str], until_s: float, left_out: dict[str, str]
) -> Iterator[tuple[str, bool]]:
    """Paths of files and links below a folder, and whether git tracks them.

    Args:
        left_out: is given the folders that hold no code, with what they are.
    """
    names = _by_git(root, until_s)
    if not names:  # no work tree, or one that ignores the whole folder
        yield from ((path, False) for path in _walk(root, but_not, left_out))
        return

    @cache
    def is_code(folder: str) -> bool:
        return folder == root or (is_code(os.path.dirname(folder)) and not _is_no_code(folder, left_out))

    for name, is_tracked in names.items():
        path = os.path.join(root, name)
        if os.path.isdir(path) and not os.path.islink(path):  # a work tree of its own
            yield from _listed(path.rstrip("/"), but_not, until_s, left_out)
        elif is_tracked or is_code(os.path.dirname(path)):
            yield path, is_tracked


def _by_git(root: str, until_s: float) -> dict[str, bool]:
    """Relative names below `root`, and whether they are tracked; empty if git cannot tell.

    An index that someone has written may name what lies elsewhere. Raises CodeNotFound: git takes longer than
    there is time.
    """
    is_work_tree = any((folder / ".git").exists() for folder in (Path(root), *Path(root).parents))
    git = shutil.which("git") if is_work_tree else None
    if git is None:
        return {}
    command = [git, *GIT, "-C", root, "ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command,
            check=True,
            capture_output=True,
            timeout=max(0.0, until_s - time.monotonic()),
            env={"PATH": os.environ.get("PATH", os.defpath), **GIT_ENVIRON},
        )
    except subprocess.TimeoutExpired as error:
        raise _too_long(f"git looks at {root}") from error
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = (os.fsdecode(line) for line in listed.stdout.split(b"\0") if line)
    names = {line[2:]: line[0] != "?" for line in lines}
    return {name: names[name] for name in names if name[0] != "/" and ".." not in name.split("/")}


def _walk(root: str, but_not: Collection[str], left_out: dict[str, str]) -> Iterator[str]:
    folders = [root]
    while folders:
        folder = folders.pop()
        if folder != root and _is_no_code(folder, left_out):
            continue
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry.path
            elif entry.path not in but_not:
                folders.append(entry.path)


def _is_no_code(folder: str, left_out: dict[str, str]) -> bool:
    """Whether a folder that git does not track holds none, which is noted unless it is merely hidden."""
    name = os.path.basename(folder)
    try:
        names = set(os.listdir(folder))
    except OSError:
        return True
    what = NO_CODE_NAMES.get(name, "")
    for mark in NO_CODE_MARKS.keys() & names:
        what = NO_CODE_MARKS[mark]
    if len(names) > MOST_WITHOUT_SOURCE and not any(each.endswith(SOURCES) for each in names):
        what = what or f"{len(names):,} files"
    if what:
        left_out[folder] = what
    return bool(what) or name.startswith(".")


# ---------------------------------------------------------------- what the user leaves out
def _read_patterns(file: Path) -> GitIgnoreSpec:
    try:
        content = read_regular(file, MOST_IGNORE_BYTES) if os.path.lexists(file) else b""
        return GitIgnoreSpec.from_lines(content.decode("utf-8", "replace").splitlines())
    except (OSError, ValueError) as error:
        raise CodeNotFound(f"{file} cannot be read ({error}); write it as a .gitignore") from error


def _left_out_text(left_out: dict[str, str], root: str) -> str:
    """What is left out, data first; nothing if it is caches alone."""
    if set(left_out.values()) <= {CACHE}:
        return ""
    paths = sorted(left_out, key=lambda path: (left_out[path] == CACHE, path))
    named = [f"{os.path.relpath(path, root)} ({left_out[path]})" for path in paths[:NUM_NAMED]]
    more = f" and {len(paths) - NUM_NAMED:,} more" if len(paths) > NUM_NAMED else ""
    return f"not in the copy of the code: {', '.join(named)}{more}"


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
