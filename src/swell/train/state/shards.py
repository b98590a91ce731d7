"""DTensors as JSON and this process's part of each, and back.

Processes of other workers have other meshes of the same dimensions: a layout names those, and what is made of
it lies on this process's own mesh. The registry of these is filled as the process encodes its own state.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch

#: What placements are made of, by their types.
_ARGUMENTS = {
    "Shard": ["dim"],
    "_StridedShard": ["dim", "split_factor"],
    "Replicate": [],
    "Partial": ["reduce_op"],
}
_meshes: dict[object, Any] = {}  # of this process, by their dimensions, and by the names of these alone


class Layout(msgspec.Struct, frozen=True):
    """How the processes of a worker have a tensor among them."""

    shape: tuple[int, ...]  #: of the whole tensor
    stride: tuple[int, ...]
    placements: list[tuple[str, dict[str, Any]]]  #: types and arguments
    names: list[str] | None  #: of the mesh's dimensions
    sizes: tuple[int, ...]  #: of these

    @property
    def is_partial(self) -> bool:
        """Whether the processes have summands of it."""
        return any(kind == "Partial" for kind, _ in self.placements)


def layout_of(tensor: torch.Tensor) -> Layout:
    """How a DTensor lies. Raises TypeError: a placement is none of torch's own."""
    mesh, placements = tensor.device_mesh, tensor.placements  # type: ignore[attr-defined]
    names = mesh.mesh_dim_names and list(mesh.mesh_dim_names)
    layout = Layout(tensor.shape, tensor.stride(), [*map(_told, placements)], names, mesh.shape)
    _meshes.setdefault(str((names, *mesh.shape)), mesh)
    _meshes.setdefault(str(names), mesh)
    return layout


def assembled(part: torch.Tensor, layout: Layout | None) -> torch.Tensor:
    """The DTensor of which this process has the part. Raises LookupError: it has no such mesh."""
    if layout is None:
        return part
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    form = TensorMeta(torch.Size(layout.shape), layout.stride, part.dtype)
    spec = DTensorSpec(mesh_of(layout), _placements(layout), form)
    return DTensor(part, spec, requires_grad=False)  # `from_local` moves a copy in host memory to a GPU


def empty(layout: Layout, dtype: torch.dtype) -> torch.Tensor:
    """Room for what lies so, and for all of it in a process that has no such mesh."""
    from torch.distributed import tensor

    try:
        mesh = mesh_of(layout)
    except LookupError:
        return torch.empty(layout.shape, dtype=dtype)
    return tensor.empty(layout.shape, dtype=dtype, device_mesh=mesh, placements=_placements(layout))


def mesh_of(layout: Layout) -> Any:
    """This process's mesh of the same dimensions. Raises LookupError: it has none."""
    mesh = _meshes.get(str((layout.names, *layout.sizes)), _meshes.get(str(layout.names)))
    if mesh is None:
        raise LookupError(
            f"the state is divided over a mesh with the dimensions {layout.names}, and this script has none: "
            "run the script that wrote the state"
        )
    return mesh


def _told(placement: Any) -> tuple[str, dict[str, Any]]:
    kind = type(placement).__name__
    if kind not in _ARGUMENTS:
        raise TypeError(f"the placement {placement!r} of type {kind}")
    return kind, {name: getattr(placement, name) for name in _ARGUMENTS[kind]}


def _placements(layout: Layout) -> tuple[Any, ...]:
    from torch.distributed.tensor import placement_types

    return tuple(getattr(placement_types, kind)(**arguments) for kind, arguments in layout.placements)
