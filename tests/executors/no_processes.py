"""Imported by a zygote that is to find that its user has as many processes as are allowed."""

from __future__ import annotations

import errno
import os


def refuse() -> int:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


os.fork = refuse
