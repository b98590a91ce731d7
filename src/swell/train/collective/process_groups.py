"""Process groups of torch that are made beside the default one, and then take its place.

`torch.distributed.init_process_group` makes a group and has it be the default one in a single call, which it
refuses while there is one. These are its steps apart: a group can be made in a thread while the main thread
works with another one. Its members meet through a store of torch's: one opens it, and the others connect.

Its sockets tie this process to its peers, and another thread may cut them. A collective that waits for a dead
peer ends by itself only where the peer's death closes a connection. NCCL's does not, and gloo's does not
while a loader's process of some other peer holds a copy of it. Neither tells which sockets are its own. While
a group forms the script may open others, in the main thread. So members compare: a connection is the group's
if members made both ends of it while the group formed.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    PrefixStore,
    Store,
    TCPStore,
    _register_process_group,
    _unregister_all_process_groups,
)
from torch.distributed import ProcessGroup, distributed_c10d

from swell.wire import environ

LOOPBACK = "127.0.0.1"
LOOPBACK_INTERFACE = "lo"
GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"


class NoInterface(OSError):
    """No network interface of this machine has the address that its host names."""


def own_address() -> str:
    """The address at which workers on other hosts reach this one; loopback where there are none."""
    return os.environ.get(environ.ADDRESS, LOOPBACK)


def choose_interface(address: str) -> None:
    """Have gloo and NCCL use the interface with this address. Those that the user has chosen stay.

    Both are given an interface, and take the address of it.

    Raises:
        NoInterface: none has it.
    """
    missing = [name for name in (GLOO, NCCL) if name not in os.environ]
    if not missing:
        return
    interface = interface_of(address)
    for name in missing:
        is_prefix = name == NCCL and interface != LOOPBACK_INTERFACE  # NCCL takes eth10 for eth1, too
        os.environ[name] = f"={interface}" if is_prefix else interface


def interface_of(address: str) -> str:
    """The interface with this IP address. Raises NoInterface."""
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError as error:
        raise NoInterface(
            f"the host says that it is reached at {address!r}, which is no IP address"
        ) from error
    if wanted.is_loopback:
        return LOOPBACK_INTERFACE
    import psutil  # here, as only gangs over several hosts ask

    known = {
        one.address.partition("%")[0]: interface  # of a link-local one, its interface follows
        for interface, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family in (socket.AF_INET, socket.AF_INET6)
    }
    for own, interface in known.items():
        if ipaddress.ip_address(own) == wanted:
            return interface
    named = ", ".join(f"{own} ({interface})" for own, interface in known.items()) or "no address at all"
    raise NoInterface(
        f"no network interface of this machine has the address {address}, at which its host says that it is "
        f"reached; it has {named}: start the host with `--advertise` and one of these, or give the job "
        f"{GLOO} and {NCCL}"
    )


#: Of the default group. Groups that a script makes in it are counted from 1.
_NAME: Any = "0"  # later versions of torch have a type for names
FORM_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 3.0
#: Addresses of both ends of a connection: this process's, and the peer's; empty where there is none.
Ends = tuple[str, str]


def backend_of(device: torch.device) -> str:
    return "nccl" if device.type == "cuda" else "gloo"


def make_group(
    store: Store, rank: int, num_workers: int, device: torch.device, timeout: timedelta
) -> dist.ProcessGroup:
    """Connect to the other members. It is nobody's default group yet. Raises RuntimeError."""
    store = PrefixStore("default_pg", store)
    group = dist.ProcessGroup(store, rank, num_workers)
    is_nccl = backend_of(device) == "nccl"
    if is_nccl:
        torch.cuda.set_device(device)  # of this thread
        nccl = vars(dist)["ProcessGroupNCCL"]
        options = nccl.Options()
        options._timeout, options.group_name = timeout, _NAME
        backend, kind = nccl(store, rank, num_workers, options), dist.ProcessGroup.BackendType.NCCL
    else:
        backend = dist.ProcessGroupGloo(store, rank, num_workers, timeout)
        kind = dist.ProcessGroup.BackendType.GLOO
    backend._set_sequence_number_for_group()
    group._set_default_backend(kind)
    for device_type in _config_of(device).get_device_backend_map():
        group._register_backend(torch.device(device_type), kind, backend)
    group._set_group_name(_NAME)
    group._set_group_desc("default_pg")
    if is_nccl:  # now, not at the first sum, where its sockets would not be known as the group's
        group.bound_device_id = device
        backend.eager_connect_single_device(device)
    return group


def make_default(group: dist.ProcessGroup, store: Store, device: torch.device) -> None:
    """Have torch, the script and its libraries use this group where they name none."""
    world, tag = distributed_c10d._world, f"ptd:{_NAME}"
    world.pg_map[group] = (backend_of(device), store)
    world.pg_names[group] = _NAME
    world.pg_backend_config[group] = str(_config_of(device))
    world.pg_group_ranks[group] = {rank: rank for rank in range(group.size())}
    world.pg_to_tag[group] = tag
    for name in ("", tag):
        world.tags_to_pg.setdefault(name, []).append(group)
    _register_process_group(_NAME, group)
    distributed_c10d._update_default_pg(group)
    world.group_count = 1


def forget_all() -> list[dist.ProcessGroup]:
    """Take the default group, and those that the script made in it, from torch; they are to be shut down."""
    world = distributed_c10d._world
    groups = sorted(world.pg_names, key=lambda group: world.pg_names[group], reverse=True)
    distributed_c10d._update_default_pg(None)
    for known in (
        world.pg_map,
        world.pg_names,
        world.pg_group_ranks,
        world.pg_backend_config,
        world.pg_to_tag,
        world.tags_to_pg,
        world.pg_coalesce_state,
    ):
        known.clear()
    _unregister_all_process_groups()
    world.group_count = 0
    return groups


def _config_of(device: torch.device) -> distributed_c10d.BackendConfig:
    return distributed_c10d.BackendConfig(dist.Backend(backend_of(device)))


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


class PeerSockets:
    """The connections of one group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: frozenset[Ends] | None = None  # sockets that there were before the group began to form
        self._own: frozenset[Ends] = frozenset()
        self._group: ProcessGroup | None = None
        self.is_cut = False  #: the agent broke the group off

    def begin(self) -> None:
        """The group begins to form."""
        self._before = frozenset(ends for ends, _ in _sockets())

    def ends(self) -> list[Ends]:
        """Connections of this process that were made since then, also by others than the group."""
        return [ends for ends, _ in _sockets() if ends[1] and ends not in (self._before or ())]

    def tie(self, known: Collection[Ends], group: ProcessGroup | None) -> None:
        """The group has formed.

        Args:
            known: what `ends` is at its members.
            group: aborted with its connections, if it is given.
        """
        with self._lock:
            both = {(far, near) for near, far in known}
            self._own, self._before = frozenset(both.intersection(self.ends())), None
            self._group, is_late = group, self.is_cut
        if is_late:
            self.part()

    def release(self) -> None:
        """The group is left."""
        with self._lock:
            self._group, self._own = None, frozenset()

    def cut(self) -> None:
        """Make every wait for a peer fail, now and later. To be called from another thread."""
        self.is_cut = True
        self.part()

    def part(self) -> None:
        """What peers wait for from this worker fails."""
        with self._lock:
            for ends, copy in _sockets():
                if ends in self._own:
                    _shut_down(copy)
            group = self._group
        if group is not None:
            with suppress(RuntimeError):  # NCCL's way to say that the group was broken already
                group.abort()

    def end_connecting(self) -> None:
        """End the wait for a peer to connect, for NCCL's has no limit.

        What the script connects or listens on for the first time in these very moments ends as well.
        """
        with self._lock:
            for ends, copy in _sockets() if self._before is not None else ():
                if ends not in (self._before or ()):
                    _shut_down(copy)


def _sockets() -> Iterator[tuple[Ends, socket.socket]]:
    """Sockets of this process to Internet addresses, by their ends.

    Each is a copy, which stays what it is while other threads close and open others.
    """
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as copy:
                    if copy.family in (socket.AF_INET, socket.AF_INET6):
                        yield _ends_of(copy), copy


def _ends_of(copy: socket.socket) -> Ends:
    try:
        far = _address(copy.getpeername())
    except OSError:  # it is not connected
        far = ""
    return _address(copy.getsockname()), far


def _address(name: tuple[str, int]) -> str:
    return f"{name[0].removeprefix('::ffff:')} {name[1]}"


def _shut_down(copy: socket.socket) -> None:
    """Shut a connection down for all processes that hold it, not for this one alone."""
    with suppress(OSError):  # it is closed at the other end
        copy.shutdown(socket.SHUT_RDWR)
