"""`swell doctor --measure`: a minute of real workers, and a table of what they took."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from swell.api.errors import ApiError, InvalidOption
from swell.cli.output import note, print_json, print_table, warn

if TYPE_CHECKING:
    from swell.executors.local.devices import LocalNode
    from swell.measure.measurement import DeviceMeasurement


def measure_devices(state: Path | None, devices: str, out: Path | None, json: bool) -> None:
    """Measure this machine's devices, print what was measured, and write the page.

    Raises:
        InvalidOption: the devices cannot be had, or the page cannot be written.
        ApiError: workers did not do what was to be measured.
    """
    from swell.measure.page import HEADINGS, cells_of, conditions, markdown, not_measured, outcome

    node, load = _node(devices), os.getloadavg()[0]
    if out is not None and not out.absolute().parent.is_dir():
        raise InvalidOption(
            f"--out {out}: there is no folder {out.absolute().parent}; make it, or name another"
        )
    _warn_of_platform(state)
    found = _measured(node)
    known = conditions(found, node.node, load)
    if json:
        print_json({"measures": found.measures, "conditions": known, "not_measured": [*not_measured(found)]})
    else:
        print_table([heading.upper() for heading in HEADINGS], map(cells_of, found.measures), wrapping=0)
        print("", outcome(found), *not_measured(found), sep="\n")
    if out is not None:
        _write(out, markdown(found, known))
        if not json:
            print(f"\nthe page is in {out}")


def _node(devices: str) -> LocalNode:
    """Raises InvalidOption."""
    from swell.api.installed import lack_of_torch
    from swell.executors.local.devices import DeviceError, parse_devices

    if lack := lack_of_torch():
        raise InvalidOption(lack)
    try:
        nodes = parse_devices(devices)
    except (DeviceError, ValueError) as error:
        raise InvalidOption(f"--devices: {error}") from error
    if not nodes:
        raise InvalidOption("--devices none: there is nothing to measure; name devices of this machine")
    return nodes[0]


def _measured(node: LocalNode) -> DeviceMeasurement:
    """Raises ApiError."""
    from swell.executors.local.launch import AgentError
    from swell.measure.measured_gang import MeasureFailed
    from swell.measure.measurement import measure

    with tempfile.TemporaryDirectory(prefix="swell-measure-") as folder:
        try:
            return measure(node, Path(folder), _tell)
        except (AgentError, MeasureFailed, TimeoutError, ValueError) as error:
            raise ApiError(f"--measure: {error}") from error


def _tell(what: str) -> None:
    note(f"measures {what}")


def _warn_of_platform(state: Path | None) -> None:
    """Say that a platform uses the same devices, if one is up."""
    from swell.executors.local.launch import find_agent
    from swell.store.folder import StateFolder

    if find_agent(StateFolder(state).path) is not None:
        warn("a platform is up here: its jobs and the measurement slow each other down")


def _write(out: Path, page: str) -> None:
    try:
        out.write_text(page, "utf-8")
    except OSError as error:
        sys.stdout.flush()
        raise InvalidOption(f"--out {out} cannot be written ({error.strerror}); name another file") from error
