"""Names of hosts, racks and join tokens, which are printed, logged, and parts of longer names; and of kinds
of device, of which a gang has one.
"""

from __future__ import annotations

import re

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
NAME_RULE = "a name has 1 to 40 letters, digits, `-` and `_`"
#: The head's own machine is called so, and so are its nodes.
RESERVED = re.compile(r"local|node[0-9]+")
#: All control characters but a line's end and a tab.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_KIND_FORM = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:@/+(),-]{0,78}[A-Za-z0-9._:@/+(),-])?")
#: In a request: whichever kind of the platform suits the job.
ANY = "any"
KIND_RULE = "at most 80 letters, digits, spaces and . _ : @ / + ( ) , - and begins with a letter or digit"


def printable(text: str, control: re.Pattern[str] = _CONTROLS) -> str:
    r"""ESC is `\x1b`: what follows it would move the cursor, set a title or write the clipboard."""
    return control.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def is_plain_name(name: str) -> bool:
    """Whether a rack or a join token may be called so."""
    return PLAIN_NAME.fullmatch(name) is not None


def why_no_host_name(name: str) -> str:
    """Why no host that joins can be called so; empty: one can."""
    if is_plain_name(name) and not RESERVED.fullmatch(name):
        return ""
    return (
        f"a host cannot be called {name!r}; {NAME_RULE}, and `local`, `node0`, `node1`, ... are the head's "
        "own: choose another one with --name"
    )


def is_kind(name: str) -> bool:
    """Whether a kind may be called so; `cuda:NVIDIA H200` is one."""
    return _KIND_FORM.fullmatch(name) is not None
