"""Places in the user's script: names of a job's files, where they are imported from, and lines of calls.

A job whose agent made a snapshot of its code runs the copies there, and is told the names of the files.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence, Set
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType, FrameType

from swell.wire import environ
from swell.wire.library_paths import is_library

#: A function's code, and the position in it.
Instruction = tuple[CodeType, int]
_OWN = str(Path(__file__).parents[1])
_FEEDING = (str(Path(_OWN, "data")), str(Path(_OWN, "runtime", "run.py")))


def snapshotted(path: str) -> str:
    """Where the snapshot has it; the path itself if it has it not."""
    folder = snapshot_folder()
    if not folder or not os.path.isabs(path):
        return path
    twin = folder + os.path.realpath(path)
    return twin if os.path.realpath(twin) == twin and os.path.exists(twin) else path


def submitted(text: str) -> str:
    """Return the text with the names that files had when the job was submitted.

    These are not the names in the snapshot, nor those below the folder that a trial run writes in.
    """
    for folder in (snapshot_folder(), os.environ.get(environ.MIRROR, "")):
        text = text.replace(folder, "") if folder else text
    return text


def own_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost call that is the script's own; None: there is none."""
    return next(user_frames(frame), None)


def user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the functions of the script that have called each other, the innermost first."""
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def line_of(frame: FrameType) -> str:
    """Return `FILE:LINE` where a call stands, as it was submitted."""
    return f"{submitted(frame.f_code.co_filename)}:{frame.f_lineno}"


def place_of(frame: FrameType | None) -> str:
    """Return `FILE:LINE` of the script's innermost call; empty if there is none."""
    own = own_frame(frame)
    return "" if own is None else line_of(own)


def place_of_change(frame: FrameType | None, attributes: Sequence[str], calls: Set[str]) -> str:
    """FILE:LINE where the script sets one of these attributes, else calls one of these; else its loop."""
    for names, kind in (*(({name}, "STORE_ATTR") for name in attributes), (calls, "LOAD_")):
        if place := last_place(user_frames(frame), names, kind):
            return place
    return place_of(frame)


def last_place(frames: Iterable[FrameType], names: Set[str], kind: str) -> str:
    """FILE:LINE of the last line with such a name, in the first function that has one; empty: none has."""
    for frame in frames:
        if lines := list(_lines_with(frame.f_code, names, kind)):
            return f"{submitted(frame.f_code.co_filename)}:{max(lines)}"
    return ""


def _lines_with(code: CodeType, names: Set[str], kind: str) -> Iterator[int]:
    """Lines of a function, and of those within, that store or load something of these names.

    Those in which modules are made are left out.
    """
    for step in dis.get_instructions(code):
        line = step.positions.lineno if step.positions is not None else None
        stored = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith(kind) and line is not None and not names.isdisjoint(map(str, stored)):
            yield line
    for part in code.co_consts:
        if isinstance(part, CodeType) and part.co_name != "__init__":
            yield from _lines_with(part, names, kind)


def snapshot_folder() -> str:
    """Empty if the code is that of now."""
    folder = os.environ.get(environ.CODE, "")
    return os.path.realpath(folder) if folder else ""


def why_missing(error: BaseException) -> str:
    """Return what to do about a file or a module that a script did not find; empty for other errors."""
    if isinstance(error, ModuleNotFoundError) and environ.AGENT in os.environ:
        return (
            "jobs have the environment of `swell up`, unless they name another with --python: this one's "
            f"interpreter is {sys.executable}, for which it must be installed\n"
        )
    host = environ.AWAY in os.environ and os.environ[environ.AWAY]
    if not host or not isinstance(error, FileNotFoundError) or not isinstance(error.filename, str):
        return ""
    path = submitted(os.path.abspath(error.filename))
    return (
        f"{path} is not on host {host!r}: there a job has the files of its code snapshot, and what is on the "
        "host itself. Read it from a path that all hosts have; or name its path in `needs`, so that only "
        "hosts that have it run the job; or make it part of the snapshot (tracked by git, or at most 1 MiB)\n"
    )


def is_feeding(frame: FrameType | None) -> bool:
    """Whether the call is part of loading a batch, and none that the loop's body makes."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OWN):
            return frame.f_code.co_filename.startswith(_FEEDING)
        frame = frame.f_back
    return False


def place_of_error(error: BaseException) -> str:
    """Return the place in the script's innermost call in which an error was raised."""
    places = [
        f"{submitted(frame.f_code.co_filename)}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename)
    ]
    return places[-1] if places else ""


def is_own(frame: FrameType) -> bool:
    """Whether a call was made by Swell's library."""
    return frame.f_code.co_filename.startswith(_OWN)


def is_of_swell(error: BaseException) -> bool:
    """Whether Swell raised an error on purpose: its text says all, and frames of Swell add nothing."""
    if type(error).__module__.startswith("swell."):
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not is_own(frames[-1][0]):
        return False
    frame, line = frames[-1]
    return linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("raise ")


def where_calls_stand(frame: FrameType) -> list[Instruction]:
    """Return where a function stands, and all that have called it, the innermost first."""
    return [(each.f_code, each.f_lasti) for each, _ in traceback.walk_stack(frame)]


def is_raised_at(calls: Sequence[Instruction], error: BaseException) -> bool:
    """Tell whether an error was raised below these calls, and not after they had gone on.

    The innermost of these functions through which the error has come still stands where it stood.
    """
    positions: dict[CodeType, int] = {}
    entry = error.__traceback__
    while entry is not None:
        positions[entry.tb_frame.f_code] = entry.tb_lasti
        entry = entry.tb_next
    stood = next((call for call in calls if call[0] in positions), None)
    return stood is not None and positions[stood[0]] == stood[1]


PYTHONPATH = "PYTHONPATH"
#: As the interpreter's own path hook has them.
LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def use_snapshot() -> None:
    """Called once, before the script runs: `sys.path` and `PYTHONPATH` lead to the snapshot.

    So do the folders that packages in development mode are imported from.
    """
    asked = [path for path in os.environ.get(PYTHONPATH, "").split(os.pathsep) if path]
    sys.path[:0] = [path for path in asked if path not in sys.path]  # this one was read before it was set
    sys.path[:] = [snapshotted(path) for path in sys.path]
    if asked:
        os.environ[PYTHONPATH] = os.pathsep.join(map(snapshotted, asked))
    if snapshot_folder():
        sys.path_hooks.insert(0, _finder)  # of what the script adds to `sys.path`
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):  # setuptools keeps a module with one for each such package
            paths = {name: path for name, path in mapping.items() if isinstance(path, str)}
            mapping.update({name: snapshotted(path) for name, path in paths.items()})


def _finder(path: str) -> FileFinder:
    """A path hook: the modules of a folder of the snapshot. Raises ImportError for any other folder."""
    original = os.path.abspath(_of_job(path))
    twin = snapshotted(original)
    if twin == original:
        raise ImportError(f"{path} is not in the snapshot of the job's code")
    if path in sys.path:  # processes that the script starts by `spawn` get this list, and no path hook
        sys.path.insert(sys.path.index(path), twin)
    return FileFinder(twin, *LOADERS)


def _of_job(path: str) -> str:
    """A trial run works in a mirror of the working directory: what is relative means the job's own."""
    is_trial = os.environ.get(environ.TRIAL) == "1"
    return os.path.join(os.environ.get(environ.WORKDIR, ""), path) if is_trial else path
