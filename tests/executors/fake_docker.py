#!/usr/bin/env python3
"""A program that stands for `docker`, for the calls that an agent makes. A container is a plain process.

What the agent mounts at paths of its own is found at its source. In the folder `FAKE_DOCKER` there is a file
for each container, with what it was told; the file `down` beside it holds the words of a daemon that refuses.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

#: Images: what stands in for their Python.
IMAGES = {"fake:1": sys.executable, "fake:no-python": "", "fake:ends": "/bin/true"}
INSIDE = "/run/swell"
#: Runs the script that is its first argument, in which paths of Unix sockets are those of the container.
WRAPPER = """
import json, os, runpy, socket, sys
mounts = json.loads(os.environ.pop("FAKE_MOUNTS"))
connect = socket.socket.connect
def mapped(line, address):
    for target, source in mounts.items():
        if line.family == socket.AF_UNIX and address.startswith(target + "/"):
            address = source + address[len(target):]
    return connect(line, address)
socket.socket.connect = mapped
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
FOLDER = Path(os.environ["FAKE_DOCKER"])
CONTAINERS = FOLDER / "containers"
#: Options that stand alone; all others are followed by a value.
ALONE = {"--detach", "--rm", "--read-only"}


def fail(status: int, text: str) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(status)


def parse(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("--"):
        name = words.pop(0)
        options.setdefault(name, []).append("" if name in ALONE else words.pop(0))
    return options, words


def run(words: list[str]) -> None:
    options, (image, *arguments) = parse(words)
    (name,) = options["--name"]
    if image not in IMAGES:
        fail(125, f"docker: Error response from daemon: No such image: {image}.\nSee 'docker run --help'.")
    if not IMAGES[image]:
        fail(127, 'docker: OCI runtime create failed: exec: "python3": executable file not found in $PATH')
    mounts = {}
    for (fields,) in (list(csv.reader([text])) for text in options["--mount"]):
        pairs = dict(field.partition("=")[::2] for field in fields)
        if pairs["destination"].startswith(INSIDE):
            mounts[pairs["destination"]] = pairs["source"]
    for target, source in mounts.items():
        arguments = [text.replace(f'"{target}"', f'"{source}"') for text in arguments]
    for target, source in mounts.items():
        if arguments[0].startswith(f"{target}/"):
            arguments[0] = source + arguments[0].removeprefix(target)
    order = json.loads(arguments[1])
    order["socket"] = f"{mounts[os.path.dirname(order['socket'])]}/{os.path.basename(order['socket'])}"
    arguments[1] = json.dumps(order)
    environ = dict(text.split("=", 1) for text in options["--env"])
    environ |= {"FAKE_MOUNTS": json.dumps(mounts), "PYTHONPATH": os.environ["PYTHONPATH"]}
    wrapped = ["-c", WRAPPER] if IMAGES[image] == sys.executable else []
    process = subprocess.Popen(
        [IMAGES[image], *wrapped, *arguments],
        env=environ,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    note(name, {"pid": process.pid, "image": image, "run": options})
    print("0" * 64)


def note(name: str, state: dict[str, Any]) -> None:
    (CONTAINERS / name).write_text(json.dumps(state))


def read(name: str) -> dict[str, Any]:
    if not (CONTAINERS / name).is_file():
        fail(1, f"Error: No such container: {name}")
    state: dict[str, Any] = json.loads((CONTAINERS / name).read_text())
    return state


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main(command: str, *words: str) -> None:
    if (FOLDER / "down").exists():
        fail(1, (FOLDER / "down").read_text())
    if command == "run":
        run(list(words))
    elif command == "version":
        print("28.0.0")
    elif command == "image":
        if words[-1] not in IMAGES:
            fail(1, f"Error response from daemon: No such image: {words[-1]}")
        print("sha256:0")
    elif command == "inspect":
        print(read(words[-1])["pid"])
    elif command == "update":
        options, (name,) = parse(list(words))
        note(name, read(name) | {"update": options})
        print(name)
    elif command == "ps":
        print("\n".join(path.name for path in CONTAINERS.iterdir() if runs(read(path.name)["pid"])))
    elif command == "kill":
        os.kill(read(words[-1])["pid"], signal.SIGKILL)
    elif command == "rm":
        (CONTAINERS / words[-1]).unlink(missing_ok=True)
    else:
        fail(1, f"docker: '{command}' is not a docker command.")


if __name__ == "__main__":
    main(*sys.argv[1:])
