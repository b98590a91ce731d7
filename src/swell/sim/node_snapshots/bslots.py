"""What LSF's `bslots -l` prints: a block for each backfill window, of which all hosts count.

    SLOTS: 15
    RUNTIME: 1 hour 12 minutes
    HOSTS: 1*hostB 2*hostC
           12*hostD

    SLOTS: 1
    RUNTIME: UNLIMITED
    HOSTS: 1*hostB

Slots are cores: each host is a node with one device. `bslots` without `-l` names no hosts.
"""

from __future__ import annotations

import re

from swell.sim.node_snapshots.snapshot import IdleNodes, Lines, MalformedSnapshot, TextReader

NONE = "No backfill window exists at this time"
_FIELD = re.compile(r"\s*(SLOTS|RUNTIME|HOSTS)\s*:\s*(.*)")
_HOST = re.compile(r"\d+\*(\S+)")


def _is_like(lines: Lines) -> bool:
    first = lines[0][1].strip()
    return first.startswith((NONE, "SLOTS"))


def _read(lines: Lines) -> IdleNodes:
    if lines[0][1].split()[:2] == ["SLOTS", "RUNTIME"]:
        raise MalformedSnapshot(lines[0][0], "names no hosts; take the snapshot with `bslots -l`")
    found: dict[str, int] = {}
    field = ""
    for number, text in lines:
        match = _FIELD.fullmatch(text)
        if match:
            field, text = match[1], match[2]
        elif text.strip().startswith(NONE):
            continue
        elif field != "HOSTS":
            raise MalformedSnapshot(
                number, "is neither SLOTS:, RUNTIME: nor HOSTS:; remove what `bslots -l` has not printed"
            )
        if field == "HOSTS":
            for word in text.split():
                host = _HOST.fullmatch(word)
                if host is None:
                    raise MalformedSnapshot(
                        number, f"{word!r} is no host with its slots; write for example 2*hostC"
                    )
                found[host[1]] = 1
    return found


BSLOTS = TextReader("bslots -l", _is_like, _read)
