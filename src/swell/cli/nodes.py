"""`swell nodes`: the nodes of a platform."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

import swell
from swell.cli.options import Json, State, has_subcommand
from swell.cli.output import clock, print_json, print_table, time_texts
from swell.model.errors import Unavailable
from swell.model.quantities import format_bytes, relative, span
from swell.model.usage import TEST_LIMIT_S, DeviceTest

if TYPE_CHECKING:
    from swell.model.view import ClusterView, NodeView

app = typer.Typer(name="nodes", rich_markup_mode=None, add_completion=False)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the node, as `swell nodes` lists it.")]

#: Between two looks whether a test is over; its host has so much longer than the test to answer.
LOOK_EVERY_S, ANSWER_S = 0.5, 30.0
NO_NODE = "no node has joined yet: start `swell node` on a machine that is to be one"


@app.callback(invoke_without_command=True)
def list_nodes(context: typer.Context, state: State = None, json: Json = False) -> None:
    """List nodes and devices, and the jobs that use them."""
    if has_subcommand(context, state, json):
        return
    with swell.connect(state) as client:
        cluster = client.cluster()
    if json:
        print_json(cluster)
    else:
        _print_cluster(cluster)


@app.command()
def drain(
    name: Name,
    undo: Annotated[bool, typer.Option("--undo", help="Let jobs be placed on the node again.")] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Place nothing on a node any more, and move its jobs to other nodes. Returns before they have moved."""
    with swell.connect(state) as client:
        node = client.undrain_node(name) if undo else client.drain_node(name)
    if json:
        print_json(node)
    elif undo:
        print(f"jobs may be placed on node {name} again")
    elif node.jobs:
        print(f"node {name} gets no more work; to be moved: {', '.join(node.jobs)}")
    else:
        print(f"node {name} gets no more work, and has none")


@app.command()
def test(name: Name, state: State = None, json: Json = False) -> None:
    """Test the devices of a drained node: products and sums of whole numbers, and memory, must be exact.

    A node that was drained because it is ill may have jobs again if it passes. Exit status 1: it does not.
    """
    give_up_s = time.monotonic() + TEST_LIMIT_S + ANSWER_S
    with swell.connect(state) as client:
        before = node = client.test_node(name)
        while node.tested_s == before.tested_s:
            if time.monotonic() > give_up_s:
                raise Unavailable(f"node {name!r} does not answer; `swell nodes` shows whether it is there")
            time.sleep(LOOK_EVERY_S)
            node = next((one for one in client.cluster().nodes if one.name == name), node)
    if json:
        print_json(node)
    else:
        print_table(("DEVICE", "PRODUCTS", "MEMORY", "SUM", "RESULT"), map(_tested, node.tests))
        leaving = node.leaving and f"gets no more work ({node.leaving.why})"
        print(f"\nnode {name} {leaving or 'may have jobs'}")
    if any(one.fault for one in node.tests):
        raise typer.Exit(1)


def _tested(test: DeviceTest) -> tuple[str, ...]:
    rates = (test.flops_per_s, "GFLOP/s"), (test.memory_per_s, "GB/s"), (test.sum_per_s, "GB/s")
    told = ("-" if rate is None else f"{rate / 1e9:.3g} {unit}" for rate, unit in rates)
    return (test.device, *told, test.fault or "passed")


@app.command()
def allow_kind(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Of devices, as `swell nodes` names it.")],
    state: State = None,
    json: Json = False,
) -> None:
    """Let jobs have devices of a kind that is new to the platform. Nodes of such a kind wait until then."""
    with swell.connect(state) as client:
        cluster = client.allow_kind(kind)
    if json:
        print_json(cluster)
        return
    num = sum(len(node.devices) for node in cluster.nodes if node.kind == kind)
    print(f"jobs may have devices of kind {kind!r}; there are {num} now")


@app.command()
def remove(
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Even if jobs have workers on it, which are lost.")
    ] = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Have the host of a node that has joined leave the platform. It may join again when it is started.

    The name of a node that is lost is forgotten.
    """
    with swell.connect(state) as client:
        node = client.remove_node(name, force=force)
    if json:
        print_json(node)
        return
    if not node.devices:
        print(f"node {name} has no devices here: its host is told to leave, or its name is forgotten")
        return
    lost = f"; it takes workers of these with it: {', '.join(node.jobs)}" if node.jobs else ""
    print(f"node {name} is told to leave{lost}")


def _print_cluster(cluster: ClusterView) -> None:
    rows = [row for node in cluster.nodes for row in _rows(node)]
    print_table(("NODE", "RACK", "KIND", "FREE", "DEVICES", "USED BY"), rows)
    for node in cluster.nodes:
        for note in _notes(node, cluster.now_s):
            print(f"{node.name}: {note}")
    for booking in cluster.bookings:
        begins, lasts, more = time_texts(booking, cluster.now_s)
        print(f"booked: {booking.id}: {booking}, from {begins} for {lasts}{more and f', and {more}'}")
    for lost in cluster.lost_nodes:
        print(f"lost: {lost.name}, {span(max(0.0, cluster.now_s - lost.lost_s))} ago: {lost.cause}")
    if (borrowed := cluster.borrowed) is not None:
        back = f"{borrowed.num_given_back} given back so far"
        print(
            f"borrowed: {borrowed.num_there} there, {back}; {borrowed.lent_s / 3600.0:.1f} node-hours in all"
        )
    if not cluster.nodes and cluster.hosts_may_join:
        print(cluster.no_nodes or NO_NODE)
    free = f"{cluster.num_free} of {cluster.num_devices} devices free{_by_kind(cluster)}"
    print(f"\n{free}, policy {cluster.policy}")
    if cluster.clock_note:
        print(f"clock: {cluster.clock_note}")
    if cluster.disk_bytes:
        free, total = format_bytes(cluster.disk_free_bytes), format_bytes(cluster.disk_bytes)
        print(f"{free} of {total} free on the disk of the storage")
    for about, text in cluster.warnings.items():
        print(f"\nwarning, {about}: {text}")


def _by_kind(cluster: ClusterView) -> str:
    """Where there are several kinds."""
    free, total = Counter[str](), Counter[str]()
    for node in cluster.nodes:
        total[node.kind] += len(node.devices)
        free[node.kind] += 0 if node.leaving else sum(not holder for holder in node.devices.values())
    if len(total) < 2:
        return ""
    return f" ({', '.join(f'{free[kind]} of {num} {kind}' for kind, num in total.items())})"


def number_of_cores(cores: float) -> str:
    return "1 core" if cores == 1 else f"{cores:g} cores"


def _notes(node: NodeView, now_s: float) -> Iterator[str]:
    """What does not fit into the table."""
    if node.is_joined:
        yield f"joined from {node.address}" if node.address else "joined"
    yield from node.lacks
    slowed = ((device, read.slowed_by) for device, read in node.readings.items() if read.slowed_by)
    yield from (f"device {device} is slowed down by {cause}" for device, cause in slowed)
    yield from (f"device {device} {why}" for device, why in node.slow.items())
    if node.cores is not None:
        yield f"{len(node.devices)} devices share {number_of_cores(node.cores)}"
    if (leaving := node.leaving) is not None:
        why = leaving.why or "no reason was given"
        if leaving.until_s is not None:
            ahead = f", {relative(leaving.until_s - now_s)}" if leaving.until_s > now_s else ""
            why += f"; gone at {clock(leaving.until_s, now_s)}{ahead}"
        left = f"yet to move: {', '.join(node.jobs)}" if node.jobs else "no job is left on it"
        ill = "is ill and " if leaving.is_ill else ""
        yield f"{ill}gets no more work ({why}); {left}"
    elif node.until_s is not None:
        ahead = span(max(node.until_s - now_s, 0.0))
        yield f"there until {clock(node.until_s, now_s)}, for {ahead}; no promise counts on it beyond"


def _rows(node: NodeView) -> list[tuple[str, ...]]:
    """One for each run of neighbours with one holder; the node is named in the first."""
    num_free = sum(holder is None for holder in node.devices.values())
    islands = [f"islands {node.islands}"] if node.islands else []
    borrowed, leaving = ["borrowed"] if node.is_borrowed else [], ["leaving"] if node.leaving else []
    marks = [node.kind, *islands, *borrowed, *leaving]
    first = (node.name, node.rack, ", ".join(marks), f"{num_free}/{len(node.devices)}")
    rows: list[tuple[str, ...]] = []
    for holder, group in groupby(node.devices.items(), key=lambda item: item[1]):
        devices = [device for device, _ in group]
        run = devices[0] if len(devices) == 1 else f"{devices[0]} .. {devices[-1]}"
        rows.append((*(first if not rows else ("", "", "", "")), run, holder or "-"))
    return rows
