"""The folder that all machines of a platform have in common: code, checkpoints and logs of jobs lie in it.

It is the state folder of the platform, or another one to which links in the state folder lead. A machine that
joins proves that it sees the same folder: it finds there what the head has just written, and can write there.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from threading import Thread

from swell.model.lengths import span
from swell.wire.whole_files import write_whole

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
    """Leave a text there that no copy of the folder has yet, and return it. Raises OSError."""
    mark = secrets.token_hex(16)
    write_whole(storage / MARK_FILE, mark.encode())
    return mark


def why_not_shared(storage: Path, mark: str) -> str:
    """Why this machine cannot use the head's storage at this path; empty: it can.

    `mark`: what the head has written there. Waits for `ANSWER_S` at most: a folder of a file server that is
    away answers never.
    """
    found: list[str] = []
    looking = Thread(target=lambda: found.append(_why_not(storage, mark)), daemon=True)
    looking.start()
    looking.join(ANSWER_S)
    if not found:
        return f"the storage {storage} does not answer within {span(ANSWER_S)} on this machine"
    return found[0]


def _why_not(storage: Path, mark: str) -> str:
    try:
        found = (storage / MARK_FILE).read_text("ascii", "replace")
        if found == mark:
            with tempfile.TemporaryFile(dir=storage / "jobs"):
                return ""
    except FileNotFoundError:
        found = ""
    except OSError as error:
        return f"the storage {storage} cannot be used on this machine ({os.strerror(error.errno or 0)})"
    what = "another folder" if found else "no such folder"
    return f"the storage of the platform is {storage}, and on this machine that is {what}"
