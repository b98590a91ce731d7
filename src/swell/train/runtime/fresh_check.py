"""The resume check of a script that computes on a GPU, in a fresh process that sees none.

A process that has begun to use a GPU cannot be forked. So a trial run forks one before its script begins.
Where the check needs it, that process runs the same script from its beginning on the processor: what a script
counts, keeps and puts back is the same there.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import tempfile
import time
from typing import NamedTuple, NoReturn

import msgspec
import torch

from swell.train.link.agent_link import Link
from swell.train.runtime.rehearsal_folder import RehearsalFolders
from swell.wire import messages
from swell.wire.findings import ScriptFinding
from swell.wire.private_files import make_room, remove_room

#: Until it has come to its loop and has tried it.
LIMIT_S = 60.0
#: Variables that name the GPUs which a process sees.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class NotTried(Exception):
    """Whether the script can go on from a checkpoint was not tried, or not to its end: the text says why."""


class FreshProcess(NamedTuple):
    """A process that was forked before the script began, and waits until it is asked to run it."""

    pid: int
    ask: int  #: handle to write to: samples of a step, and a folder for what it writes; closed: it ends
    told: int  #: handle to read from: findings, or why there are none


_kept: list[FreshProcess] = []
#: In such a process: the handle to tell its findings by.
_tells: list[int] = []


def can_fork() -> bool:
    """Tell whether the resume check may fork this process: it computes on no GPU."""
    return bool(_tells) or not torch.cuda.is_initialized()


def keep_fresh(link: Link) -> None:
    """Fork a process that can run this script from its beginning: it returns, too, if it is asked to."""
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        for handle in (asked, tell):
            os.close(handle)
        _kept.append(FreshProcess(pid, ask, told))
        return
    for handle in (ask, told):
        os.close(handle)
    size, _, room = os.read(asked, 4096).decode().partition(" ")
    if not size:  # the trial run has ended without it
        os._exit(0)
    _tells.append(tell)
    os.environ |= dict.fromkeys(_VISIBLE, "") | {"TMPDIR": room}
    tempfile.tempdir = None
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    silence = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(silence, each)
    folders = RehearsalFolders()
    folders.enter(folders.make())
    link.send = _hear  # type: ignore[method-assign]
    link.welcome = msgspec.structs.replace(
        link.welcome, device="cpu", local_batches=(int(size),), pace_per_s=None, compares=False
    )


def _hear(message: messages.Message) -> None:
    """Take what would be told to the agent."""
    if isinstance(message, messages.Failed | messages.OutOfMemory):
        _tell(f"without a GPU it ends with {message.message.strip().splitlines()[-1]}")


def tell_if_fresh(findings: list[ScriptFinding]) -> None:
    """End this process, if it is a fresh one, once the check has come to its findings."""
    if _tells:
        _tell(findings)


def _tell(said: list[ScriptFinding] | str) -> NoReturn:
    with os.fdopen(_tells[0], "wb") as file:
        file.write(pickle.dumps(said))
    os._exit(0)


def findings_of_fresh_process(size: int) -> list[ScriptFinding]:
    """Return what the resume check finds in another process of this one's script.

    Args:
        size: samples of a step.

    Raises:
        NotTried: it failed, or took too long.
    """
    process, room = _kept.pop(), make_room()
    try:
        os.write(process.ask, f"{size} {room}".encode())
        told = _read(process)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        for handle in (process.ask, process.told):
            os.close(handle)
        remove_room(room)
    if not told:
        raise NotTried("without a GPU it ends before its first steps")
    said: list[ScriptFinding] | str = pickle.loads(told)  # noqa: S301 - of a child of this process
    if isinstance(said, str):
        raise NotTried(said)
    return said


def _read(process: FreshProcess) -> bytes:
    """Read what it tells until it ends."""
    end_s, told = time.monotonic() + LIMIT_S, b""
    while select.select([process.told], [], [], max(0.0, end_s - time.monotonic()))[0]:
        chunk = os.read(process.told, 65536)
        if not chunk:
            return told
        told += chunk
    raise NotTried(f"without a GPU it takes more than {LIMIT_S:g} s")
