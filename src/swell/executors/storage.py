"""The folder that all machines of a platform have in common: code, checkpoints and logs of jobs lie in it.

It is the state folder of the platform, or another one to which links in the state folder lead. A machine that
joins proves that it sees the same folder: it finds there what the head has just written, and can write there.
"""

from __future__ import annotations

import errno
import secrets
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import TypeVar

from swell.model.quantities import span
from swell.wire.whole_files import write_whole

T = TypeVar("T")
CHECKPOINTS = "checkpoints"
MARK_FILE = "joining-mark"
#: Within this time a folder answers that is to keep checkpoints.
ANSWER_S = 20.0


def storage_of(state_dir: Path) -> Path:
    """Return the storage of the platform that has this state folder."""
    return (state_dir / "jobs").resolve().parent


def job_folder(storage: Path, job_id: str) -> Path:
    """Raises ValueError if the id would lead out of the folder of jobs."""
    if job_id in ("", ".", "..") or "/" in job_id or "\0" in job_id:
        raise ValueError(f"job id {job_id!r} cannot name a folder: it must have no slash and not be '..'")
    return storage / "jobs" / job_id


def write_mark(storage: Path) -> str:
    """Leave a text there that no copy of the folder has yet, beside the folder of jobs, and return it.

    Raises OSError: it cannot be written, or the folder does not answer within `ANSWER_S`.
    """
    mark = secrets.token_hex(16)
    _in_time(lambda: _leave_mark(storage, mark))
    return mark


def _leave_mark(storage: Path, mark: str) -> None:
    (storage / "jobs").mkdir(mode=0o700, exist_ok=True)
    write_whole(storage / MARK_FILE, mark.encode())


def why_not_shared(storage: Path, mark: str) -> str:
    """Why this machine cannot use the head's storage at this path; empty: it can.

    `mark`: what the head has written there.
    """
    try:
        found = _in_time(lambda: _mark_of(storage, mark))
    except FileNotFoundError:
        found = ""
    except OSError as error:
        return f"the storage {storage} cannot be used on this machine ({error.strerror})"
    if found == mark:
        return ""
    what = "another folder" if found else "no such folder"
    return f"the storage of the platform is {storage}, and on this machine that is {what}"


def _mark_of(storage: Path, wanted: str) -> str:
    """Return the mark that lies there; if it is the wanted one, this machine can write there too."""
    found = (storage / MARK_FILE).read_text("ascii", "replace")
    if found == wanted:
        with tempfile.TemporaryFile(dir=storage / "jobs"):
            pass
    return found


def _in_time(work: Callable[[], T]) -> T:
    """Do something with the storage. A folder of a file server that is away may never answer.

    Raises:
        TimeoutError: it did not answer within `ANSWER_S`.
        OSError: it cannot be used.
    """
    answer: Future[T] = Future()

    def look() -> None:
        try:
            answer.set_result(work())
        except OSError as error:
            answer.set_exception(error)

    Thread(target=look, daemon=True).start()
    if not wait([answer], ANSWER_S).done:
        raise TimeoutError(errno.ETIMEDOUT, f"it does not answer within {span(ANSWER_S)}")
    return answer.result()
