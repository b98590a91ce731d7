"""Process groups of torch that are made beside the default one, and then take its place.

`torch.distributed.init_process_group` makes a group and has it be the default one in a single call, which it
refuses while there is one. These are its steps apart: a group can be made in a thread while the main thread
works with another one. Its members meet through a store of torch's: one opens it, and the others connect.
"""

from __future__ import annotations

import socket
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
from torch.distributed import distributed_c10d

from swell.train.collective.interfaces import LOOPBACK

#: Of the default group. Groups that a script makes in it are counted from 1.
_NAME: Any = "0"  # later versions of torch have a type for names
FORM_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 3.0


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
