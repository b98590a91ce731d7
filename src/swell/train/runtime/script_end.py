"""Do for a script what an interpreter does when it ends, in a process that ends without its teardown.

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
    _flush()  # before what may take long
    atexit._run_exitfuncs()
    _flush()


def _flush() -> None:
    """Write what open files, and writers of curves, keep in memory."""
    files = [
        thing
        for thing in gc.get_objects()
        if issubclass(type(thing), _io._IOBase) or type(thing).__name__ == _WRITERS
    ]
    for file in files:
        try:
            file.flush()
        except ValueError:
            pass  # it is closed
        except Exception as error:  # noqa: BLE001 - of the script's own code; others are to be written
            sys.stderr.write(f"{file!r} was not written to its end: {error!r}\n")
