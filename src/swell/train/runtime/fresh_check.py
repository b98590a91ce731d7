"""The resume check of a script that computes on a GPU, in a fresh process that sees none.

A process that has begun to use a GPU cannot be forked. So the trial run starts another one of the same
script, which computes on the processor: what a script counts, keeps and puts back is the same there.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing

import msgspec
import torch

from swell.train.runtime.rehearsal_folder import RehearsalFolders
from swell.wire import environ, messages
from swell.wire.findings import ScriptFinding
from swell.wire.lines import LineBuffer
from swell.wire.private_files import make_room, remove_room

#: Until it has come to its loop and has tried it, while no other process has the processors that it needs.
LIMIT_S = 40.0
_PROGRAM = """import sys
from swell.train.runtime import fresh_check, runner
fresh_check.begin()
runner.run_entry(sys.argv[1], sys.argv[2:])"""
_HIDDEN = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "")

_from_worker = msgspec.json.Decoder(messages.FromWorker)

#: The folder where this process's script began, its entry, and its arguments.
_script: list[str] = []
#: Whether this is such a process.
_is_fresh: list[bool] = []


class NotTried(Exception):
    """Whether the script can go on from a checkpoint was not tried, or not to its end: the text says why."""


def kept_waiting_s(pid: int) -> float:
    """How long a process could have run while others had the processor; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def note_script(entry: str, args: Sequence[str]) -> None:
    """Remember how this script was started, before it runs and may change all of that."""
    _script[:] = [os.getcwd(), entry, *args]


def can_fork() -> bool:
    """Tell whether the resume check may fork this process: it computes on no GPU."""
    return bool(_is_fresh) or not torch.cuda.is_initialized()


def begin() -> None:
    """Keep from others what this fresh process writes; called before its script runs."""
    _is_fresh.append(True)
    folders = RehearsalFolders()
    folders.enter(folders.make())


def findings_of_fresh_process(welcome: messages.Welcome, size: int) -> list[ScriptFinding]:
    """Return what the resume check finds in another process of this one's script.

    Args:
        size: samples of a step.

    Raises:
        NotTried: it failed, or took too long.
    """
    token, room = secrets.token_hex(16), make_room()
    where, *call = _script
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryFile() as output:
        told = {
            environ.AGENT: f"127.0.0.1:{listener.getsockname()[1]}",
            environ.TOKEN: token,
            environ.WORKER: "0",
            "TMPDIR": room,
        }
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *call],
            cwd=where,
            env=os.environ | _HIDDEN | told,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            return _heard(listener, process, token, _welcome(welcome, size))
        finally:
            process.kill()
            process.wait()
            remove_room(room)


def _welcome(welcome: messages.Welcome, size: int) -> messages.Welcome:
    """Return the same for a trial run of one size on the processor."""
    return msgspec.structs.replace(
        welcome, device="cpu", local_batches=(size,), pace_per_s=None, compares=False
    )


class _Deadline:
    """Counts the time that a process has, without that in which others had its processor."""

    def __init__(self, pid: int) -> None:
        self._pid, self._begun_s = pid, time.monotonic()

    @property
    def left_s(self) -> float:
        return LIMIT_S - (time.monotonic() - self._begun_s - kept_waiting_s(self._pid))


def _heard(
    listener: socket.socket, process: subprocess.Popen[bytes], token: str, welcome: messages.Welcome
) -> list[ScriptFinding]:
    deadline = _Deadline(process.pid)
    with closing(_accepted(listener, process, deadline)) as line:
        buffer = LineBuffer()
        while chunk := _received(line, deadline):
            buffer.feed(chunk)
            for text in buffer.lines():
                match _from_worker.decode(text):
                    case messages.Hello(token=told) if told == token:
                        line.sendall(msgspec.json.encode(welcome) + b"\n")
                    case messages.Profiled(findings=findings):
                        return list(findings)
                    case messages.Failed(message=message) | messages.OutOfMemory(message=message):
                        raise NotTried(f"without a GPU it ends with {message.strip().splitlines()[-1]}")
    raise NotTried("without a GPU it ends before its first steps")


def _accepted(
    listener: socket.socket, process: subprocess.Popen[bytes], deadline: _Deadline
) -> socket.socket:
    listener.settimeout(0.1)
    while process.poll() is None and deadline.left_s > 0.0:
        try:
            return listener.accept()[0]
        except TimeoutError:
            continue
    raise NotTried("a process without a GPU did not begin")


def _received(line: socket.socket, deadline: _Deadline) -> bytes:
    while (left_s := deadline.left_s) > 0.0:
        line.settimeout(left_s)
        try:
            return line.recv(65536)
        except TimeoutError:
            continue  # it may have been kept waiting
        except OSError:
            return b""
    raise NotTried(f"without a GPU it takes more than {LIMIT_S:g} s")
