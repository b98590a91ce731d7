"""A worker on a machine that has joined ends with the machine's lease, though nothing else ends it."""

from __future__ import annotations

import os
from contextlib import suppress

from swell.wire import environ
from swell.wire.lease_end import LeaseWatch

_WHY = b"the lease of this machine has ended, and the platform may run the job elsewhere: this worker ends\n"
_STDERR = 2


class Lease:
    """What the environment says of it; on the platform's own machine there is none."""

    def __init__(self) -> None:
        path = os.environ.get(environ.LEASE)
        self._watch = None if path is None else LeaseWatch(path)

    def check(self) -> None:
        """End this process, from any thread, if it may not train any longer. Cheap enough for each step.

        Nothing is saved: the job may have gone on from the checkpoint that there is.
        """
        if self._watch is not None and self._watch.is_over:
            os.set_blocking(_STDERR, False)  # what reads it may stand still as well
            with suppress(OSError):
                os.write(_STDERR, _WHY)
            os._exit(environ.EXIT_STOPPED)
