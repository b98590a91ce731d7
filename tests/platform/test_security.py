"""Who may ask the platform for something, and from where."""

from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest
from tests.platform.program import Program

from swell.store.folder import StateFolder


def test_only_the_owners_token_opens_the_api(swell: Program, tmp_path: Path) -> None:
    job = swell.submit(tmp_path, "--steps", 4000, "--workers", 2)
    pids = swell.await_training(job, 2, tmp_path).pids
    folder = StateFolder(swell.state)
    workers = (tmp_path / "token").read_text()
    assert len(workers) >= 32
    assert workers != folder.read_token()
    transport = httpx.HTTPTransport(uds=str(folder.socket))
    with httpx.Client(transport=transport, base_url="http://localhost") as http:
        for token, status in ((workers, 401), ("", 401), (folder.read_token(), 200)):
            for path in ("/v1/jobs", f"/v1/jobs/{job}", "/v1/cluster"):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                assert http.get(path, headers=headers).status_code == status
        cancel = http.post(f"/v1/jobs/{job}/cancel", headers={"Authorization": f"Bearer {workers}"})
        assert cancel.status_code == 401
    for pid in pids:
        environ = " ".join(psutil.Process(pid).environ().values())
        assert workers not in environ, "other users' tools show the environment a process began with"
        assert folder.read_token() not in environ
    assert swell.job(job).phase == "running"


@pytest.mark.slow
def test_nothing_is_for_other_eyes(swell: Program, tmp_path: Path) -> None:
    job = swell.submit(tmp_path, "--epochs", 1)
    swell.await_end(job)
    assert swell.state.stat().st_mode & 0o777 == 0o700
    for name in ("token", "agent.json", "api.sock"):
        assert (swell.state / name).stat().st_mode & 0o777 == 0o600
    assert (swell.state / "jobs" / job / "worker-0.log").stat().st_mode & 0o027 == 0


def test_nothing_listens_beyond_loopback_and_the_daemon_on_no_port(swell: Program, tmp_path: Path) -> None:
    job = swell.submit(tmp_path, "--steps", 4000, "--workers", 2)
    swell.await_training(job, 2, tmp_path)
    assert swell.daemon_pid is not None
    for pid in swell.processes():
        addresses = {
            connection.laddr.ip
            for connection in psutil.Process(pid).net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        assert addresses <= {"127.0.0.1"}, psutil.Process(pid).cmdline()
        if pid == swell.agent_pid:
            assert addresses == {"127.0.0.1"}
        if pid == swell.daemon_pid:
            assert addresses == set()
