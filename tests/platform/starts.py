"""A job that trains on as many hosts as there are, however they come."""

from __future__ import annotations

from pathlib import Path

from tests.platform.program import ENDLESS, Program

from swell.api.client import connect

#: Of each host.
NUM_DEVICES = 2
#: Hosts import torch on two busy cores.
WITHIN_S = 180.0


def begin(program: Program, folder: Path) -> str:
    """A job that could use all devices, and trains in `folder` until it is told to end."""
    folder.mkdir()
    words = ("--workers", f"1:{2 * NUM_DEVICES}", "--epochs", ENDLESS, "--code", "live", "--no-wait")
    return program.submit(folder, *words)


def hosts(program: Program) -> list[str]:
    """Without the start of a program."""
    with connect(program.state) as client:
        return [node.name for node in client.cluster().nodes]
