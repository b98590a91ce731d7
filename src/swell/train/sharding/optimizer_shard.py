"""An optimizer of whose state this worker keeps a part (ZeRO-1): it updates those elements and no others.

Outside of a step the optimizer holds the script's parameters and no state. During its step it holds pieces of
them instead. So anything that a script does with parameters and gradients stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch

from swell.train.sharding.intervals import size
from swell.train.sharding.state_pieces import ParameterPlaces, StatePieces, checked, is_sliced

ADDED = (
    "the script adds a parameter group to its optimizer, whose state is divided among the workers "
    "(shard='optimizer'); give the optimizer all parameters at the beginning, and set requires_grad later"
)


class OptimizerShard:
    """This worker's part; all of the state until it is told otherwise."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self.places = ParameterPlaces(self._parameters())
        self._pieces: StatePieces | None = None  # None: the optimizer itself keeps the whole state
        self._outside: list[list[torch.Tensor]] = []  # what its groups hold outside of the step under way
        self._tensors: list[torch.Tensor] = []  # what they hold within
        optimizer.register_step_pre_hook(lambda *_: self._enter())
        optimizer.register_step_post_hook(lambda *_: self.leave_step())
        optimizer.register_state_dict_pre_hook(lambda *_: self._check_asked())
        self._is_asked = False  # for its state dict, by Swell
        self._num_groups = len(optimizer.param_groups)
        #: A whole state that is loaded stays in host memory until it is divided: the device may be too small.
        self.loads_to_host = False

    @property
    def num_elements(self) -> int:
        return self.places.num_elements

    @property
    def is_whole(self) -> bool:
        """Whether this worker has all of the state."""
        return self._pieces is None

    @property
    def pieces(self) -> StatePieces:
        """What this worker has, in the memory where it lies, cut as it is computed."""
        return (
            StatePieces.of_whole(self.places, self._optimizer.state) if self._pieces is None else self._pieces
        )

    def whole_bytes(self) -> int:
        """Bytes of the whole state, estimated from this worker's part of it."""
        pieces = self.pieces
        return round(pieces.num_bytes() * self.num_elements / max(1, size(pieces.intervals)))

    def parameter_bytes(self) -> int:
        """Bytes of the parameters that are trained, which the workers hand round in each step."""
        return sum(parameter.nbytes for parameter in self.places.parameters if parameter.requires_grad)

    # ---------------------------------------------------------------- it is laid out anew
    def replace(self, pieces: StatePieces) -> None:
        """Keep these pieces from now on, and nothing else. All of the state: it has one of each parameter."""
        self._pieces = None if pieces.intervals == self.places.everything else pieces
        if self._pieces is None:
            self._fill(pieces)
        else:
            self._optimizer.state.clear()

    def hold_share(self, num_workers: int) -> None:
        """Keep no more than one of so many workers would, and update no other elements: for a trial run.

        It is a share of each parameter, so that the whole state can be told from it.
        """
        if self._pieces is None and num_workers > 1:
            begins = self.places.begins
            shares = [(begin, begin + -(-(end - begin) // num_workers)) for begin, end in pairwise(begins)]
            made = StatePieces(self.places, shares)
            made.make_room(self.pieces.forms())
            made.take(self.pieces)
            self.replace(made)

    def load(self, state_dict: dict[str, Any], is_divided: bool) -> None:
        """Give the optimizer a state dict: the whole of another state.

        Args:
            is_divided: it has hyperparameters only, and what is kept here stays.
        """
        if is_divided:
            kept = dict(self._optimizer.state)
            self._optimizer.load_state_dict(state_dict)
            self._optimizer.state.update(kept)
        elif self.loads_to_host:
            parameters = self.places.parameters
            state = {parameters[place]: kept for place, kept in state_dict["state"].items()}
            self._pieces = StatePieces.of_whole(self.places, state)
            self._optimizer.load_state_dict({**state_dict, "state": {}})
        else:
            self._pieces = None
            self._optimizer.load_state_dict(state_dict)

    @contextmanager
    def filled(self, whole: StatePieces) -> Iterator[None]:
        """Within, the optimizer keeps this state, which is the whole one, so that it can be saved."""
        self._fill(whole)
        try:
            yield
        finally:
            self._optimizer.state.clear()

    def hyperparameters(self) -> dict[str, Any]:
        """The optimizer's state dict without its state."""
        return {**self.state_dict(), "state": {}}

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, of what it keeps outside of a step: nothing where `is_whole` is False."""
        self._is_asked = True
        try:
            return self._optimizer.state_dict()
        finally:
            self._is_asked = False

    def _fill(self, whole: StatePieces) -> None:
        """Let the optimizer keep what these pieces, one of each parameter, have."""
        state = self._optimizer.state
        state.clear()
        for piece in whole.pieces:
            parameter = self.places.parameters[piece.place]
            if piece.kept:
                state[parameter] = {
                    name: value.view(parameter.shape) if is_sliced(value) else value
                    for name, value in piece.kept.items()
                }

    # ---------------------------------------------------------------- a step
    def _enter(self) -> None:
        groups, state = self._optimizer.param_groups, self._optimizer.state
        if len(groups) != self._num_groups:
            raise RuntimeError(ADDED)
        if self._pieces is None or self._outside:
            return
        self._outside = [group["params"] for group in groups]
        self._tensors = [self.places.elements(piece) for piece in self._pieces.pieces]
        group_of = [number for number, held in enumerate(self._outside) for _ in held]
        for group in groups:
            group["params"] = []
        for piece, tensor in zip(self._pieces.pieces, self._tensors, strict=True):
            gradient = self.places.parameters[piece.place].grad
            if gradient is not None:
                tensor.grad = self.places.elements(piece, gradient.contiguous())
            groups[group_of[piece.place]]["params"].append(tensor)
            if piece.kept:
                state[tensor] = piece.kept

    def leave_step(self) -> None:
        """The optimizer holds what the script gave it again. To be called as well where a step raised."""
        if self._pieces is None or not self._outside:
            return
        groups, state = self._optimizer.param_groups, self._optimizer.state
        for piece, tensor in zip(self._pieces.pieces, self._tensors, strict=True):
            piece.kept = checked(state.get(tensor, {}), tensor)
        state.clear()
        for group, parameters in zip(groups, self._outside, strict=True):
            group["params"] = parameters
        self._outside, self._tensors = [], []

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def _check_asked(self) -> None:
        """Raises RuntimeError where the script asks for a state of which this worker has a part."""
        if self._pieces is not None and not self._is_asked:
            raise RuntimeError(
                "the script calls state_dict() of its optimizer, of whose state each worker has a part "
                "(shard='optimizer'); read the whole one from a checkpoint with "
                "swell.train.load_checkpoint(folder), or take shard='optimizer' out"
            )
