"""What an interpreter does for its script when it ends, for a process that ends without its teardown.

That can crash while other threads run.
"""

from __future__ import annotations

import _io
import atexit
import gc
import sys

#: Writers of curves, of torch, tensorboardX and others, which keep events in memory. They are no files.
_WRITERS = "SummaryWriter"


def close_script() -> None:
    """Call what the script has registered for its end, and write what it has not written of open files."""
    _flush_all()  # before what may take long
    atexit._run_exitfuncs()
    _flush_all()


def _flush_all() -> None:
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, _io._IOBase) or kind.__name__ == _WRITERS:
            try:
                thing.flush()
            except ValueError:
                pass  # it is closed
            except Exception as error:  # noqa: BLE001 - of the script's own code or a full disk; others are to be written
                sys.stderr.write(f"{thing!r} was not written to its end: {error!r}\n")
