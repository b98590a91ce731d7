"""Tables of nodes with a column for the name and one for the state, such as Cobalt's `nodelist`:

    Host    Queue    State    Backfill
    ==================================
    nid001  default  idle     -
    nid002  default  busy     -

The name is in `Host`, `Name` or `Node`, the state in `State` or `Status`. A node is idle whose state is
`idle`; it has one device.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.sim.node_snapshots.snapshot import IdleNodes, Lines, MalformedSnapshot, TextReader

NAMES, STATES = ("host", "name", "node"), ("state", "status")


def _is_like(lines: Lines) -> bool:
    words = lines[0][1].lower().split()
    return _place(words, NAMES) is not None and _place(words, STATES) is not None


def _place(words: Sequence[str], names: Sequence[str]) -> int | None:
    return next((at for at, word in enumerate(words) if word in names), None)


def _read(lines: Lines) -> IdleNodes:
    words = lines[0][1].lower().split()
    name, state = _place(words, NAMES) or 0, _place(words, STATES) or 0
    found: dict[str, int] = {}
    for number, text in lines[1:]:
        if not text.strip(" =-"):
            continue
        cells = text.split()
        if len(cells) <= max(name, state):
            raise MalformedSnapshot(number, f"has {len(cells)} columns where the first line has {len(words)}")
        if cells[state].lower() == "idle":
            found[cells[name]] = 1
    return found


NODELIST = TextReader("Cobalt's nodelist", _is_like, _read)
