"""Tries a script as a trial run does, in a process of its own, without an agent or a platform."""

from __future__ import annotations

import math
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.local.zygote.mirror import mirrored
from swell.model.job import MOST_BETWEEN_S
from swell.script_facts import ScriptFinding
from swell.wire import environ, messages
from swell.wire.lines import LineBuffer

#: Its arguments: the folder of the mirror, the script, and those of the script.
_PROGRAM = """import sys
from swell.executors.local.zygote.mirror import become_private
become_private(sys.argv[1])
from swell.train.runtime import runner
runner.run_entry(sys.argv[2], sys.argv[3:])"""
_from_worker = msgspec.json.Decoder(messages.FromWorker)

#: Until it calls `elastic`.
LIMIT_S = 300.0
#: Characters of the script's output that are kept.
TAIL_CHARS = 4000


@dataclass(frozen=True, slots=True)
class ScriptChecked:
    """What became of it."""

    findings: tuple[ScriptFinding, ...] = ()
    failure: str = ""  #: why nothing was compared: the end of the script's output, or what it did not do


def check_script(entry: str, args: Sequence[str], device: DeviceBinding) -> ScriptChecked:
    """Run a script up to its first steps, compare one worker with two, and end it after an epoch's end.

    It runs in a mirror of the current folder, so that what it writes is gone afterwards.

    Args:
        entry: path of a script, or `package.module:function` in the current folder.
    """
    token = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="swell-check-") as folder,
        tempfile.TemporaryDirectory(prefix="swell-check-", ignore_cleanup_errors=True) as scratch,
        socket.create_server(("127.0.0.1", 0)) as listener,
        Path(folder, "output").open("w+b") as output,
    ):
        variables = {
            environ.AGENT: f"127.0.0.1:{listener.getsockname()[1]}",
            environ.TOKEN: token,
            environ.WORKER: "0",
            environ.TRIAL: "1",
            environ.WORKDIR: os.getcwd(),
            environ.MIRROR: scratch,
            "CUDA_VISIBLE_DEVICES": device.cuda or "",
            **environ.GPU_ORDER,
        }
        script = os.path.abspath(entry) if os.path.isfile(entry) else entry
        command = [sys.executable, "-c", _PROGRAM, scratch, script, *args]
        process = subprocess.Popen(
            command,
            cwd=mirrored(os.getcwd(), scratch),  # what it writes is written there
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            checked = _judge(_heard(listener, process, token, _welcome(folder, device)))
        except TimeoutError:
            text = f"{entry} has not called swell.train.elastic within {LIMIT_S:g} s: call it earlier, or"
            checked = ScriptChecked(failure=f"{text} submit the script with `elasticity: restart`")
        finally:
            process.kill()
            process.wait()
        if checked is not None:
            return checked
        output.seek(0)
        text = output.read().decode(errors="replace").strip()[-TAIL_CHARS:]
        status = f"the script ended with status {process.returncode} before its first steps were compared"
        return ScriptChecked(failure=f"{status}:\n{text}" if text else status)


def _welcome(folder: str, device: DeviceBinding) -> messages.Welcome:
    return messages.Welcome(
        mode="profile", device=device.torch_device, seed=0, checkpoint_dir=folder, compares=True, resumes=True
    )


def _heard(
    listener: socket.socket, process: subprocess.Popen[bytes], token: str, welcome: messages.Welcome
) -> Iterator[messages.FromWorker]:
    """What the script's process says, until it ends, or takes long for what follows an epoch.

    Raises TimeoutError: the script has not called `elastic`.
    """
    line = _accept(listener, process)
    if line is None:
        return
    with closing(line):
        line.settimeout(1.0)
        buffer, is_ready, end_s = LineBuffer(), False, time.monotonic() + LIMIT_S
        while (chunk := _received(line)) != b"":
            if time.monotonic() >= end_s:
                if is_ready:
                    return
                raise TimeoutError
            buffer.feed(chunk or b"")
            for text in buffer.lines():
                message = _from_worker.decode(text)
                match message:
                    case messages.Hello(token=said) if said != token:
                        return
                    case messages.Hello():
                        line.sendall(msgspec.json.encode(welcome) + b"\n")
                    case messages.Ready():
                        is_ready, end_s = True, math.inf
                    case messages.Profiled(goes_on=True):
                        end_s = time.monotonic() + MOST_BETWEEN_S
                yield message
    process.wait()


def _accept(listener: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket | None:
    """The line of the process; None: it ended before."""
    listener.settimeout(0.1)
    while process.poll() is None:
        with suppress(TimeoutError):
            return listener.accept()[0]
    return None


def _received(line: socket.socket) -> bytes | None:
    """Return what came over the line; None: nothing for a while; empty: it has ended."""
    try:
        return line.recv(65536)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _judge(said: Iterator[messages.FromWorker]) -> ScriptChecked | None:
    """What the messages come to; None: none of them tells."""
    found = None
    for message in said:
        match message:
            case messages.Profiled():
                found = ScriptChecked(findings=tuple(message.findings))
                if not message.goes_on:
                    break
            case messages.NotCompared():
                return ScriptChecked(findings=(message.finding,))
            case messages.Failed():
                return ScriptChecked(failure=message.message)
            case messages.OutOfMemory():
                return ScriptChecked(failure=f"memory ran out: {message.message}")
            case _:
                continue
    return found
