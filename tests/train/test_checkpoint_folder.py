"""What the processes of a worker save together is whole or not there, and read at any number of them."""

from __future__ import annotations

import math
import os
import random
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.eventually import PATIENCE_S
from tests.train.divided_jobs import made, same, train, whole
from tests.train.positions import (
    await_ends,
    begin_together,
    fork_server_with_torch,  # noqa: F401 - a fixture
    together,
)
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import load

from swell.train import load_checkpoint
from swell.train.collective.positions import Positions
from swell.train.state.checkpoint import CheckpointStore, SaveError, room_for_next
from swell.wire.checkpoint_files import checkpoints_in, copy_checkpoint, is_whole, steps_in


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


MORE = [("fsdp", 2, 2), ("fsdp", 4, 3), ("tp", 2, 4), ("tp", 4, 4)]


@pytest.mark.parametrize(
    ("layout", "num_saved", "num_loaded"),
    [("fsdp", 2, 4), ("tp", 4, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)],
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


def _load_file(own: int, folder: Path, layout: str) -> Any:
    if own == 0 and not folder.exists():
        state = made("plain", seed=1, num_steps=3)
        CheckpointStore(folder, 2, 30.0).save(state)
        before = whole(state)
    dist.barrier()
    path, found, _ = _load(own, folder, layout)
    return path.suffix, own or same(found, before)


def test_several_processes_go_on_from_what_one_has_saved(tmp_path: Path) -> None:
    assert together(4, tmp_path / "w", _load_file, tmp_path / "all", "tp")[0] == (".pt", True)


def test_what_processes_have_differently_is_kept_for_each(tmp_path: Path) -> None:
    saved = together(2, tmp_path / "saving", _save, tmp_path / "all", "stages")
    loaded = together(2, tmp_path / "loading", _load, tmp_path / "all", "stages")
    assert all(same(before, found) for (_, before, _), (_, found, _) in zip(saved, loaded, strict=True))
    model = load_checkpoint(tmp_path / "all")["model"]
    assert sorted(model) == [f"stage{own}.{name}" for own in (0, 1) for name in ("bias", "weight")]
    assert all(
        torch.equal(model[f"stage{own}.weight"], saved[own][1][f"stage{own}.weight"]) for own in (0, 1)
    )


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
    (tmp_path / "another").mkdir()
    for given in (path, path.parent, copy_checkpoint(path, tmp_path / "another")):
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


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("__1_0.distcp", "changed"),
        ("__0_0.distcp", "lost"),
        (".metadata", "changed"),
        ("manifest.json", "cut"),
        ("manifest.json", "lost"),
    ],
)
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


CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime", "shutil.rmtree"}


def _save_until(own: int, folder: Path, victim: int, most_changes: float) -> int:
    """Save twice. The victim is killed before a change of the folder that is one more than so many."""
    checkpoints = store(folder, own, num_kept=1)
    state = made("fsdp", seed=1, num_steps=1)
    checkpoints.save(state)
    train(state)
    num_changes = 0

    def see(event: str, args: tuple[Any, ...]) -> None:
        nonlocal num_changes
        is_written = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in CHANGES or is_written) and str(folder) in str(args[0]):
            if own == victim and num_changes >= most_changes:
                os.kill(os.getpid(), signal.SIGKILL)
            num_changes += 1

    dist.barrier()
    sys.addaudithook(see)
    with suppress(SaveError):
        checkpoints.save(state)
    return num_changes


def _is_sound_after(folder: Path, least_steps: int = 1) -> None:
    found = checkpoints_in(folder)
    assert all(is_whole(path, digest) for digest, path in found)
    assert steps_in(found[0][1]) >= least_steps
    assert load_checkpoint(folder)["steps"] == steps_in(found[0][1])
    checkpoints = store(folder, 0, num_kept=1)
    state = made("plain", seed=2, num_steps=0)
    assert checkpoints.load_newest(state) == found[0][1]
    state.steps = 9
    path = checkpoints.save(state)  # removes what was left
    assert [*folder.iterdir()] == [path]


@pytest.mark.parametrize("most", [2, pytest.param(math.inf, marks=pytest.mark.slow)])
def test_a_kill_before_any_change_of_the_folder_leaves_a_sound_one(tmp_path: Path, most: float) -> None:
    nums = together(2, tmp_path / "counting", _save_until, tmp_path / "counted", 0, math.inf)
    assert min(nums) >= 1
    for victim, num in enumerate(nums):
        for number in range(num) if most > num else {num // 2, num - 1}:
            place, folder = tmp_path / f"{victim}-{number}", tmp_path / f"all-{victim}-{number}"
            statuses = await_ends(begin_together(2, place, _save_until, folder, victim, number))
            assert statuses[victim] == -signal.SIGKILL
            assert statuses[1 - victim] in (0, 1)  # it is told, and does not hang
            _is_sound_after(folder)


def _save_on(own: int, folder: Path) -> None:
    checkpoints = store(folder, own)
    state = made("fsdp", seed=1, num_steps=1)
    while True:
        if checkpoints.is_idle:
            checkpoints.begin(state)
        elif (path := checkpoints.wait()) is not None and own == 0:
            (folder.parent / "told").write_text(str(steps_in(path)))
        train(state)


@pytest.mark.parametrize("num_kills", [2, pytest.param(40, marks=pytest.mark.soak)])
@pytest.mark.timeout(900)
def test_a_kill_at_any_moment_leaves_a_sound_one(tmp_path: Path, num_kills: int) -> None:
    draws = random.Random(0)
    for number in range(num_kills):
        folder = tmp_path / f"{number}" / "all"
        processes = begin_together(2, folder.parent, _save_on, folder)
        deadline_s = time.monotonic() + PATIENCE_S
        while not (folder.parent / "told").exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        time.sleep(draws.random() * 0.3)  # any moment of a save
        processes[victim := draws.randrange(2)].kill()
        steps = int((folder.parent / "told").read_text() or "1")
        assert await_ends(processes)[1 - victim] == 1  # the other one fails, and does not hang
        _is_sound_after(folder, steps)


def _save_with_a_full_disk(own: int, folder: Path, full: int) -> Any:
    checkpoints = store(folder, own)
    state = made("fsdp", seed=1, num_steps=1, width=100)
    first = checkpoints.save(state)
    train(state)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if own == full:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    messages = []
    for _ in range(2):
        checkpoints.begin(state)
        try:
            while checkpoints.wait() is None:
                checkpoints.begin(state)
        except SaveError as error:
            messages.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    dist.barrier()
    left = [*folder.iterdir()]
    dist.barrier()
    checkpoints.begin(state)
    return messages, left == [first], steps_in(checkpoints.wait() or first)


@pytest.mark.parametrize("full", [0, 1])
def test_a_disk_that_is_full_for_one_fails_the_save_of_all(tmp_path: Path, full: int) -> None:
    for messages, is_left, steps in together(
        2, tmp_path / "w", _save_with_a_full_disk, tmp_path / "all", full
    ):
        assert len(messages) == 2
        assert all(
            "no checkpoint at step 2" in each and "File too large; make room" in each for each in messages
        )
        assert is_left
        assert steps == 2


class Unsavable:
    def state_dict(self) -> dict[str, Any]:
        return {"handle": object()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError


def _save_what_one_cannot(own: int, folder: Path) -> Any:
    checkpoints = store(folder, own)
    state = made("fsdp", seed=1, num_steps=1)
    if own == 1:
        state.objects["reader"] = Unsavable()
    told = []
    for save in (checkpoints.save, checkpoints.begin, checkpoints.save_once):
        with pytest.raises(SaveError, match="'handle'") as caught:
            save(state)
        told.append(str(caught.value))
    if own == 1:
        del state.objects["reader"]
    with torch.no_grad():
        state.model.load_state_dict({k: v * math.nan for k, v in state.model.state_dict().items()})
    first = checkpoints.save_once(state)  # there is no better one
    state.steps = 2
    assert checkpoints.save(state) == first
    assert checkpoints.save_once(made("fsdp", seed=1, num_steps=1)) is None
    return told, first


def test_what_one_cannot_save_none_does(tmp_path: Path) -> None:
    one, two = together(2, tmp_path / "worker", _save_what_one_cannot, tmp_path / "all")
    assert one == two


def _save_behind(own: int, folder: Path) -> Any:
    checkpoints = store(folder, own)
    state = made("fsdp", seed=1, num_steps=1)
    before, path = whole(state), None
    steps = state.steps
    while path is None:
        if checkpoints.is_idle:
            before, steps = whole(state), state.steps
            checkpoints.begin(state)
        train(state)
        path = checkpoints.wait()
    assert steps_in(path) == steps < state.steps
    checkpoints.load_newest(state)
    return same(whole(state), before), state.steps == steps


def test_what_is_saved_behind_training_is_the_state_at_the_beginning(tmp_path: Path) -> None:
    assert together(2, tmp_path / "worker", _save_behind, tmp_path / "all") == [(True, True)] * 2
