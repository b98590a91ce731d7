"""Which all-reduce is measured: that of the devices, whatever else the machine has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

from swell.measure import all_reduce, training  # noqa: E402


class Chosen(Exception):
    """The backend that a group would have."""


@pytest.fixture
def argv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")

    def set_to(device: str) -> Path:
        monkeypatch.setattr("sys.argv", ["all_reduce.py", str(tmp_path / "times.json"), "64", device])
        return tmp_path / "times.json"

    return set_to


def test_workers_on_cores_of_a_machine_with_gpus_use_gloo_and_it_is_named(argv: Any) -> None:
    file = argv("cpu")
    all_reduce.main()
    told = json.loads(file.read_text())
    assert told["backend"] == "gloo" and len(told["times_s"]) == all_reduce.MEASURED
    assert not dist.is_initialized()


def test_workers_on_gpus_use_nccl(argv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(backend: str, device_id: object) -> None:
        raise Chosen(backend, str(device_id))

    monkeypatch.setattr(dist, "init_process_group", choose)
    argv("cuda:0")
    with pytest.raises(Chosen) as chosen:
        all_reduce.main()
    assert chosen.value.args == ("nccl", "cuda:0")


def test_a_page_of_workers_on_cores_names_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    training.write_versions(tmp_path, torch.device("cpu"))
    assert "gpu" not in json.loads((tmp_path / "versions.json").read_text())
