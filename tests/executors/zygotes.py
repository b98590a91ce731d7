"""A zygote of its own, asked as the agent asks it."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swell.executors.local.processes.strays import ProcessMark
from swell.executors.local.zygote.client import DEFAULT_VARIABLES
from swell.executors.local.zygote.messages import Answer, Fork, Forked, Request
from swell.executors.local.zygote.process import THREAD_VARIABLES
from swell.wire.environ import MARK

CALL = "tests.executors.small_entries"


def fork_of(
    folder: Path,
    key: str,
    function: str,
    args: tuple[str, ...] = (),
    env: Mapping[str, str] = {},
    log_bytes: int = 0,
    value_name: str = "",
) -> Fork:
    return Fork(
        key=key,
        environ=dict(env),
        workdir=str(folder),
        log_path=str(folder / f"{key}.log"),
        log_bytes=log_bytes,
        value_name=value_name,
        call=f"{CALL}:{function}",
        entry="entry.py",
        args=args,
    )


class Zygote:
    def __init__(self, *modules: str, pass_fds: tuple[int, ...] = ()) -> None:
        self.channel, theirs = socket.socketpair()
        command = [
            sys.executable,
            "-m",
            "swell.executors.local.zygote.process",
            str(theirs.fileno()),
            str(os.getpid()),
        ]
        self.mark = ProcessMark(os.getpid(), secrets.token_hex(8), 0, "/state")
        env = DEFAULT_VARIABLES | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | {MARK: self.mark.text()}
        with theirs:
            self.process = subprocess.Popen(
                [*command, *modules], pass_fds=[theirs.fileno(), *pass_fds], env=env, stderr=subprocess.PIPE
            )
        self.answers = self.channel.makefile("rb")

    def ask(self, request: Request) -> None:
        self.channel.sendall(msgspec.json.encode(request) + b"\n")

    def answer(self) -> Answer:
        answer: Answer = msgspec.json.decode(self.answers.readline(), type=Answer)
        return answer

    def fork(self, folder: Path, function: str, *args: str, key: str = "a", **env: str) -> int:
        self.ask(fork_of(folder, key, function, args, env))
        forked = self.answer()
        assert isinstance(forked, Forked)
        return forked.pid

    def end(self) -> None:
        self.answers.close()
        self.channel.close()
        self.process.kill()
        self.process.communicate()
