from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.fake_control import FakeControl

from swell.api.connections import ApiServer, bind
from swell.api.server import create_app
from swell.api.unix_socket import listen
from swell.api.user_list import UserList
from swell.store.folder import ApiAddress, StateFolder


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeControl, StateFolder]]:
    """A real server over a fake platform, and the state folder it belongs to."""
    root = tmp_path_factory.mktemp("platform")
    control = FakeControl(root / "logs")
    folder = StateFolder(root / "state")
    folder.create()
    server = ApiServer(
        create_app(control, folder.ensure_token(), UserList(folder.path)), bind(), listen(folder.socket)
    )
    server.start()
    folder.write_endpoint(ApiAddress.of_this_process(server.port))
    yield control, folder
    server.stop()


@pytest.fixture
def control(shared: tuple[FakeControl, StateFolder]) -> FakeControl:
    return shared[0]


@pytest.fixture
def folder(shared: tuple[FakeControl, StateFolder]) -> StateFolder:
    return shared[1]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("from swell import train\n")
    return path
