"""A process of a worker that does what a test tells it, by a socket named after it in its working folder.

A line `exit N` ends it with this status; any other one is a message, which it sends to its agent as it is.
What the agent says is appended to the file `heard-NAME`, its environment is in `environ-NAME`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import msgspec

from swell.wire import environ
from swell.wire import messages as m


def write_down(agent: socket.socket, path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        while chunk := agent.recv(1 << 16):
            file.write(chunk)
    os._exit(9)


def run_entry(entry: str, args: list[str]) -> None:
    """As `swell.train.runtime.runner.run_entry`."""
    number, position = int(os.environ[environ.WORKER]), int(os.environ.get(environ.POSITION, "0"))
    name = f"{number}.{position}"
    Path(f"environ-{name}").write_text(json.dumps({**os.environ, "PID": str(os.getpid())}))
    print(f"process {name} prints", flush=True)
    host, port = os.environ[environ.AGENT].split(":")
    agent = socket.create_connection((host, int(port)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"socket-{name}")
        listener.listen()
        token = os.environ[environ.TOKEN]
        hello = m.Hello(token=token, worker=number, pid=os.getpid(), position=position)
        agent.sendall(msgspec.json.encode(hello) + b"\n")
        threading.Thread(target=write_down, args=(agent, Path(f"heard-{name}")), daemon=True).start()
        test = listener.accept()[0].makefile("rb")
        for line in test:
            if line.startswith(b"exit"):
                os._exit(int(line.split()[1]))
            agent.sendall(line)
