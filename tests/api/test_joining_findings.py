"""What the answer of a head means for a machine that asks whether it could join."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swell import __version__
from swell.api import joining_findings
from swell.executors.local.processes.strays import HOST_MODULE
from swell.executors.node.options import NodeOptions
from swell.executors.node.running_host import options_of
from swell.executors.remote.host_address import HostAddress
from swell.executors.remote.joining import CannotJoin
from swell.executors.remote.opening import JOIN_PROTOCOL, JoinAccepted, JoinJudged, python_version
from swell.model.finding import Finding, Level

JUDGED = JoinJudged(
    python=python_version(), torch="", clock_s=0.0, seen_at="10.9.0.11", way_problem="", is_joined=False
)


def findings(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str = __version__,
    ahead_s: float = 0.0,
    devices: str = "cpu",
    **judged: Any,
) -> list[Finding]:
    """Of a machine whose clock is ahead of the head's."""

    async def ask(options: NodeOptions) -> tuple[JoinAccepted, JoinJudged]:
        accepted = JoinAccepted(protocol=JOIN_PROTOCOL, version=version)
        return accepted, msgspec.structs.replace(JUDGED, clock_s=time.time() - ahead_s, **judged)

    monkeypatch.setattr(joining_findings, "ask_to_join", ask)
    return list(joining_findings.joining_findings(options_in(folder, devices)))


def options_in(folder: Path, devices: str = "cpu") -> NodeOptions:
    return NodeOptions(
        state_dir=folder / "none" / "node",
        head=HostAddress("10.9.0.1"),
        token_file=folder / "token",
        name="n1",
        devices=devices,
        advertise="10.9.0.11",
    )


def test_a_machine_that_could_join_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(tmp_path, monkeypatch)
    assert {(finding.level, finding.remedy) for finding in found} == {(Level.OK, "")}
    assert found[0].text == "the head at 10.9.0.1:7070 would let this machine in as n1"
    assert found[2].text == "the head reaches it at 10.9.0.11"
    (joined, *_) = findings(tmp_path, monkeypatch, is_joined=True)
    assert joined.text == "this machine has joined the head at 10.9.0.1:7070 as n1"


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        ({"ahead_s": 300.0}, Level.WARN, "clock: is 5 min ahead of the head's"),
        (
            {"way_problem": "no answer within 5 s"},
            Level.WARN,
            "way: the head cannot reach it at 10.9.0.11 (no ",
        ),
        ({"way_problem": None}, Level.WARN, "way: 10.9.0.11 is no address of the host"),
        ({"seen_at": "192.0.2.1"}, Level.OK, "way: the head sees this machine at 192.0.2.1, and it would"),
        ({"version": "9.9"}, Level.WARN, f"versions: Swell {__version__}, and 9.9 on the head"),
        ({"python": "3.99.1"}, Level.OK, f"versions: Python {python_version()}, and 3.99.1 on the head"),
        ({"devices": "paced:2x2@10"}, Level.BAD, "devices: devices 'paced:2x2@10' are 2 nodes"),
    ],
)
def test_what_is_odd_is_told(
    answer: dict[str, Any], level: Level, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings(tmp_path, monkeypatch, **answer)
    (odd,) = [finding for finding in found if f"{finding.about}: {finding.text}".startswith(text)]
    assert odd.level is level


@pytest.mark.parametrize(("is_final", "remedy"), [(True, ""), (False, "goes on trying")])
def test_a_refusal_is_told_in_the_words_of_the_head(
    is_final: bool, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(options: NodeOptions) -> None:
        raise CannotJoin("the head refuses: join token 'lent' was revoked", is_final=is_final)

    monkeypatch.setattr(joining_findings, "ask_to_join", refuse)
    (found,) = joining_findings.joining_findings(options_in(tmp_path))
    assert (found.level, found.about) == (Level.BAD, "joining")
    assert found.text.endswith("'lent' was revoked") and found.remedy.endswith(remedy)


# ------------------------------------------------------------ a host that runs
@contextmanager
def process_with(words: list[str]) -> Iterator[int]:
    """The pid of one that has these words behind its program, and waits."""
    wait = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", wait, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ((), ""),
        (("--fleet", "blue"), "unrecognized arguments: --fleet blue"),
        (("--cores", "half"), "argument --cores: invalid float value: 'half'"),
        (("--cpu-shares", "some"), "--cpu-shares some: choose from weight, quota, off"),
        (("--kind", " "), "devices cannot be of kind ' '"),
        (("--name", "a b"), "a host cannot be called 'a b'"),
    ],
)
def test_a_host_whose_options_this_version_does_not_know_is_told(
    more: tuple[str, ...], problem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        HOST_MODULE,
        "--state",
        str(tmp_path),
        "--join",
        "127.0.0.1",
        "--token-file",
        "t",
        "--name",
        "n1",
    ]
    with process_with([*words, *more]) as pid:
        (_, host), options = joining_findings.running_host(tmp_path)
    assert (host.level is Level.OK) == (options is not None) == (not problem)
    assert capfd.readouterr().err == ""
    if problem:
        assert f"runs (pid {pid}), and its options cannot be read: {problem}" in host.text
        assert host.level is Level.WARN and "the `swell doctor` of that version" in host.remedy


def test_a_process_that_is_no_host_has_no_options(tmp_path: Path) -> None:
    words = ["swell.executors.local.agent.process", str(tmp_path)]
    with process_with(words) as pid, pytest.raises(ValueError, match="has not started it"):
        options_of(pid)
