"""A daemon of its own, which outlives the command that started it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from swell.api.client import Client, NoPlatform, connect_as_owner
from swell.api.errors import InvalidOption, NoAnswer
from swell.executors.local.devices import parse_devices
from swell.model.quantities import span
from swell.model.view import ClusterView
from swell.store.errors import StateUnwritable
from swell.store.folder import NOTICE_BYTES, StateFolder

#: Seconds a daemon may take to answer. It folds its journal often enough to handle it again in a few.
START_WITHIN_S = 60.0
LOOK_EVERY_S = 0.05

#: -P: a file `typer.py` in the current folder is not what we mean by that name.
PROGRAM = (sys.executable, "-P", "-m", "swell.cli.main")

#: Lines of its log shown when it dies without a word of its own.
TAIL_LINES = 20


def has_devices(devices: str, cores: float | None = None, rack: str = "") -> Callable[[ClusterView], bool]:
    """Whether the nodes are those that the options mean: till they join, those of last time are shown.

    Raises:
        InvalidOption: the devices are not to be had.
    """
    nodes = [local.node for local in parse_devices(devices, cores, rack)]
    expected = {node.name: (node.rack, node.kind, node.cores, *node.devices) for node in nodes}
    return lambda cluster: (
        expected
        == {
            node.name: (node.rack, node.kind, node.cores, *node.devices)
            for node in cluster.nodes
            if not node.is_joined
        }
    )


def launch(
    folder: StateFolder,
    options: Sequence[str],
    is_ready: Callable[[ClusterView], bool] = lambda cluster: bool(cluster.nodes) or cluster.hosts_may_join,
) -> Client:
    """Start `swell up --foreground` detached from this terminal, and connect to it when it is ready.

    Raises:
        StateError: the state folder cannot be used, or its disk is full.
        InvalidOption: it died or did not answer in time; the text is what it said.
    """
    folder.create()
    folder.log.touch(mode=0o600)
    with folder.log.open("ab") as log:
        begin = log.tell()
        process = start_detached(["up", "--foreground", "--state", str(folder.path), *options], log)
    try:
        return _answering(folder, process, is_ready, begin)
    except BaseException:
        process.terminate()  # no command would find it
        raise


def start_detached(words: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    """The program, in a session of its own. It reads nothing, and writes to `log`."""
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _answering(
    folder: StateFolder, process: subprocess.Popen[bytes], is_ready: Callable[[ClusterView], bool], begin: int
) -> Client:
    give_up_s = time.monotonic() + START_WITHIN_S
    while time.monotonic() < give_up_s:
        if process.poll() is not None:
            raise InvalidOption(_last_words(folder, begin))
        if client := _ready(folder, process.pid, is_ready):
            return client
        time.sleep(LOOK_EVERY_S)
    raise InvalidOption(f"the platform did not answer within {span(START_WITHIN_S)}; see {folder.log}")


def _ready(folder: StateFolder, pid: int, is_ready: Callable[[ClusterView], bool]) -> Client | None:
    """A client, once the daemon answers and has what it was asked for."""
    endpoint = folder.read_endpoint()
    if endpoint is None or endpoint.pid != pid:
        return None
    try:
        client = connect_as_owner(folder.path)
        cluster = client.cluster()
    except (NoPlatform, NoAnswer):
        return None  # it is about to answer, or to end
    if is_ready(cluster):
        return client
    client.close()
    if stalled := cluster.warnings.get("journal"):
        raise StateUnwritable(f"{stalled}; then `swell up`")
    return None


def _last_words(folder: StateFolder, begin: int) -> str:
    with folder.log.open("rb") as log:
        log.seek(begin)
        lines = log.read().decode("utf-8", "replace").splitlines()
    said = [place for place, line in enumerate(lines) if line.startswith("swell: ")]
    if said:
        return "\n".join(lines[said[-1] :]).removeprefix("swell: ")
    if not lines and shutil.disk_usage(folder.path).free < NOTICE_BYTES:
        return (
            f"the platform cannot start: the disk of {folder.path} is full; make room there, then `swell up`"
        )
    tail = "\n".join(lines[-TAIL_LINES:]) or "it said nothing"
    return f"the platform ended while starting; the end of {folder.log}:\n{tail}"
