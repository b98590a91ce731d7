"""A platform whose user sits at another machine: only an address, a token and a folder of code."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.api.cutting_proxy import cutting
from tests.eventually import PATIENCE_S, eventually
from tests.platform.program import Program
from tests.platform.window import Window
from tests.started_program import run_program

pytestmark = pytest.mark.slow

SCRIPT = """
import os
import torch
import helper
from swell import train

print("reads", open("sub/conf.txt").read(), helper.X, flush=True)
model = torch.nn.Linear(4, 1)
data = torch.utils.data.TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, torch.utils.data.DataLoader(data, batch_size=16))
for epoch in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        run.backward(torch.nn.functional.mse_loss(model(x), y))
        run.step()
with open("result.txt", "w") as file:
    file.write("done")
print("steps are done", flush=True)
"""


class Laptop:
    """Commands of a user who has logged in, in a home and a folder of their own."""

    def __init__(self, head: Program, root: Path) -> None:
        self.folder = root / "code"
        (self.folder / "sub").mkdir(parents=True)
        (self.folder / "train.py").write_text(SCRIPT)
        (self.folder / "helper.py").write_text("X = 42\n")
        (self.folder / "sub" / "conf.txt").write_text("hello")
        plain = {name: value for name, value in head.environ.items() if not name.startswith("SWELL_")}
        self.environ = plain | {"XDG_CONFIG_HOME": str(root / "config"), "HOME": str(root)}
        endpoint = json.loads((head.state / "endpoint.json").read_text())
        self.url, self.fingerprint = endpoint["network_url"], endpoint["fingerprint"]
        user = ("admin", "users", "add", "ana", "--role", "submit", "--tenant", "vision")
        self.token = head(*user).stdout.strip()
        self.login(self.url)

    def login(self, url: str) -> None:
        command = [sys.executable, "-P", "-m", "swell.cli.main", "login", url, "--token-stdin"]
        done = subprocess.run(
            [*command, "--fingerprint", self.fingerprint],
            input=f"{self.token}\n",
            text=True,
            capture_output=True,
            env=self.environ,
        )
        assert done.returncode == 0, done.stderr

    def ok(self, *words: object) -> str:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            done = run_program(*words, environ=self.environ, timeout_s=PATIENCE_S)
        finally:
            os.chdir(before)
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    head = Program(tmp_path_factory.mktemp("head") / "state")
    told = head.ok("up", "--devices", "cpu:2", "--serve", "127.0.0.1:0")
    try:
        assert re.search(r"swell login https://127\.0\.0\.1:\d+, fingerprint [0-9a-f]{64}", told)
        yield Laptop(head, tmp_path_factory.mktemp("laptop"))
    finally:
        head("down")


def test_a_script_is_uploaded_runs_beside_its_code_and_its_files_come_back(laptop: Laptop) -> None:
    job_id = laptop.ok("submit", "--script", "train.py", "--steps", "40").split(":")[0]
    lines = laptop.ok("logs", job_id, "-f")
    assert "reads hello 42" in lines and "steps are done" in lines
    assert "succeeded" in laptop.ok("wait", job_id)
    listed = [one["name"] for one in json.loads(laptop.ok("download", job_id, "--list", "--json"))]
    assert listed[0].startswith("checkpoints/step-000000000040") and listed[-1] == "workdir/result.txt"
    paths = [laptop.folder / path for path in laptop.ok("download", job_id).split()]
    assert [path.name for path in paths] == [Path(listed[0]).name, "result.txt"]
    assert paths[1].read_text() == "done" and paths[0].stat().st_size > 1000


def test_a_command_runs_in_the_copy_of_its_folder(laptop: Laptop) -> None:
    program = laptop.folder / "run.sh"
    program.write_text("#!/bin/sh\ncat sub/conf.txt\necho $1 > out.txt\n")
    program.chmod(0o755)
    job_id = laptop.ok("submit", "--time", "2m", "--", "./run.sh", "there").split(":")[0]
    laptop.ok("wait", job_id)
    assert "hello" in laptop.ok("logs", job_id)
    assert (laptop.folder / laptop.ok("download", job_id).strip()).read_text() == "there\n"
    assert not (laptop.folder / "out.txt").exists()


def test_a_session_is_shown_over_a_line_that_breaks(laptop: Laptop) -> None:
    """It begins in an empty folder: the home of a user is not uploaded."""
    port = int(laptop.url.rpartition(":")[2])
    with cutting(port, []) as proxy:
        laptop.login(proxy.url)
        shell = Window(
            *("run", "--time", "10m", "--env", "PS1=$ ", "--", "bash", "--norc", "--noprofile"),
            environ=laptop.environ,
        )
        try:
            shell.until("$ ")
            assert shell.run("ls | wc -l").strip() == "0"
            for number in range(3):
                shell.type(f"x{number}")
                shell.until(f"x{number}")
            shell.type("\x15")
            proxy.break_all()
            shell.until("the line broke")
            eventually(shell.answers, "a prompt")
            assert shell.run("echo $((6 * 7))").strip() == "42"
            shell.type("exit 5\r")
            assert shell.process.wait(PATIENCE_S) == 5
        finally:
            shell.close()
            laptop.login(laptop.url)


def test_the_port_of_a_session_is_reached(laptop: Laptop) -> None:
    job_id = ""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = ("python3", "-m", "http.server", port)
    session = ("run", "--time", "5m", "--port", port, "--name", "web", "--", *command)
    shell = Window(*session, environ=laptop.environ)
    try:
        shell.until("Serving HTTP")
        job_id = json.loads(laptop.ok("jobs", "--json"))[-1]["id"]
        forward = Window("attach", job_id, "--port", environ=laptop.environ)
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", forward.until("until Ctrl-C"))
            assert address is not None
            assert httpx.get(address[0], trust_env=False, timeout=PATIENCE_S).status_code == 200
        finally:
            forward.close()
    finally:
        if job_id:
            laptop.ok("cancel", job_id)
        shell.close()


def test_what_only_the_platforms_machine_can_do_says_so(laptop: Laptop) -> None:
    for words in (("up",), ("down",), ("admin", "users"), ("admin", "tokens", "list")):
        done = run_program(*words, environ=laptop.environ, timeout_s=PATIENCE_S)
        assert done.returncode == 2 and "works on the platform's machine only" in done.stderr, done
    assert laptop.url in laptop.ok("page", "--print")
