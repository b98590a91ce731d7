"""`swell up --listen`, `swell node` and `swell admin tokens`: joining, leaving, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from tests.started_program import run_program

from swell.executors.engine import LISTENING_DOOR
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.launch import start_agent, stop_agent

ROOT = Path(__file__).parents[2]
NODE = ("node", "--devices", "paced:2@200", "--name", "n1")


def environ(state: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SWELL_")}
    return plain | {"PYTHONPATH": str(ROOT / "src"), "SWELL_STATE": str(state)}


class Shell:
    """In one folder, with one agent at which hosts can join."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.state.mkdir(mode=0o700)
        self._num_tokens = 0
        options = AgentOptions(
            state_dir=self.state, preload=("msgspec",), listen="127.0.0.1:0", door=LISTENING_DOOR
        )
        _, self.agent = start_agent(options)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return run_program(*words, environ=environ(self.state), timeout_s=60.0, folder=self.folder)

    def start(self, *words: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "swell.cli.main", *map(str, words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=environ(self.state), cwd=self.folder, stdout=pipe, stderr=pipe, text=True
        )

    def token(self, name: str = "") -> Path:
        """In a file; one without a name has another one each time."""
        self._num_tokens += 1
        name = name or f"t{self._num_tokens}"
        assert self.run("admin", "tokens", "add", name).returncode == 0
        return self.folder / f"{name}.join-token"

    @cached_property
    def known_token(self) -> Path:
        """For what is refused whatever the token."""
        return self.token("known")

    def node(self, token: Path, *words: object) -> tuple[object, ...]:
        return (*NODE, "--join", self.agent.hosts, "--token-file", token, *words)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = Shell(tmp_path_factory.mktemp("shell"))
    yield made
    stop_agent(made.state)


def await_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return
    raise AssertionError("".join(lines))


@pytest.mark.slow
def test_a_host_joins_gets_a_lease_and_leaves_when_it_is_told(shell: Shell) -> None:
    with shell.start(*shell.node(shell.token())) as process:
        await_line(process, "this host has a lease: workers can be started")
        process.terminate()
        await_line(process, "this host leaves: all workers are killed")
        assert process.wait() == 0
    assert "host n1 is lost: it left the platform" in (shell.state / "agent.log").read_text()


@pytest.mark.slow
def test_a_host_leaves_within_the_time_that_it_is_told(shell: Shell) -> None:
    """By a command on that host, or by SIGTERM, which a batch system sends ahead of the end."""
    with shell.start(*shell.node(shell.token(), "--grace", "60s")) as process:
        await_line(process, "this host has a lease: workers can be started")
        done = shell.run("node", "--leave", "90s")
        assert done.stdout == "this host leaves within 90 s, sooner if its workers have moved away\n"
        await_line(process, "this host leaves within 90 s: its owner needs it (`swell node --leave`)")
        assert process.wait() == 0
    with shell.start(*shell.node(shell.token(), "--grace", "60s")) as process:
        await_line(process, "this host has a lease: workers can be started")
        process.terminate()
        await_line(process, "this host leaves within 60 s: it was told to end (SIGTERM)")
        process.terminate()
        assert process.wait() == 0


@pytest.mark.slow
def test_a_revoked_token_ends_its_hosts_and_lets_none_in(shell: Shell) -> None:
    token = shell.token("rack-1")
    with shell.start(*shell.node(token)) as process:
        await_line(process, "this host has a lease")
        assert shell.run("admin", "tokens", "revoke", "rack-1").stdout == "join token 'rack-1' is revoked\n"
        await_line(process, "swell: the head at ")
        assert process.wait() == 1
    done = shell.run(*shell.node(token))
    assert done.returncode == 1 and "join token 'rack-1' was revoked" in done.stderr
    assert re.search(r"rack-1 +revoked", shell.run("admin", "tokens", "list").stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--name", "node0"), "a host cannot be called 'node0'"),
        (("--name", "a b"), "a host cannot be called 'a b'"),
        (("--devices", "paced:2x2@10"), "are 2 nodes; a host that joins is one"),
        (("--devices", "tpu"), "devices 'tpu' are not known"),
        (("--kind", "a100 "), "devices cannot be of kind 'a100 ': a kind has at most 80 letters"),
        (("--join", "127.0.0.1:99999"), "'127.0.0.1:99999' is no address"),
        (("--token-file", "none"), "join token file none cannot be read"),
        (("--cpu-shares", "half"), "--cpu-shares: 'half' is not known; choose one of weight, quota, off"),
        (("--cores", "9999"), "--cores 9999: this process may use"),
    ],
)
def test_what_cannot_be_is_said_with_its_remedy(shell: Shell, words: tuple[str, ...], message: str) -> None:
    done = shell.run(*shell.node(shell.known_token), *words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_token_is_written_to_a_new_file_that_others_cannot_read(shell: Shell) -> None:
    token = shell.token("rack-2")
    assert token.stat().st_mode & 0o777 == 0o600
    done = shell.run("admin", "tokens", "add", "rack-2")
    assert done.returncode == 2 and "there is such a file" in done.stderr
    done = shell.run("admin", "tokens", "add", "rack-2", "--out", "other")
    assert done.returncode == 2 and "there is a join token 'rack-2'" in done.stderr
    done = shell.run("admin", "tokens", "revoke", "none")
    assert done.returncode == 2 and "there is no join token 'none'" in done.stderr
