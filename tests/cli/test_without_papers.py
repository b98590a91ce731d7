"""What only `swell-papers` has is named with the package that has it."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from swell.cli import commands
from swell.cli.main import run
from swell.plugins import Registry
from swell.policies.policy import Policy
from swell.policies.registry import IN_SWELL_PAPERS, POLICIES
from swell.policies.unpromised import Fifo


def test_a_policy_of_the_papers_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (log := tmp_path / "log.csv").touch()
    elsewhere = dict.fromkeys(IN_SWELL_PAPERS, "swell-papers")
    alone = Registry(Policy, "swell.none", (Fifo,), elsewhere)
    monkeypatch.setattr("swell.policies.registry.POLICIES", alone)
    assert run(["simulate", str(log), "--cluster", "1x2", "--policy", "tiresias"]) == 2
    told = capsys.readouterr().err
    assert "policy 'tiresias' is in package swell-papers: `" in told
    assert "-m pip install ./papers`" in told and told.count("\n") == 1


def test_repro_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "commands_of_packages", dict)
    assert run(["repro", "hu"]) == 2
    told = capsys.readouterr().err
    assert "command 'repro' is in package swell-papers: `" in told and told.count("\n") == 1


def test_swell_knows_which_policies_the_papers_have() -> None:
    found = {one.name for one in entry_points(group="swell.policies") if one.value.startswith("swell")}
    assert found == set(IN_SWELL_PAPERS)
    assert not found & set(POLICIES.own)
