"""Finds that a script makes another DataLoader in place of the one that it gave to `elastic`.

`run.batches()` goes on with the first one, so that this would have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from swell.train.collective.gradients import LoopError
from swell.train.link.code_paths import place_of, submitted
from swell.train.state.script_variables import line_of_store
from swell.train.state.waiting_functions import MODULE, user_frames

#: A dict with more entries is data.
MOST_HELD = 64

#: A variable that holds a loader: the function or module, the object or dict in it, and the name there.
Place = tuple[str, str, str]


class LoaderWatch:
    """The variables in which a script has the loader of `elastic`."""

    def __init__(self, loader: DataLoader[Any], frame: FrameType | None) -> None:
        """
        Args:
            frame: the script's function that calls `elastic`.
        """
        self._loader = loader
        self._places: set[Place] = set()
        self._note(frame)

    def look(self, frame: FrameType | None) -> None:
        """The script asks for the first batch of an epoch. Raises LoopError: it means another loader."""
        for place, loader, user in _loaders(frame):
            if place in self._places and loader is not self._loader and not self._is_alike(loader):
                name = place[2] if not place[1] else f"{place[1]}.{place[2]}"
                line = line_of_store(user.f_code, place[2], bool(place[1]))
                where = place_of(user) if line is None else f"{submitted(user.f_code.co_filename)}:{line}"
                raise LoopError(
                    f"`{name}` holds another DataLoader than elastic() got ({where}), and run.batches() goes "
                    "on with that one. Give elastic() one loader of all the data, with a sampler whose "
                    "set_epoch(epoch), which is called, chooses what the epoch has; or give this one "
                    "another name"
                )
        self._note(frame)

    def _note(self, frame: FrameType | None) -> None:
        self._places |= {place for place, loader, _ in _loaders(frame) if loader is self._loader}

    def _is_alike(self, loader: DataLoader[Any]) -> bool:
        """Whether it loads the same samples in batches of the same size."""
        own = self._loader
        return (
            loader.dataset is own.dataset
            and loader.batch_size == own.batch_size
            and loader.drop_last == own.drop_last
            and loader.collate_fn == own.collate_fn
            and type(loader.sampler) is type(own.sampler)
            and type(loader.batch_sampler) is type(own.batch_sampler)
        )


def _loaders(frame: FrameType | None) -> Iterator[tuple[Place, DataLoader[Any], FrameType]]:
    """Yield the loaders that the script's functions, modules, objects and dicts hold."""
    for user in user_frames(frame):
        function = user.f_code.co_name
        scopes = [(user.f_globals["__name__"], user.f_globals)]
        if function != MODULE:
            scopes.append((f"{function}()", dict(user.f_locals)))
        for scope, space in scopes:
            for name, value in [*space.items()]:
                if isinstance(value, DataLoader):
                    yield (scope, "", name), value, user
                for key, held in _held_by(value, user.f_globals["__name__"]):
                    if isinstance(held, DataLoader):
                        yield (scope, name, str(key)), held, user


def _held_by(value: Any, module: str) -> list[tuple[Any, Any]]:
    """Return what a dict, or an object of the script's own class, holds."""
    if isinstance(value, dict) and len(value) <= MOST_HELD:
        return [*value.items()]
    if type(value).__module__ == module and hasattr(value, "__dict__"):
        return [*vars(value).items()]
    return []
