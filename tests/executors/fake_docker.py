#!/usr/bin/env python3
"""A program that stands for `docker` or `apptainer`, for the calls that an agent makes of them.

A container is the program itself.

What the agent mounts at paths of its own is found at its source. In the folder `FAKE_DOCKER` there is a file
for each container, with what it was told; the file `down` beside it holds the words of a daemon that refuses.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

#: Images: what stands in for their Python.
IMAGES = {"fake:1": sys.executable, "fake:no-python": "", "fake:ends": "/bin/true"}
INSIDE = "/run/swell"
FOLDER = Path(os.environ["FAKE_DOCKER"])
CONTAINERS = FOLDER / "containers"
#: Options that stand alone; all others are followed by a value.
ALONE = {"--interactive", "--rm", "--read-only", "--containall", "--no-home", "--no-privs", "--nv"}
#: Before a variable of the program that its container is to have.
FOR_CONTAINER = "APPTAINERENV_"


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
    own = {name: os.environ[name] for name in options["--env"] if "=" not in name}
    own |= dict(text.split("=", 1) for text in options["--env"] if "=" in text)
    become(name, image, options, options["--workdir"][0], arguments[0], own)


def execute(words: list[str]) -> None:
    """As Apptainer does, which has files for images, and no names for containers."""
    options, (image, program, script) = parse(words)
    kind = f"fake:{Path(image).stem}"
    if not Path(image).is_file():
        fail(255, f"FATAL:   could not open image {image}: no such file or directory")
    if not IMAGES[kind]:
        fail(255, f'FATAL:   "{program}": executable file not found in $PATH')
    own = {
        name.removeprefix(FOR_CONTAINER): value
        for name, value in os.environ.items()
        if name.startswith(FOR_CONTAINER)
    }
    job = json.loads(own["SWELL_CONTAINED"])["environ"]["SWELL_JOB_ID"]
    become(f"{job}-{os.getpid()}", kind, options, options["--pwd"][0], script, own)


def become(
    name: str, image: str, options: dict[str, list[str]], workdir: str, script: str, environ: dict[str, str]
) -> None:
    sources = {}
    for (fields,) in (list(csv.reader([text])) for text in options["--mount"]):
        pairs = dict(field.partition("=")[::2] for field in fields)
        sources[pairs["destination"]] = pairs["source"]
    found = next(
        source + script.removeprefix(target)
        for target, source in sources.items()
        if target.startswith(INSIDE) and script.startswith(f"{target}/")
    )
    note(name, {"pid": os.getpid(), "image": image, "run": options})
    os.chdir(workdir)
    environ |= {"PYTHONPATH": os.environ["PYTHONPATH"]}
    os.execve(IMAGES[image], [IMAGES[image], found], environ)  # noqa: S606


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
    elif command == "exec":
        execute(list(words))
    elif command in ("version", "--version"):
        print("28.0.0" if command == "version" else "apptainer version 1.3.4")
    elif command == "image":
        if words[-1] not in IMAGES:
            fail(1, f"Error response from daemon: No such image: {words[-1]}")
        print("sha256:0")
    elif command == "inspect":
        print(read(words[-1])["pid"])
    elif command == "ps":
        wanted = words[-1].removeprefix("name=^").removesuffix("$") if "--filter" in words else ""
        names = [path.name for path in CONTAINERS.iterdir() if wanted in ("", path.name)]
        print("\n".join(name for name in names if runs(read(name)["pid"])))
    elif command == "kill":
        pid = read(words[-1])["pid"]
        if not runs(pid):
            fail(1, f"Error response from daemon: container {words[-1]} is not running")
        os.killpg(pid, signal.SIGKILL)
    elif command == "rm":
        if runs(read(words[-1])["pid"]):
            os.killpg(read(words[-1])["pid"], signal.SIGKILL)
        (CONTAINERS / words[-1]).unlink(missing_ok=True)
    else:
        fail(1, f"docker: '{command}' is not a docker command.")


if __name__ == "__main__":
    main(*sys.argv[1:])
