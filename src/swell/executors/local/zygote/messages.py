"""What the agent and its zygote say to each other: JSON lines over a socket pair."""

from __future__ import annotations

import msgspec

from swell.wire.reports import Number


class Note(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between agent and zygote, one line of JSON."""


# ---------------------------------------------------------------- agent -> zygote
class Fork(Note, frozen=True, kw_only=True):
    """A new worker, named `key`. Answered by `Forked`, or by `Exited` alone if it could not be."""

    key: str
    environ: dict[str, str]  #: added to the zygote's own
    without: tuple[str, ...] = ()  #: names of variables of the zygote's own that are taken out
    workdir: str
    log_path: str  #: stdout and stderr are appended to it
    log_bytes: int = 0  #: of the job's logs together so many are kept; 0: all
    call: str  #: `package.module:function`, called with `entry` and `args`
    entry: str
    args: tuple[str, ...]
    #: Folders that are made for it: for what multiprocessing leaves behind (empty: the temporary directory),
    #: for a mirror of `workdir` to run in (empty: it runs in `workdir`). Where the first is no absolute path,
    #: both are in the zygote's temporary directory, and the zygote removes them.
    sockets: str = ""
    mirror: str = ""
    value_name: str = ""  #: lines of its output with a number under this name are read; empty: those of links


class Signal(Note, frozen=True, kw_only=True):
    """Signal for a worker; SIGKILL goes to its whole process group. No effect if the worker is gone."""

    key: str
    signal: int


Request = Fork | Signal


# ---------------------------------------------------------------- zygote -> agent
class Warm(Note, frozen=True, kw_only=True):
    """Everything is imported; forks are quick from now on."""


class Forked(Note, frozen=True, kw_only=True):
    """The process of the worker was started."""

    key: str
    pid: int


class Exited(Note, frozen=True, kw_only=True):
    """The process is gone, and so is all that it had started."""

    key: str
    status: int  #: exit code, or minus the signal, or NOT_STARTED
    message: str = ""  #: why, where it was not started or its zygote has ended


class ValuesPrinted(Note, frozen=True, kw_only=True):
    """What the newest such line of the worker's output says, and all lines with links; before `Exited`."""

    key: str
    values: dict[str, Number]
    links: dict[str, str] = {}


#: What is told of a worker.
WorkerAnswer = Forked | Exited | ValuesPrinted
Answer = Warm | WorkerAnswer
