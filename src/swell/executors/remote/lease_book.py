"""The leases that this controller has granted, in a file that the next one reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swell.executors.awake_clock import AwakeClock
from swell.executors.leases.granted_leases import UNRECORDED, GrantedLeases, HostTerm
from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.local.agent.door import DoorError
from swell.executors.remote.join_tokens import TOKENS_FILE
from swell.wire.whole_files import sync, write_whole

LEASES_FILE = "leases.json"

log = logging.getLogger("swell.hosts")


def open_leases(folder: Path, times: LeaseTimes, time_s: Callable[[], float]) -> GrantedLeases:
    """Return the leases of a state folder. A grant is on the disk before it is sent.

    Args:
        time_s: the clock of `GrantedLeases`; it may go on while this process is stopped.

    Raises:
        DoorError: the file cannot be read.
        OSError: it cannot be made.
    """
    path = folder / LEASES_FILE

    def write(records: Sequence[HostTerm]) -> None:
        write_whole(path, msgspec.json.encode(records), is_synced=True)
        sync(folder)

    found = _read(path) if path.exists() else _of_lost(folder, times)
    return GrantedLeases(times, AwakeClock(time_s).now_s, write, found)


def _read(path: Path) -> list[HostTerm]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[HostTerm])
    except (OSError, msgspec.MsgspecError) as error:
        raise DoorError(
            f"{path} cannot be read ({error}), and it says which hosts may still run workers: "
            "restore it, or remove it: the next agent waits for the length of a lease then"
        ) from error


def _of_lost(folder: Path, times: LeaseTimes) -> list[HostTerm]:
    """Where there is no file. A platform that has given out no token has had no host."""
    if not (folder / TOKENS_FILE).exists():
        return []
    wait_s, path = times.wait_s, folder / LEASES_FILE
    log.warning("%s is gone, and hosts may have had leases: waiting %g s for what they may run", path, wait_s)
    lost = HostTerm(host=UNRECORDED, machine=UNRECORDED, term=0, lease_s=times.lease_s, is_over=False)
    return [lost]
