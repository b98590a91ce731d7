"""What is said of a joined host: what it has, and what only it and its head together can say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.complete_machine import COMPLETE

from swell import __version__
from swell.api import host_findings
from swell.api.host_findings import hosts_findings
from swell.api.machine_findings import machine_findings
from swell.executors.local.launch import AgentError
from swell.executors.local.machine_facts import TorchBuild
from swell.executors.local.protocol import HostExamined
from swell.model.finding import Finding, Level

WELL = HostExamined(
    name="n1", facts=COMPLETE, version=__version__, torch="2.13.0", advertise="10.9.0.11", way_problem=""
)


def findings_with(**lacks: Any) -> list[Finding]:
    return host_findings.host_findings(msgspec.structs.replace(WELL, **lacks), COMPLETE)


def test_a_host_without_a_lack_is_told_as_the_machine_that_it_is() -> None:
    findings = findings_with()
    assert {(found.level, found.remedy, found.node) for found in findings} == {(Level.OK, "", "n1")}
    own = [msgspec.structs.replace(found, node="n1") for found in machine_findings(COMPLETE)]
    assert findings[: len(own)] == own
    assert [f"{found.about}: {found.text}" for found in findings[len(own) :]] == [
        "clock: is 0 s behind the head's",
        "way: the head reaches it at 10.9.0.11",
    ]


@pytest.mark.parametrize(
    ("lacks", "level", "text", "remedy"),
    [
        ({"ahead_s": 300.0}, Level.WARN, "clock: is 5 min ahead of the head's; leases", "chrony"),
        ({"ahead_s": -90.0}, Level.WARN, "clock: is 90 s behind the head's; leases", "chrony"),
        (
            {"way_problem": "Connection refused"},
            Level.WARN,
            "way: the head cannot reach it at 10.9.0.11 (Connection refused)",
            "--advertise",
        ),
        ({"way_problem": None}, Level.WARN, "way: 10.9.0.11 is no address of the host", "--advertise"),
        ({"version": "9.9"}, Level.WARN, "versions: Swell 9.9, and", f"install Swell {__version__}"),
        ({"torch": "2.6.0"}, Level.WARN, "versions: torch 2.13.0, and 2.6.0 when it joined", "again"),
        (
            {"facts": msgspec.structs.replace(COMPLETE, python="3.11.9")},
            Level.OK,
            "versions: Python 3.11.9, and 3.11.2 on the head",
            "",
        ),
        (
            {
                "facts": msgspec.structs.replace(
                    COMPLETE, torch=TorchBuild(version="2.13.0+cu124", cuda="12.4", nccl="2")
                )
            },
            Level.OK,
            "versions: torch 2.13.0+cu124, and 2.13.0+cu130 on the head",
            "",
        ),
        (
            {"facts": msgspec.structs.replace(COMPLETE, state_free_bytes=0)},
            Level.BAD,
            "disk: 0.0 GiB free in /state",
            "make room",
        ),
    ],
)
def test_what_is_odd_is_told_of_it(lacks: dict[str, Any], level: Level, text: str, remedy: str) -> None:
    (found,) = [found for found in findings_with(**lacks) if f"{found.about}: {found.text}".startswith(text)]
    assert (found.level, found.node) == (level, "n1") and remedy in found.remedy


def test_a_silent_host_is_told_with_why() -> None:
    (found,) = findings_with(facts=None, why_silent="it has no line to the head now", way_problem=None)
    assert (found.level, found.about) == (Level.WARN, "host")
    assert found.text == "is silent: it has no line to the head now" and "`swell node`" in found.remedy


def test_hosts_are_told_in_order_and_an_agent_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(hosts_findings(tmp_path, COMPLETE)) == [], "no agent runs"
    second = msgspec.structs.replace(WELL, name="n2")
    monkeypatch.setattr(host_findings, "examine_hosts", lambda folder: iter([second, WELL]))
    nodes = [found.node for found in hosts_findings(tmp_path, COMPLETE)]
    assert nodes == sorted(nodes) and set(nodes) == {"n1", "n2"}

    def refuse(folder: Path) -> None:
        raise AgentError("the agent (pid 7) does not answer: timed out")

    monkeypatch.setattr(host_findings, "examine_hosts", refuse)
    (found,) = hosts_findings(tmp_path, COMPLETE)
    assert found.level is Level.WARN and "cannot be asked: the agent (pid 7)" in found.text
