"""`swell selftest`, which needs no platform."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell import __version__
from swell.cli.options import described, node_of_devices
from swell.cli.output import check_files, print_note, print_table, warn, write_json
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.measure.report import Report

HEADINGS = ("WHAT", "MEASURED", "SWELL EXPECTS", "NORMAL", "VERDICT")


@described("""
devices: DEVICES
    What is tested, such as cuda:2 or cpu:4. Default: auto.
json_file (--json): FILE
    Write the result to this file as JSON, without names of hosts and users and without paths.
""")
def selftest(devices: str = "auto", json_file: Path | None = None) -> None:
    """Test whether training works on the devices of this machine, and how fast.

    Trains small jobs with real workers, starts, grows, kills, saves and shrinks them, and compares what they
    learn and what that takes with plain PyTorch, with what a platform expects, and with what is normal. Needs
    no platform, and leaves nothing behind. Takes a minute or two. Exit status 1: something is not as it
    should be.
    """
    check_files({"--json": json_file}, [])
    report = tested(devices)
    print_table(HEADINGS, (row.cells for row in report.rows), wrapping=0)
    print(f"\n{report.verdict}")
    if json_file is not None:
        write_json(json_file, report)
    if not report.is_good:
        raise typer.Exit(1)


def tested(devices: str) -> Report:
    """Test these devices of this machine. Raises InvalidInput: they cannot be had."""
    from swell.api.errors import ApiError
    from swell.api.installed import lack_of_torch
    from swell.executors.local.launch import AgentError
    from swell.executors.local.limits.allocation import available_cores
    from swell.measure.guarded_folder import guarded_folder
    from swell.measure.report import Report
    from swell.measure.self_test import measure

    if lack := lack_of_torch():
        raise InvalidInput(lack)
    node = node_of_devices(devices)
    bindings = node.bindings.values()
    if any(binding.pace_per_s is not None for binding in bindings):
        raise InvalidInput(
            f"--devices {devices}: paced devices have the speed that they are told; name others"
        )
    with guarded_folder("swell-selftest-") as folder:
        try:
            rows = measure(node, folder, lambda what: print_note(f"{what} ..."), warn)
        except AgentError as error:
            raise ApiError(str(error)) from error
    return Report(
        swell=__version__,
        torch=version("torch"),
        python=platform.python_version(),
        kind=node.node.kind,
        num_devices=len(bindings),
        num_cores=available_cores(),
        rows=tuple(rows),
    )
