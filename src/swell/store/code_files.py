"""Which files of a folder are code: what git tracks, and small files that it does not ignore."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from swell.model.lengths import span

MIB = 2**20
IGNORE_FILE = ".swellignore"
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
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
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
