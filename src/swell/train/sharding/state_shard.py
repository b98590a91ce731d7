"""A shard of the training state: what this worker keeps of what the optimizer keeps, and of divided blocks.

The worker updates those elements and no others. Outside of a step the optimizer holds the script's parameters
and no state. During its step it holds pieces of them instead. So anything that a script does with parameters
and gradients that are not divided themselves (ZeRO-1) stays as it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, pairwise
from typing import Any

import torch

from swell.train.collective.group import Group
from swell.train.sharding.away import AWAY, AwayState, AwayTensor, opened, unasked
from swell.train.sharding.block_exchange import BlockExchange
from swell.train.sharding.divided_block import DividedBlock
from swell.train.sharding.layout import Interval, Layout, common, size
from swell.train.sharding.state_pieces import ParameterLayout, StatePiece, StatePieces, checked, is_sliced

#: Of a block's size, in its backward pass: parameters, gradient, and what is sent and comes of it.
NUM_BUFFERS = 4

ADDED = (
    "the script adds a parameter group to its optimizer, whose state is divided among the workers "
    "(shard=...); give the optimizer all parameters at the beginning, and set requires_grad later"
)


class StateShard:
    """This worker's shard; all of the state until it is told otherwise."""

    def __init__(self, optimizer: torch.optim.Optimizer, blocks: Sequence[DividedBlock] = ()) -> None:
        """`blocks`: whose parameters are divided as well."""
        self._optimizer, self.blocks = optimizer, blocks
        self._block_of = {id(parameter): block for block in blocks for parameter in block.parameters}
        replicated = [parameter for parameter in self._parameters() if not self.divides(parameter)]
        self.places = ParameterLayout(replicated, [block.parameters for block in blocks])
        self._pieces: StatePieces | None = None  # None: the optimizer itself keeps the whole state
        self._outside: list[list[torch.Tensor]] = []  # what its groups hold outside of the step under way
        self._tensors: list[torch.Tensor] = []  # what they hold within
        optimizer.register_step_pre_hook(lambda *_: self._enter())
        optimizer.register_step_post_hook(lambda *_: self.leave_step())
        optimizer.register_state_dict_pre_hook(lambda *_: self._check_asked())
        optimizer.register_load_state_dict_pre_hook(lambda *_: self._check_asked())
        self._num_groups = len(optimizer.param_groups)
        self.exchange: BlockExchange | None = None  #: see `connect`
        #: A whole state that is loaded stays in host memory until it is divided: the device may be too small.
        self.loads_to_host = False

    @property
    def is_whole(self) -> bool:
        """Whether this worker has all of the state, as all others have: the optimizer keeps it."""
        return self._pieces is None

    @property
    def pieces(self) -> StatePieces:
        """What this worker has, in the memory where it lies, cut as it is computed."""
        return self._pieces or StatePieces.of_whole(self.places, self._optimizer.state)

    @property
    def is_lost(self) -> bool:
        """Whether the step under way comes again, and a model that is divided is not as it is until then."""
        return self.exchange is not None and self.exchange.is_lost

    def lose_step(self) -> None:
        """The step under way comes again: what is gathered until the next one is zero."""
        if self.exchange is not None:
            self.exchange.is_lost = True

    @property
    def block_units(self) -> Sequence[Interval]:
        """Each block's stretch of the state."""
        return self.places.units[: len(self.blocks)]  # the last one is of all other parameters

    def divides(self, parameter: torch.Tensor) -> bool:
        """Whether each worker keeps a part of the parameter itself."""
        return id(parameter) in self._block_of

    def is_away(self, parameter: torch.Tensor) -> bool:
        """Whether the parameter's elements are not here, or just while its block is gathered."""
        block = self._block_of.get(id(parameter))
        return block is not None and block.is_away

    def whole_bytes(self) -> int:
        """Bytes of the whole state, estimated from this worker's part of it."""
        pieces = self.pieces
        return round(pieces.num_bytes() * self.places.num_elements / max(1, size(pieces.intervals)))

    def parameter_bytes(self) -> int:
        """Bytes of the whole parameters that are trained, which the workers hand round in each step."""
        return sum(parameter.nbytes for parameter in self.places.replicated if parameter.requires_grad)

    def block_bytes(self) -> int:
        """Bytes of the parameters that are divided."""
        return sum(block.num_elements * block.dtype.itemsize for block in self.blocks)

    # ---------------------------------------------------------------- it is laid out again
    def replace(self, pieces: StatePieces, is_whole: bool) -> None:
        """Keep these pieces from now on, and nothing else.

        Args:
            is_whole: all workers have everything, and there is one piece of each parameter.
        """
        self._pieces = None if is_whole else pieces
        if self._pieces is None:
            self._fill(pieces)
        else:
            self._empty()

    def connect(self, exchange: BlockExchange | None) -> None:
        """Say how blocks get what is not here; None: there are no others."""
        self.exchange = exchange
        for block in self.blocks:
            block.exchange = exchange
            if exchange is None:
                block.buffers.clear()

    def warm_up(self, num_workers: int) -> None:
        """Touch the memory that blocks use in turn, for the largest one among so many workers."""
        largest = max(self.blocks, key=lambda block: block.num_elements * block.dtype.itemsize)
        num_elements = -(-largest.num_elements // num_workers) * num_workers  # from each worker as many come
        with suppress(OSError):  # there is not as much: training will say so, or do with less
            buffers = [largest.empty(num_elements) for _ in range(NUM_BUFFERS)]  # all, before one is free
            for buffer in buffers:
                buffer.zero_()

    def hold_share(self, num_workers: int, num_holders: int) -> None:
        """Keep no more than one of so many workers would, and update no other elements: for a trial run.

        It is a share of each parameter, so that the whole state can be told from it.

        Args:
            num_holders: workers that have each part.
        """
        num_parts = min(num_holders, num_workers)
        shares = [
            (begin, begin + -(-(end - begin) * num_parts // num_workers))
            for begin, end in pairwise(self.places.begins)
        ]
        old, made = self.pieces, StatePieces(self.places, shares)
        made.make_room(old.forms(), old)
        self.replace(made, is_whole=False)
        if self.blocks:
            layout = Layout((made.intervals,), ((),))
            self.connect(BlockExchange(Group(self.blocks[0].device), layout, made, self.block_units))

    def hold_whole(self) -> None:
        """Keep everything as the only worker does, unless a share is all there is."""
        if not self.is_whole and self.pieces.intervals == self.places.everything:
            self.replace(self.pieces, is_whole=True)
            self.connect(None)

    def expect_whole(self) -> None:
        """A whole state is about to be loaded: make room for the parameters of all blocks."""
        for block in self.blocks:
            if block.is_away:
                room = torch.empty(block.num_elements, dtype=block.dtype, device=block.device)
                block.bring(block.split(room))

    def load(self, state_dict: dict[str, Any], is_divided: bool) -> None:
        """Give the optimizer a state dict: the whole of another state.

        Args:
            is_divided: it has hyperparameters only, and what is kept here stays.
        """
        if is_divided:
            kept = self._optimizer.state
            self._load(state_dict)
            self._optimizer.state = kept
        elif self.loads_to_host:
            parameters = self._parameters()
            state = {parameters[place]: kept for place, kept in state_dict["state"].items()}
            self._pieces = StatePieces.of_whole(self.places, state)
            self._load({**state_dict, "state": {}})
        else:
            self._pieces = None
            self._load(state_dict)

    def _load(self, state_dict: dict[str, Any]) -> None:
        with opened():
            self._optimizer.load_state_dict(state_dict)

    @contextmanager
    def filled(self, whole: StatePieces) -> Iterator[None]:
        """Within, the optimizer keeps this state, which is the whole one, so that it can be saved."""
        try:
            self._fill(whole)
            yield
        finally:
            self._empty()

    reading = staticmethod(opened)  #: within, Swell may ask the model for its state dict

    def hyperparameters(self) -> dict[str, Any]:
        """The optimizer's state dict without its state."""
        return {**self.state_dict(), "state": {}}

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, of what it keeps outside of a step: nothing where `is_whole` is False."""
        with opened():
            return self._optimizer.state_dict()

    def _fill(self, whole: StatePieces) -> None:
        """Let the optimizer keep what these pieces, one of each parameter, have."""
        state: defaultdict[torch.Tensor, Any] = defaultdict(dict)
        self._optimizer.state = state
        for piece in whole.pieces:
            parameter = self.places.parameters[piece.place]
            if piece.kept:
                state[parameter] = {
                    name: value.view(parameter.shape) if is_sliced(value) else value
                    for name, value in piece.kept.items()
                }
        values = iter(piece.value for piece in whole.pieces)
        for block in self.blocks:
            block.bring([value for value in islice(values, len(block.parameters)) if value is not None])

    def _empty(self) -> None:
        """The optimizer keeps nothing, nor do modules: all is in pieces."""
        self._optimizer.state = AwayState(dict)
        for block in self.blocks:
            block.send_away()

    # ---------------------------------------------------------------- a step
    def _enter(self) -> None:
        groups = self._optimizer.param_groups
        if len(groups) != self._num_groups:
            raise RuntimeError(ADDED)
        if self._pieces is None or self._outside:
            return
        if not isinstance(self._optimizer.state, AwayState):
            raise RuntimeError(AWAY)
        with unasked():
            for block in self.blocks:
                block.end_pass()  # raises where the script has changed gradients of which it has a part
        state: defaultdict[torch.Tensor, Any] = defaultdict(dict)
        self._optimizer.state = state
        self._outside = [group["params"] for group in groups]
        self._tensors = [self.places.elements(piece) for piece in self._pieces.pieces]
        group_of = {
            id(each): group for group, held in zip(groups, self._outside, strict=True) for each in held
        }
        for group in groups:
            group["params"] = []
        for piece, tensor in zip(self._pieces.pieces, self._tensors, strict=True):
            parameter = self.places.parameters[piece.place]
            tensor.grad = piece.gradient
            if piece.value is None and parameter.grad is not None:
                tensor.grad = self.places.elements(piece, parameter.grad.contiguous())
            if id(parameter) in group_of:  # else it is in a block, and never trained
                group_of[id(parameter)]["params"].append(tensor)
            if piece.kept:
                state[tensor] = piece.kept

    def leave_step(self) -> None:
        """The optimizer holds what the script gave it again. To be called as well where a step raised."""
        if self._pieces is None or not self._outside:
            return
        groups, state = self._optimizer.param_groups, self._optimizer.state
        for piece, tensor in zip(self._pieces.pieces, self._tensors, strict=True):
            piece.kept = checked(state.get(tensor, {}), tensor)
            piece.gradient = tensor.grad = None
        self._optimizer.state = AwayState(dict)
        for group, parameters in zip(groups, self._outside, strict=True):
            group["params"] = parameters
        self._outside, self._tensors = [], []

    # ---------------------------------------------------------------- gradients of blocks
    def take_gradients(self) -> None:
        """Each piece gets its part of the sum that its block has, or each parameter, where that is whole."""
        assert self.exchange is not None  # noqa: S101 - else the gradients are where they belong
        has_gradient = self.exchange.agree([flag for block in self.blocks for flag in block.has_gradient])
        flags = iter(has_gradient)
        for block, unit in zip(self.blocks, self.block_units, strict=True):
            has = list(islice(flags, len(block.parameters)))
            if self._pieces is None:
                _give_whole(block, has)
            else:
                _give_pieces(block, [piece for piece, _ in self._pieces.overlapping(unit)], has_gradient)
                block.stand_in()
            block.gradient = None

    @torch.no_grad()
    def clip_norm(
        self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float, error_if_nonfinite: bool
    ) -> torch.Tensor:
        """Do as torch's `clip_grad_norm_` does, where each worker has a part. Raises GroupBroken."""
        assert self._pieces is not None and self.exchange is not None  # noqa: S101 - else torch does it
        held, pieces = self._clipped(parameters)
        owned = [
            piece.gradient[begin - piece.begin : end - piece.begin]
            for piece in pieces
            if piece.gradient is not None
            for begin, end in common(((piece.begin, piece.end),), self.exchange.owned)
        ]
        own = torch.nn.utils.get_total_norm(owned, norm_type)
        parts = self.exchange.gather_numbers(own.to(self.blocks[0].device, torch.float64))
        rest = torch.nn.utils.get_total_norm(held, norm_type).to(parts).view(1)
        total: torch.Tensor = torch.linalg.vector_norm(torch.cat([parts, rest]), float(norm_type))
        if error_if_nonfinite and not total.isfinite():
            raise RuntimeError(
                f"the total norm of order {norm_type} of the gradients is {float(total)}, and "
                "clip_grad_norm_ was called with error_if_nonfinite=True"
            )
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for gradient in (*held, *_gradients_of(pieces)):
            gradient.mul_(factor.to(gradient))
        return total

    @torch.no_grad()
    def clip_value(self, parameters: Iterable[torch.Tensor], clip_value: float) -> None:
        """Do as torch's `clip_grad_value_` does."""
        held, pieces = self._clipped(parameters)
        for gradient in (*held, *_gradients_of(pieces)):
            gradient.clamp_(-float(clip_value), float(clip_value))

    def _clipped(self, parameters: Iterable[torch.Tensor]) -> tuple[list[torch.Tensor], list[StatePiece]]:
        """The gradients of those parameters that are whole, and the pieces of the others."""
        wanted = {id(parameter): parameter for parameter in parameters}
        whole = [parameter for parameter in wanted.values() if not self.divides(parameter)]
        held = [parameter.grad for parameter in whole if parameter.grad is not None]
        pieces = [] if self._pieces is None else self._pieces.pieces
        return held, [
            piece
            for piece in pieces
            if piece.value is not None and id(self.places.parameters[piece.place]) in wanted
        ]

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def _check_asked(self) -> None:
        """Raises RuntimeError where the script gets or sets a state dict of which this worker has a part."""
        if self._pieces is not None and not AwayTensor.is_open:
            raise RuntimeError(AWAY)


def _give_whole(block: DividedBlock, has_gradient: Sequence[bool]) -> None:
    """The parameters of a block get their gradients back, if they were taken."""
    if block.gradient is None:
        return
    for parameter, part, has in zip(block.parameters, block.split(block.gradient), has_gradient, strict=True):
        parameter.grad = part.view(parameter.shape) if has else None


def _give_pieces(block: DividedBlock, pieces: Sequence[StatePiece], has_gradient: Sequence[bool]) -> None:
    """The pieces of a block get their parts of its gradient; `has_gradient`: by place of the parameter."""
    parts: Sequence[torch.Tensor | None] = [None] * len(pieces)
    if block.gradient is not None:
        parts = block.gradient.split([piece.size for piece in pieces])
    for piece, part in zip(pieces, parts, strict=True):
        piece.gradient = part if has_gradient[piece.place] else None


def _gradients_of(pieces: Iterable[StatePiece]) -> list[torch.Tensor]:
    return [piece.gradient for piece in pieces if piece.gradient is not None]
