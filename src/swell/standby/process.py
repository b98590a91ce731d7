"""A standby while it runs, and the folder in which it keeps its copy."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

from swell.executors.remote.certificate import UnusableCertificate, fingerprint_of, make_certificate
from swell.executors.remote.host_address import HostAddress, parse_address
from swell.executors.remote.join_token import write_token
from swell.executors.remote.token_list import TokenList, TokenListError
from swell.standby.receiver import CopyReceiver
from swell.store.errors import StateError, StateLocked
from swell.store.folder import StateFolder
from swell.store.lock import StateLock, find_holder

#: In the folder of a standby: the copy, which is a state folder of nobody, and the lock of who uses it.
COPY, LOCK = "copy", "standby.lock"
TOKEN = "standby"  # noqa: S105 - its name


class StandbyUnusable(Exception):
    """The folder or the address of a standby cannot be used; the text names the remedy."""


def lock_of(folder: Path) -> StateLock:
    """Acquire the lock of the folder's copy, to be held while the copy is used. Raises StandbyUnusable."""
    lock = StateLock(folder / LOCK)
    try:
        lock.acquire()
    except StateLocked as error:
        pid = find_holder(folder / LOCK)
        raise StandbyUnusable(
            f"{folder} is in use by a standby or by `swell restore` (pid {pid or 'unknown'}): end that one "
            "first (a standby: only if the head it copies is gone, or down)"
        ) from error
    except StateError as error:
        raise StandbyUnusable(str(error)) from error
    return lock


def serve(folder: Path, listen: str) -> None:
    """Until SIGINT or SIGTERM. Raises InvalidAddress, StandbyUnusable."""
    where = parse_address(listen)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_of(folder):
            receiver, listener = _made(folder), _listener(where)
            _tell_how(folder, HostAddress(where.host, listener.getsockname()[1]))
            _end_on_signals()
            receiver.serve(listener)
    except (UnusableCertificate, TokenListError) as error:
        raise StandbyUnusable(str(error)) from error
    except OSError as error:
        raise StandbyUnusable(
            f"{folder} cannot be used for a copy ({error.strerror}); make room on its disk, make it writable "
            "for you, or choose another one with --state"
        ) from error


def _made(folder: Path) -> CopyReceiver:
    """Make the receiver of a copy, with a certificate and a token, which is written once.

    Raises UnusableCertificate, TokenListError, OSError.
    """
    certificate, tokens = make_certificate(folder), TokenList(folder)
    if TOKEN not in tokens.names:
        write_token(StateFolder(folder).standby_token, tokens.add(TOKEN, fingerprint_of(certificate)))
    return CopyReceiver(folder / COPY, certificate, tokens)


def _listener(where: HostAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family)
    except OSError as error:
        raise StandbyUnusable(
            f"no head can reach a standby at {where} ({error.strerror or error}); it must be an address of "
            "this machine with a free port: choose another one with --listen"
        ) from error


def _tell_how(folder: Path, where: HostAddress) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    print(f"the copy is kept in {folder / COPY}")
    print(f"copy {StateFolder(folder).standby_token} into the state folder of the head:")
    print("who has it can write this copy")
    print(f"on the head: swell up --copy-to {where}", flush=True)


def _end_on_signals() -> None:
    """What was answered is on the disk; nothing else is lost by a sudden end."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
