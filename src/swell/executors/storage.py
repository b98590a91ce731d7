"""The folder that all machines of a platform have in common: code, checkpoints and logs of jobs lie in it.

It is the state folder of the platform, or another one to which links in the state folder lead. A machine that
joins proves that it sees the same folder: it finds there what the head has just written, and can write there.
"""

from __future__ import annotations

import errno
import secrets
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TypeVar

from swell.model.code import decode_tree, tree_path
from swell.model.quantities import span
from swell.wire.whole_files import write_whole

T = TypeVar("T")
CHECKPOINTS = "checkpoints"
#: In the folder of a job that runs as a user: what was given to that user.
WORK = "work"
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


def work_folder(folder: Path) -> Path:
    """Return where the processes of a job write, of the job's folder: below it if they are a user's."""
    work = folder / WORK
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(work.lstat().st_mode):
            return work
    return folder


def is_uploaded(storage: Path, code: str) -> bool:
    """Whether the code with this digest came from another machine. False without code, and if it is gone."""
    manifest = tree_path(storage, code)
    return bool(code) and manifest.exists() and bool(decode_tree(manifest.read_bytes()).uploaded_by)


def write_mark(storage: Path) -> str:
    """Leave a text there that no copy of the folder has yet, beside the folder of jobs, and return it.

    Raises OSError: it cannot be written, or the folder does not answer within `ANSWER_S`.
    """
    mark = secrets.token_hex(16)

    def leave() -> None:
        (storage / "jobs").mkdir(mode=0o700, exist_ok=True)
        write_whole(storage / MARK_FILE, mark.encode())

    _in_time(leave)
    return mark


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


def begun(work: Callable[[], T]) -> Future[T]:
    """Begin something with a folder. That of a file server that is away may never answer.

    The answer is what comes of it, or an OSError.
    """
    answer: Future[T] = Future()

    def do() -> None:
        try:
            answer.set_result(work())
        except OSError as error:
            answer.set_exception(error)

    Thread(target=do, daemon=True).start()
    return answer


def _in_time(work: Callable[[], T]) -> T:
    """Do something with the storage.

    Raises:
        TimeoutError: it did not answer within `ANSWER_S`.
        OSError: it cannot be used.
    """
    answer = begun(work)
    if not wait([answer], ANSWER_S).done:
        raise TimeoutError(errno.ETIMEDOUT, f"it does not answer within {span(ANSWER_S)}")
    return answer.result()
