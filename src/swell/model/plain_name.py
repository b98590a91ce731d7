"""Names of hosts, racks and join tokens: they are printed, logged, and parts of longer names."""

from __future__ import annotations

import re

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
RULE = "a name has 1 to 40 letters, digits, `-` and `_`"
#: The head's own machine is called so, and so are its nodes.
RESERVED = re.compile(r"local|node[0-9]+")


def is_plain_name(name: str) -> bool:
    """Whether a rack or a join token may be called so."""
    return PLAIN_NAME.fullmatch(name) is not None


def why_no_host_name(name: str) -> str:
    """Why no host that joins can be called so; empty: one can."""
    if is_plain_name(name) and not RESERVED.fullmatch(name):
        return ""
    return (
        f"a host cannot be called {name!r}; {RULE}, and `local`, `node0`, `node1`, ... are the head's own: "
        "choose another one with --name"
    )
