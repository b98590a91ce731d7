"""What the processes of a worker save together is whole or not there, and read at any number of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.train.divided_jobs import made, same, train, whole
from tests.train.positions import together
from torch.distributed.checkpoint import load
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from swell.train import load_checkpoint
from swell.train.collective.positions import Positions
from swell.train.state.checkpoint import CheckpointStore, room_for_next
from swell.wire.checkpoint_files import checkpoints_in


def store(folder: Path, own: int, **options: Any) -> CheckpointStore:
    num = dist.get_world_size() if dist.is_initialized() else 1
    return CheckpointStore(folder, options.pop("num_kept", 2), 30.0, positions=Positions(own, num), **options)


def _save(own: int, folder: Path, layout: str) -> Any:
    state = made(layout, seed=1, num_steps=3)
    before = whole(state)
    path = store(folder, own).save(state)
    after = whole(state)
    assert same(before, after)
    train(state)
    return path, before, whole(state)


def _load(own: int, folder: Path, layout: str) -> Any:
    state = made(layout, seed=2, num_steps=0)
    path = store(folder, own).load_newest(state)
    found = whole(state)
    train(state)
    return path, found, whole(state)


@pytest.mark.parametrize(
    ("layout", "num_saved", "num_loaded"),
    [("fsdp", 2, 2), ("fsdp", 2, 4), ("fsdp", 4, 3), ("tp", 2, 4), ("tp", 4, 2), ("tp", 4, 4)],
)
def test_any_number_of_processes_goes_on_from_it(
    tmp_path: Path, layout: str, num_saved: int, num_loaded: int
) -> None:
    folder = tmp_path / "checkpoints"
    saved = together(num_saved, tmp_path / "saving", _save, folder, layout)
    loaded = together(num_loaded, tmp_path / "loading", _load, folder, layout)
    path, before, after = saved[0]
    for their_path, found, went_on in loaded:
        assert their_path == path
        assert same(found, before)
        assert all(torch.allclose(went_on[name], after[name], atol=1e-6) for name in after)


def test_one_process_that_divides_nothing_goes_on_from_it(tmp_path: Path) -> None:
    [(path, before, _), _] = together(2, tmp_path / "saving", _save, tmp_path / "all", "tp")
    state = made("plain", seed=2, num_steps=0)
    assert store(tmp_path / "all", 0).load_newest(state) == path
    assert same(whole(state), before)
    assert state.steps == 3
    assert room_for_next(path)[0] == sum(each.stat().st_size for each in path.iterdir())


def _load_by_torch(own: int, path: Path) -> Any:
    state = made("fsdp", seed=2, num_steps=0)
    model = state.model.state_dict()
    load({"model": model}, checkpoint_id=path)
    state.model.load_state_dict(model)
    return whole(state)


def test_plain_torch_reads_and_converts_it(tmp_path: Path) -> None:
    [(path, before, _), _] = together(2, tmp_path / "saving", _save, tmp_path / "all", "fsdp")
    parameters = {name: value for name, value in before.items() if " " not in name and name != "average"}
    for found in together(3, tmp_path / "loading", _load_by_torch, path):
        assert same({name: found[name] for name in parameters}, parameters)
    dcp_to_torch_save(path, tmp_path / "converted.pt")
    converted = torch.load(tmp_path / "converted.pt", weights_only=True)
    assert same(converted["model"], parameters)
    for given in (path, path.parent):
        read = load_checkpoint(given)
        assert same(read["model"], parameters)
        assert read["steps"] == 3
        assert torch.equal(read["optimizer"]["state"][0]["exp_avg"], before["exp_avg of 0.weight"])
        assert torch.equal(read["values"]["average"], before["average"])


def _damage_and_load(own: int, folder: Path, file: str, damage: str) -> Any:
    checkpoints = store(folder, own)
    state = made("fsdp", seed=1, num_steps=1)
    first = checkpoints.save(state)
    before = whole(state)
    train(state)
    newest = checkpoints.save(state)
    assert [path for _, path in checkpoints_in(folder)] == [newest, first]
    dist.barrier()
    if own == 0:
        target = newest / file
        content = target.read_bytes()
        if damage == "lost":
            target.unlink()
        else:
            target.write_bytes(content[:-1] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    dist.barrier()
    told: list[str] = []
    checkpoints.tell_damaged = lambda message, sound_steps: told.append(message)
    path = checkpoints.load_newest(state)
    return path == first, same(whole(state), before), told, state.steps


@pytest.mark.parametrize("damage", ["cut", "changed", "lost"])
@pytest.mark.parametrize("file", ["__1_0.distcp", ".metadata", "manifest.json"])
@pytest.mark.filterwarnings("ignore:the checkpoint")
def test_a_damaged_one_is_moved_away_and_the_one_before_it_read(
    tmp_path: Path, file: str, damage: str
) -> None:
    first, second = together(2, tmp_path / "worker", _damage_and_load, tmp_path / "all", file, damage)
    assert first[:2] == second[:2] == (True, True)
    assert first[3] == second[3] == 1
    [told] = first[2]
    assert "step 2 is damaged" in told
    assert [path.name for path in (tmp_path / "all" / "damaged").iterdir()]
    assert len(checkpoints_in(tmp_path / "all")) == 1
