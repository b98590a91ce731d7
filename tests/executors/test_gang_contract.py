"""The local executor's gangs keep the contract, on real processes that only pretend to train."""

from __future__ import annotations

from tests.executors.executor_gangs import ExecutorGangContract


class TestLocalGangs(ExecutorGangContract):
    pass
