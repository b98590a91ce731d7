"""Networks of machines, made by root and made with the rights of an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.machines.namespaces import NamespacesMissing, Network

MAKERS = ["root", "user"]


@pytest.fixture(scope="module", params=MAKERS)
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    """Of three machines, which a test leaves as they were."""
    with _made_by(request.param, 3) as made:
        yield made


@pytest.fixture(params=MAKERS)
def pair(request: pytest.FixtureRequest) -> Iterator[Network]:
    """Of two machines for one test."""
    with _made_by(request.param, 2) as made:
        yield made


@contextmanager
def _made_by(maker: str, num_machines: int) -> Iterator[Network]:
    try:
        made = Network(num_machines, as_user=maker == "user")
    except NamespacesMissing as error:
        pytest.skip(f"machines cannot be had by {maker} here: {error}")
    with made:
        yield made
