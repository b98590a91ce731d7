"""A state that the processes of a worker have among them, on its way and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.train.divided_jobs import WIDTH, made, same, train, whole
from tests.train.positions import (
    begin_together,
    end_together,
    fork_server_with_torch,  # noqa: F401 - a fixture
    together,
)
from torch import nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

from swell.train.collective.group import Group
from swell.train.collective.pieces import local
from swell.train.collective.process_groups import make_group
from swell.train.state.codec import EncodeError, decode, encode
from swell.train.state.drift import Replica
from swell.train.state.script_values import copied, mark
from swell.train.state.state_transfer import (
    NO_STATE,
    NOWHERE,
    MemberCard,
    allow_siblings,
    hand_state,
    own_place,
)
from swell.train.state.train_state import TrainState


class Column(Group):
    """The processes of one position of all workers."""

    process_group: Any = None

    def __init__(self, store: Path, rank: int, num_workers: int) -> None:
        super().__init__(torch.device("cpu"))
        self.rank, self.num_workers = rank, num_workers
        place = FileStore(str(store), num_workers)
        self.process_group = make_group(place, rank, num_workers, self.device, timedelta(seconds=60))


def _be_member(own: int, folder: Path, rank: int, is_near: bool) -> Any:
    allow_siblings()
    state = made("fsdp", rank, num_steps=3 if rank == 0 else 1)
    state.is_valid = False
    group = Column(folder / f"column-{own}", rank, 2)
    place = own_place() if is_near else NOWHERE
    cards = [MemberCard(3, place), MemberCard(NO_STATE, place)]
    before = {name: local(each).data_ptr() for name, each in state.model.named_parameters()}
    hand_state(group, state, cards, holders=[0])
    assert all(isinstance(each, DTensor) for each in state.model.parameters())
    assert before == {name: local(each).data_ptr() for name, each in state.model.named_parameters()}
    come = whole(state)
    train(state)
    return come, whole(state), Replica(state).checksums()


@pytest.mark.parametrize("is_near", [True, False], ids=["memory", "messages"])
def test_each_position_gets_the_state_of_the_same_position(tmp_path: Path, is_near: bool) -> None:
    folders = [tmp_path / f"worker-{rank}" for rank in range(2)]
    begun = [begin_together(2, folders[rank], _be_member, tmp_path, rank, is_near) for rank in range(2)]
    (one, two), (three, four) = (end_together(begun[rank], folders[rank]) for rank in range(2))
    assert one[2] == three[2] != two[2] == four[2]
    assert all(same(ours, theirs) for ours, theirs in zip(one[:2], three[:2], strict=True))


def _evaluate(own: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1))
    fully_shard(model)
    state = TrainState(model, torch.optim.SGD(model.parameters(), lr=0.1), None, {})
    state.undo.begin()
    state.undo.keep_all()
    with torch.no_grad():
        model(torch.ones(4, WIDTH))
    assert not any(isinstance(each, DTensor) for each in model.parameters())  # torch leaves them gathered
    state.forms.look(None)
    before = Replica(state).checksums()
    model(torch.ones(4, WIDTH)).sum().backward()
    state.optimizers[0].step()
    assert Replica(state).checksums() != before
    with torch.no_grad():
        model(torch.ones(4, WIDTH))
    state.undo.lose(None)
    state.undo.revert()
    assert Replica(state).checksums() == before


def test_a_step_is_undone_and_the_model_known_after_an_evaluation(tmp_path: Path) -> None:
    together(2, tmp_path, _evaluate)


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """Of this process as the last of four, the others of which there are none."""
    dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=4)
    yield init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    dist.destroy_process_group()


placements = st.one_of(
    st.builds(Shard, st.integers(0, 1)),
    st.builds(lambda dim: _StridedShard(dim, split_factor=2), st.integers(0, 1)),
    st.just(Replicate()),
    st.just(Partial("avg")),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(st.integers(0, 5), st.integers(0, 3)),
    own=st.tuples(placements, placements),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.complex64]),
)
def test_a_part_comes_back_as_part_of_the_same(
    mesh: DeviceMesh, shape: tuple[int, int], own: tuple[Any, Any], dtype: torch.dtype
) -> None:
    part = torch.ones(3, 2, dtype=dtype)[: shape[0] // 2]
    whole = DTensor.from_local(part, mesh, own, shape=torch.Size(shape), stride=(shape[1], 1))
    skeleton, tensors = encode({"one": [whole]})
    assert [tensor.data_ptr() for tensor in tensors] == [part.data_ptr()]
    [back] = decode(skeleton, tensors)["one"]
    assert (back.placements, back.shape, back.stride()) == (own, shape, whole.stride())
    assert back.device_mesh is mesh
    assert local(back).data_ptr() == part.data_ptr()
    assert mark(copied(whole)) == mark(whole)


def test_a_part_whose_values_only_its_script_knows_is_refused(mesh: DeviceMesh) -> None:
    class Strange(Partial):
        pass

    with pytest.raises(EncodeError, match=r"average.* Strange"):
        encode({"average": DTensor.from_local(torch.ones(2), mesh, [Strange(), Replicate()])})
