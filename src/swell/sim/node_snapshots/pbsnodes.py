"""What PBS's and Torque's `pbsnodes -a` prints, as text and as JSON (`pbsnodes -a -F json`):

    x3006c0s13b1n0
         state = free
         resources_available.ngpus = 4
         jobs = 17.server/0

    {"timestamp": 1699630815, "nodes": {"x3006c0s13b1n0": {"state": "free", "jobs": ["17.server"]}}}

A node is idle that is `free` and has no jobs: one whose cores are in part taken is `free`, too. It has as
many devices as it has GPUs (`resources_available.ngpus`, Torque: `gpus`), else one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swell.sim.node_snapshots.snapshot import IdleNodes, JsonReader, Lines, MalformedSnapshot, TextReader

GPUS = ("resources_available.ngpus", "gpus")


def _is_like(lines: Lines) -> bool:
    first, second = lines[0][1], lines[1][1] if len(lines) > 1 else ""
    return not first[0].isspace() and len(first.split()) == 1 and second[:1].isspace() and " = " in second


def _read(lines: Lines) -> IdleNodes:
    nodes: dict[str, dict[str, str]] = {}
    begins: dict[str, int] = {}
    name = ""
    for number, text in lines:
        if not text[0].isspace():
            name = text.strip()
            if name in nodes:
                raise MalformedSnapshot(
                    number, f"node {name!r} stands twice in one snapshot; begin each with its time"
                )
            nodes[name], begins[name] = {}, number
            continue
        key, sign, value = text.strip().partition(" =")
        if not (sign and name):
            raise MalformedSnapshot(
                number, "is not `NAME = VALUE` below the name of a node, as `pbsnodes -a` prints it"
            )
        nodes[name][key.strip()] = value.strip()
    for one, fields in nodes.items():
        if "state" not in fields:
            raise MalformedSnapshot(
                begins[one], f"node {one!r} has no state; take the snapshot with `pbsnodes -a`"
            )
    return {one: _num_devices(fields, begins[one]) for one, fields in nodes.items() if _is_idle(fields)}


def _is_idle(fields: Mapping[str, Any]) -> bool:
    return fields["state"] == "free" and not fields.get("jobs")


def _num_devices(fields: Mapping[str, Any], line: int) -> int:
    told = next((str(fields[name]) for name in GPUS if name in fields), "0")
    if not told.isdecimal():
        raise MalformedSnapshot(line, f"has {told!r} GPUs, which is no whole number; correct it")
    return int(told) or 1


def _is_like_json(told: Mapping[str, Any]) -> bool:
    return isinstance(told.get("nodes"), Mapping)


def _read_json(told: Mapping[str, Any]) -> IdleNodes:
    found: dict[str, int] = {}
    for name, fields in told["nodes"].items():
        if not (isinstance(fields, Mapping) and isinstance(fields.get("state"), str)):
            raise MalformedSnapshot(
                1, f"node {name!r} has no state; take the snapshot with `pbsnodes -a -F json`"
            )
        flat = dict(fields)
        resources = fields.get("resources_available")
        if isinstance(resources, Mapping) and "ngpus" in resources:
            flat[GPUS[0]] = resources["ngpus"]
        if _is_idle(flat):
            found[name] = _num_devices(flat, 1)
    return found


def _moment_s(told: Mapping[str, Any]) -> float | None:
    at_s = told.get("timestamp")
    return float(at_s) if isinstance(at_s, int | float) and at_s > 0 else None


PBSNODES = TextReader("pbsnodes -a", _is_like, _read)
PBS_JSON = JsonReader("pbsnodes -a -F json", _is_like_json, _read_json, _moment_s)
