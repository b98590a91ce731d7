"""What Slurm's `sinfo --json` and `scontrol show nodes --json` print, as far as it is read:

    {"sinfo": [{"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n1", "n2"]}, "gres": {"total": "gpu:4"}}]}
    {"nodes": [{"name": "n1", "state": ["IDLE"], "gres": "gpu:4"}], "last_update": {"number": 1764020647}}

States of older versions are one word instead of a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from swell.sim.node_snapshots.hostlist import expanded
from swell.sim.node_snapshots.slurm_states import are_idle_flags, num_devices
from swell.sim.node_snapshots.snapshot import IdleNodes, JsonReader, MalformedSnapshot


def _is_like(told: Mapping[str, Any]) -> bool:
    return isinstance(told.get("sinfo"), list) or isinstance(told.get("nodes"), list)


def _read(told: Mapping[str, Any]) -> IdleNodes:
    found: dict[str, int] = {}
    for at, entry in enumerate(told.get("sinfo", told.get("nodes"))):
        try:
            found.update(_sinfo_entry(entry) if "sinfo" in told else _node_entry(entry))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise MalformedSnapshot(
                1, f"entry {at + 1} has no state or no names of nodes as Slurm writes them ({error!r})"
            ) from error
    return found


def _sinfo_entry(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    if not are_idle_flags(_flags(entry["node"]["state"])):
        return iter(())
    num = num_devices(str(entry.get("gres", {}).get("total", "")))
    return ((name, num) for listed in entry["nodes"]["nodes"] for name in expanded(listed))


def _node_entry(entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    if not are_idle_flags(_flags(entry["state"])):
        return iter(())
    return iter([(entry["name"], num_devices(str(entry.get("gres", ""))))])


def _flags(state: Any) -> set[str]:
    words = [state] if isinstance(state, str) else state
    return {word.upper() for word in words}


def _moment_s(told: Mapping[str, Any]) -> float | None:
    last = told.get("last_update")
    last = last.get("number") if isinstance(last, Mapping) else last
    return float(last) if isinstance(last, int | float) and last > 0 else None


SLURM_JSON = JsonReader("sinfo --json", _is_like, _read, _moment_s)
