"""A copy of the training state in host memory, from which a checkpoint is written while training goes on.

Memory is copied as it lies, storage by storage: the file is the same as one written from the state itself.
The buffers are kept, since the first use of new memory takes several times as long as a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil
import torch

from swell.wire.group_places import MACHINE, UNIFIED, GroupFiles, group_places, numbers

#: Memory that is left to the script and to other processes when buffers are allocated.
SPARE_BYTES = 256 << 20
#: Of a copy to buffers that were used before, about: what is expected of the first save of a job.
COPIED_BYTES_PER_S = 4e9

#: Files with a limit and with what is used of it, by controller.
_MEMORY_FILES = {
    UNIFIED: ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}

#: Bytes of a buffer, and whether it is pinned: a GPU copies to it by itself.
Form = tuple[int, bool]


class Stage:
    """Buffers for one copy, one for each storage of the state."""

    def __init__(self) -> None:
        self._rooms: list[torch.Tensor] = []
        self._forms: list[Form] = []
        self._copied: torch.cuda.Event | None = None

    def has_room(self, forms: Sequence[Form]) -> bool:
        return self._forms == forms

    def make_room(self, forms: Sequence[Form]) -> None:
        """Allocate buffers and touch their memory, in place of those that there were.

        Raises:
            MemoryError: there is no memory for them.
        """
        self._rooms, self._forms = [], []
        needed_bytes = sum(num_bytes for num_bytes, _ in forms)
        if (free := free_bytes()) < needed_bytes + SPARE_BYTES:
            raise MemoryError(
                f"a copy of the state takes {needed_bytes >> 20} MiB, and {free >> 20} MiB are free"
            )
        try:
            self._rooms = [torch.zeros(size, dtype=torch.uint8, pin_memory=pins) for size, pins in forms]
        except RuntimeError as error:
            raise MemoryError(f"a copy of the state takes {needed_bytes >> 20} MiB: {error}") from error
        self._forms = list(forms)

    @torch.no_grad()
    def copy(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copy tensors, for which `has_room`; views of one storage are views of one buffer again.

        A GPU copies before it does what is submitted to it later, so that an update cannot change what is
        being copied; `await_copies` waits for it.
        """
        storages = _storages(tensors)
        is_on_gpu = any(storage.device.type == "cuda" for storage in storages.values())
        stream = torch.cuda.Stream() if is_on_gpu else None
        if stream is not None:  # it begins after what was submitted until now
            stream.wait_stream(torch.cuda.current_stream())
        copies = dict[int, torch.Tensor]()
        with torch.cuda.stream(stream):
            for room, (key, storage) in zip(self._rooms, storages.items(), strict=True):
                source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
                copies[key] = room.copy_(source, non_blocking=True)
        if stream is not None:
            torch.cuda.current_stream().wait_stream(stream)
            self._copied = stream.record_event()
        return [_view(tensor, copies) for tensor in tensors]

    def await_copies(self) -> None:
        """Wait until the last copy is made. To be called in any thread."""
        if self._copied is not None:
            self._copied.synchronize()


def forms_of(tensors: Iterable[torch.Tensor]) -> list[Form]:
    """The buffers that a copy of these tensors needs."""
    return [(storage.nbytes(), storage.device.type == "cuda") for storage in _storages(tensors).values()]


def free_bytes(files: GroupFiles = MACHINE) -> int:
    """Memory that this process may allocate: what the machine and the control groups around it have left."""
    free = [psutil.virtual_memory().available]
    try:
        places = group_places(files)
    except OSError:  # a sandbox hides them
        places = {}
    for controller in places.keys() & _MEMORY_FILES.keys():
        for folder in places[controller].folders:
            free += _left(files, folder, *_MEMORY_FILES[controller])
    return min(free)


def _left(files: GroupFiles, folder: Path, limit: str, used: str) -> list[int]:
    """What a control group leaves of its limit; nothing if it has none. Caches of files count as free."""
    try:
        limit_text = files.read(folder / limit).strip()
        if limit_text == "max":
            return []
        cached = numbers(files.read(folder / "memory.stat")).get("inactive_file", 0)
        return [int(limit_text) - int(files.read(folder / used)) + cached]
    except (OSError, ValueError):  # the topmost group has no such file
        return []


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, torch.UntypedStorage]:
    """Each once, in the order of the tensors, by what `torch.save` knows it by."""
    plain = (tensor.untyped_storage() for tensor in tensors if _is_plain(tensor))
    return {storage._cdata: storage for storage in plain}


def _view(tensor: torch.Tensor, copies: dict[int, torch.Tensor]) -> torch.Tensor:
    if not _is_plain(tensor):
        return tensor.clone()
    memory = copies[tensor.untyped_storage()._cdata].untyped_storage()
    view = torch.empty(0, dtype=tensor.dtype)
    view.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())
    return view.conj() if tensor.is_conj() else view


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether memory, shape and strides say all of it: it is no subclass, and not negated lazily."""
    return type(tensor) is torch.Tensor and not tensor.is_neg()
