"""`swell doctor --measure`: a minute of real workers, and a table of what they took."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from swell.api.errors import ApiError, InvalidOption
from swell.cli.options import node_of_devices
from swell.cli.output import note, print_json, print_table, warn

if TYPE_CHECKING:
    from swell.measure.measurement import DeviceMeasure


def measure_devices(state: Path | None, devices: str, json: bool) -> None:
    """Measure this machine's devices, and print what was measured.

    Raises:
        InvalidOption: the devices cannot be had.
        ApiError: workers did not do what was to be measured.
    """
    from swell.api.installed import lack_of_torch
    from swell.executors.local.launch import AgentError, find_agent
    from swell.measure.measurement import MeasureFailed, measure
    from swell.store.folder import StateFolder

    if lack := lack_of_torch():
        raise InvalidOption(lack)
    node = node_of_devices(devices)
    if find_agent(StateFolder(state).path) is not None:
        warn("a platform is up here: its jobs and the measurement slow each other down")
    with tempfile.TemporaryDirectory(prefix="swell-measure-") as folder:
        try:
            found = measure(node, Path(folder), lambda what: note(f"measures {what}"))
        except (AgentError, MeasureFailed) as error:
            raise ApiError(f"--measure: {error}") from error
    if json:
        print_json(found)
    else:
        print_table(("WHAT", "MEASURED", "EXPECTED"), map(_row, found), wrapping=0)


def _row(one: DeviceMeasure) -> tuple[str, str, str]:
    return one.what, _seconds(one.measured_s), "-" if one.expected_s is None else _seconds(one.expected_s)


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= 0.0095 else f"{1e3 * value:.3f} ms"
