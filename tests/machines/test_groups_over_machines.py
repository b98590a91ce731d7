"""Workers of two machines are one group, by the address that each machine has."""

from __future__ import annotations

import pytest
from tests.machines.forked import Forked
from tests.machines.namespaces import Machine, Network, why_not

from swell.wire import environ

#: torch asks for the name of each peer. No machine has a name server, and a lookup would take 10 s.
OF_TORCH = {"OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}


def skip_without_machines() -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")


def skip_without_gloo() -> None:
    distributed = pytest.importorskip("torch").distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")


def start_worker(machine: Machine, rank: int, num_ranks: int, address: str) -> Forked:
    from tests.machines.spans import work

    return Forked(machine, work, rank, num_ranks, environ={environ.ADDRESS: address, **OF_TORCH})


@pytest.mark.slow
def test_workers_of_two_machines_sum_and_hand_a_state_on_over_the_wire_once() -> None:
    """By the address of each machine; a neighbour of one that had it takes it from memory."""
    skip_without_machines()
    skip_without_gloo()
    with Network(2) as network:
        machines = [network[0], network[0], network[1], network[1]]
        workers = [start_worker(machine, rank, 4, machine.address) for rank, machine in enumerate(machines)]
        store = workers[0].hear()
        assert store.startswith(f"{network[0].address}:")
        for worker in workers[1:]:
            worker.tell(store)
        told = [worker.result() for worker in workers]
    assert told == ["10", "10 memory", "10", "10"]
