"""A checkpoint that the processes of a worker write together, as `torch.distributed.checkpoint` does.

Each writes its parts of the tensors, by names that plain torch finds them by: those of the model's own state
dict after `model.`. What is no tensor is a skeleton for each process, as bytes of a tensor. Only torch's
table of contents is a pickle, and no more than its own types is read of that.

Any number of processes reads it: torch cuts the tensors again, and no process has a whole one.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.distributed.tensor import distribute_tensor
from torch.futures import Future

from swell.train.collective.pieces import bytes_of, is_shard
from swell.train.collective.positions import Positions
from swell.train.state import codec
from swell.train.state.train_state import TrainState
from swell.wire.checkpoint_files import Manifest, describe

#: What names begin with: of the skeletons, before a position, and of what another process has differently.
_SKELETON, _OWN = "swell", "position-"
#: Modules whose types torch's table of contents is made of.
_TABLE = ("torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem", "pathlib")
_LAYOUT = ("torch.serialization", "_get_layout")
#: Makes what is to be filled, of a name in the state, a shape, a type, and how it lay among processes.
MakeRoom = Callable[[str, torch.Size, torch.dtype, codec.Layout | None], torch.Tensor]


class _Part(msgspec.Struct, frozen=True):
    """What one process has saved."""

    skeleton: str
    names: list[str]  #: of each tensor


# ---------------------------------------------------------------- writing
def write_part(draft: Path, skeleton: str, tensors: Sequence[torch.Tensor], positions: Positions) -> Manifest:
    """Write what this process has, while all others do. Return what it has written.

    Raises:
        OSError: a process could not, and all raise it.
    """
    layouts, paths = codec.layouts(skeleton), _paths(skeleton)
    names = [_name(path) for path in paths]
    identities = [_identity(tensor, layouts.get(slot)) for slot, tensor in enumerate(tensors)]
    owners = _owners([*zip(names, identities, strict=True)], positions)
    paths = [(*owner, *path) for owner, path in zip(owners, paths, strict=True)]
    part = msgspec.json.encode(_Part(skeleton, [*map(_name, paths)]))
    text = torch.frombuffer(bytearray(part), dtype=torch.uint8)
    tree: dict[Any, Any] = {_SKELETON: {str(positions.own): text}}
    for slot, (path, tensor) in enumerate(zip(paths, tensors, strict=True)):
        _put(tree, path, codec.assembled(tensor, layouts.get(slot)))
    try:
        save(tree, storage_writer=_Writer(draft), process_group=positions.group)
    except CheckpointException as error:  # no Exception by torch's will
        failure = next(iter(error.failures.values()))[0]
        raise failure if isinstance(failure, OSError) else OSError(str(failure)) from None
    own = [path.name for path in draft.glob(f"__{positions.own}_*")]
    return describe(draft, [*own, ".metadata"] if positions.is_first else own)


def _paths(skeleton: str) -> list[tuple[str | int, ...]]:
    """Where each tensor is in the state; no two of them make the same name."""
    paths: list[tuple[str | int, ...]] = []
    taken = set[str]()
    for slot, path in sorted(_slots_in(codec.slots(skeleton), ())):
        paths.append(path if _name(path) not in taken else (*path[:-1], f"{path[-1]}#{slot}"))
        taken.add(_name(paths[-1]))
    return paths


def _slots_in(tree: codec.Tree, path: tuple[str | int, ...]) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    if isinstance(tree, codec.Slot):
        yield tree, path
    elif isinstance(tree, Mapping | list | tuple):
        for key, item in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from _slots_in(item, (*path, key if isinstance(key, str | int) else repr(key)))


def _name(path: tuple[str | int, ...]) -> str:
    """As torch makes it."""
    return ".".join(map(str, path))


def _put(tree: dict[Any, Any], path: tuple[str | int, ...], tensor: torch.Tensor) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = tensor


def _identity(tensor: torch.Tensor, layout: codec.Layout | None) -> str:
    """Equal in the processes that have parts of one tensor, or the same whole one."""
    if layout is not None:
        return str(codec.mesh_of(layout).mesh.tolist())
    return hashlib.sha256(bytes_of(tensor).cpu().numpy().data).hexdigest()


def _owners(own: list[tuple[str, str]], positions: Positions) -> list[tuple[str, ...]]:
    """What the path of each begins with: nothing for the first one's with its name, a process for others.

    Args:
        own: name and identity of each.
    """
    first: dict[str, str] = {}
    positions_of: dict[tuple[str, str], int] = {}
    for position, text in enumerate(positions.gather_bytes(msgspec.json.encode(own))):
        for name, identity in msgspec.json.decode(text, type=list[tuple[str, str]]):
            first.setdefault(name, identity)
            positions_of.setdefault((name, identity), position)
    return [() if first[each[0]] == each[1] else (f"{_OWN}{positions_of[each]}",) for each in own]


class _Writer(FileSystemWriter):
    """Tells that a disk is full, which torch hides behind an error of its own."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        try:
            return super().write_data(plan, planner)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


# ---------------------------------------------------------------- reading
def read_whole(path: Path) -> dict[str, Any]:
    """The tree that the first process has saved, with all of the model, in host memory.

    Raises:
        OSError: it cannot be read.
    """

    def make_room(name: str, shape: torch.Size, dtype: torch.dtype, layout: object) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    tree = read_part(path, make_room)
    known: dict[str, Any] = _Reader(path).read_metadata().state_dict_metadata
    wanted = {name: name.removeprefix("model.") for name in known if name.startswith("model.")}
    others = {name: key for name, key in wanted.items() if key not in tree["model"]}  # of a pipeline's stages
    rooms = {name: make_room(name, known[name].size, known[name].properties.dtype, None) for name in others}
    _load(path, rooms)
    tree["model"] |= {others[name]: room for name, room in rooms.items()}
    return tree


def read_part(path: Path, make_room: MakeRoom, own: int = 0, num: int = 1) -> dict[str, Any]:
    """The tree that a process has saved, its tensors cut as it is to have them.

    Args:
        own: position of this process.
        num: processes of this worker. As many as have saved it get what each has saved, else all get what
            the first one has beside the tensors of all.
    """
    known: dict[str, Any] = _Reader(path).read_metadata().state_dict_metadata
    num_saved = sum(name.startswith(f"{_SKELETON}.") for name in known)
    name = f"{_SKELETON}.{own if num == num_saved else 0}"
    text = torch.empty(known[name].size, dtype=torch.uint8)
    _load(path, {name: text})
    part = msgspec.json.decode(text.numpy().tobytes(), type=_Part)
    layouts = codec.layouts(part.skeleton)
    rooms = {
        name: make_room(name, known[name].size, known[name].properties.dtype, layouts.get(slot))
        for slot, name in enumerate(part.names)
    }
    _load(path, rooms)
    tree: dict[str, Any] = codec.decode(part.skeleton, [*rooms.values()], are_whole=True)
    return tree


def room_in(state: TrainState) -> MakeRoom:
    """Have what is read lie as the state does: the model in its own memory, other tensors like parameters."""
    skeleton, tensors = state.encode()
    layouts, is_in_place = codec.layouts(skeleton), state.is_filled_in_place
    likes = state.parameters_by_path()
    for slot, path in enumerate(_paths(skeleton)):
        likes[_name(path)] = codec.assembled(tensors[slot], layouts.get(slot))
    state.is_torn = True

    def make_room(name: str, shape: torch.Size, dtype: torch.dtype, layout: Any) -> torch.Tensor:
        above = name = name.partition(".")[2] if name.startswith(_OWN) else name
        while above and above not in likes:
            above = above.rpartition(".")[0]
        like = likes.get(above)
        if like is None or like.shape != shape:
            return torch.empty(shape, dtype=dtype) if layout is None else codec.empty(layout, dtype)
        if is_in_place and above == name and name.startswith("model.") and like.dtype == dtype:
            return like
        return torch.empty_like(like, dtype=dtype) if is_shard(like) else torch.empty(shape, dtype=dtype)

    return make_room


def divided(tree: dict[str, Any], make_room: MakeRoom) -> dict[str, Any]:
    """A tree that one process has saved, its tensors cut as this one is to have them."""
    skeleton, tensors = codec.encode(tree)
    rooms = []
    for path, whole in zip(_paths(skeleton), tensors, strict=True):
        room: Any = make_room(_name(path), whole.shape, whole.dtype, None)
        if is_shard(room):  # all have read it: none is sent
            whole = distribute_tensor(whole, room.device_mesh, room.placements, src_data_rank=None)
        rooms.append(room.copy_(whole))
    cut: dict[str, Any] = codec.decode(skeleton, rooms, are_whole=True)
    return cut


def _load(path: Path, rooms: dict[str, torch.Tensor]) -> None:
    """Fill them, each process by itself. Raises OSError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells that a process reads alone
        try:
            load(dict(rooms), storage_reader=_Reader(path), no_dist=True)
        except CheckpointException as error:
            raise OSError(f"{path} cannot be read: {next(iter(error.failures.values()))[0]}") from None


class _Reader(FileSystemReader):
    """Takes no more of the table of contents than the types that it is made of."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with (Path(self.path) / ".metadata").open("rb") as file:
            metadata: Metadata = _TableUnpickler(file).load()
        if metadata.storage_meta is not None:
            metadata.storage_meta.load_id = self.load_id
        return metadata


class _TableUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if "." not in name else None
        is_type = isinstance(found, type) and (module in _TABLE or found is torch.Size)
        if not (is_type or isinstance(found, torch.dtype) or (module, name) == _LAYOUT):
            raise pickle.UnpicklingError(f"a checkpoint may not have {module}.{name}")
        return found
