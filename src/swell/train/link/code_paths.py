"""Names of a job's files, and of their copies in the snapshot of its code, if its agent made one."""

from __future__ import annotations

import os
import sys
from types import FrameType

from swell.wire import environ
from swell.wire.library_paths import is_library


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
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def line_of(frame: FrameType) -> str:
    """Return `FILE:LINE` where a call stands, as it was submitted."""
    return f"{submitted(frame.f_code.co_filename)}:{frame.f_lineno}"


def place_of(frame: FrameType | None) -> str:
    """Return `FILE:LINE` of the script's innermost call; empty if there is none."""
    own = own_frame(frame)
    return "" if own is None else line_of(own)


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
