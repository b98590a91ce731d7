"""`swell nodes`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from swell.cli.options import Json, State
from swell.cli.output import console, print_json, print_table
from swell.model.sizes import format_bytes

if TYPE_CHECKING:
    from swell.model.view import NodeView


def list_nodes(state: State = None, json: Json = False) -> None:
    """List nodes and devices, and the jobs that hold them."""
    from swell.api.client import connect

    with connect(state) as client:
        cluster = client.cluster()
    if json:
        print_json(cluster)
        return
    rows = [row for node in cluster.nodes for row in _rows(node)]
    print_table(("NODE", "RACK", "KIND", "FREE", "DEVICES", "HELD BY"), rows)
    for node in cluster.nodes:
        if node.cores is not None:
            print(f"{node.name}: {len(node.devices)} devices share {number_of_cores(node.cores)}")
    for name, why in cluster.refused_nodes.items():
        print(f"refused: {name} {why}")
    print(f"\n{cluster.num_free} of {cluster.num_devices} devices free, policy {cluster.policy}")
    if cluster.clock_note:
        print(f"clock: {cluster.clock_note}")
    if cluster.disk_bytes:
        free, total = format_bytes(cluster.disk_free_bytes), format_bytes(cluster.disk_bytes)
        print(f"{free} of {total} free on the disk of the state folder")
    for about, text in cluster.warnings.items():
        console().print(f"\nwarning, {about}: {text}", soft_wrap=True)


def number_of_cores(cores: float) -> str:
    return "1 core" if cores == 1 else f"{cores:g} cores"


def _rows(node: NodeView) -> list[tuple[str, ...]]:
    """One for each run of neighbours with one holder; the node is named in the first."""
    num_free = sum(holder is None for holder in node.devices.values())
    kind = f"{node.kind}, borrowed" if node.is_borrowed else node.kind
    first = (node.name, node.rack, kind, f"{num_free}/{len(node.devices)}")
    rows: list[tuple[str, ...]] = []
    for holder, group in groupby(node.devices.items(), key=lambda item: item[1]):
        devices = [device for device, _ in group]
        run = devices[0] if len(devices) == 1 else f"{devices[0]} .. {devices[-1]}"
        rows.append((*(first if not rows else ("", "", "", "")), run, holder or "-"))
    return rows
