"""Stores of torch through which the members of a group meet: one opens it, and the others connect."""

from __future__ import annotations

import socket
from datetime import timedelta
from functools import partial

from torch._C._distributed_c10d import TCPStore

from swell.train.collective.interfaces import LOOPBACK

FORM_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 3.0


def serve_store(address: str) -> tuple[TCPStore, str]:
    """A store that listens at this address only, and where; by itself it would listen on every interface."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    port, listens_at = listener.getsockname()[1], listener.detach()
    timeout = timedelta(seconds=FORM_TIMEOUT_S)
    open_store = partial(
        TCPStore, address, port, None, True, timeout, wait_for_workers=False, master_listen_fd=listens_at
    )
    try:
        store = open_store()
    except NotImplementedError:  # torch 2.6: its newer server opens a socket of its own only
        store = open_store(use_libuv=False)
    return store, f"{address}:{port}"


def connect_store(address: str) -> TCPStore:
    """The store of rank 0. Raises OSError at once if that is gone: a TCPStore would try for long."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise ConnectionError(f"no program listens at {address}: {error}") from error
    # torch asks for the name of the peer, and waits for a name server that does not answer.
    timeout_s = CONNECT_TIMEOUT_S if host == LOOPBACK else FORM_TIMEOUT_S
    store = TCPStore(host, int(port), timeout=timedelta(seconds=timeout_s))
    store.set_timeout(timedelta(seconds=FORM_TIMEOUT_S))
    return store
