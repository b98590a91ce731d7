"""A program that tries which namespaces this user can make here. It changes nothing for any other process.

    python -I -S namespace_probe.py

It prints an error number for each kind as JSON; 0: it can be made. A kind that this user has no right to make
is tried within a user namespace.
"""

from __future__ import annotations

import ctypes
import json
import os

_USER = 0x10000000
#: Flags of unshare(2).
_FLAGS = {"user": _USER, "net": 0x40000000, "pid": 0x20000000, "mount": 0x00020000}


def main() -> None:
    print(json.dumps({kind: _errno_of(flag) and _errno_of(flag | _USER) for kind, flag in _FLAGS.items()}))


def _errno_of(flags: int) -> int:
    """Return the error number of making these namespaces; 0: made. A child does it, and they end with it."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(ctypes.get_errno() if libc.unshare(flags) else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
