"""Finds that a script makes another DataLoader in place of the one that it gave to `elastic`.

`run.batches()` goes on with the first one, so that this would have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch.utils.data import DataLoader

from swell.train.collective.gradients import LoopError
from swell.train.link.code_paths import place_of, submitted
from swell.train.state.waiting_functions import MODULE, lines_with, user_frames

#: A dict with more entries is data.
MOST_HELD = 64


class _Place(NamedTuple):
    """A variable that holds a loader."""

    name: str  #: as the script writes it
    key: str
    holder: Any  #: a dict or an object; the name of a function: it is a local of that

    def now(self, frames: list[FrameType]) -> Any:
        if isinstance(self.holder, str):
            calls = [frame.f_locals for frame in frames if frame.f_code.co_name == self.holder]
            return calls[0].get(self.key) if calls else None
        return (
            self.holder.get(self.key)
            if isinstance(self.holder, dict)
            else getattr(self.holder, self.key, None)
        )


class LoaderWatch:
    """The variables in which a script has the loader of `elastic`."""

    def __init__(self, loader: DataLoader[Any], frame: FrameType | None) -> None:
        """
        Args:
            frame: the script's function that calls `elastic`.
        """
        self._loader = loader
        self._places = [place for place, held in _loaders(frame) if held is loader]
        self._has_looked = False

    def look(self, frame: FrameType | None) -> None:
        """The script asks for the first batch of an epoch. Raises LoopError: it means another loader."""
        frames = list(user_frames(frame))
        for place in self._places:
            now = place.now(frames)
            if now is not self._loader and isinstance(now, DataLoader) and not self._is_alike(now):
                where = _set_at(place, frames)
                raise LoopError(
                    f"`{place.name}` holds another DataLoader than elastic() got ({where}), and "
                    "run.batches() goes on with that one. Give elastic() one loader of all the data, with a "
                    "sampler whose set_epoch(epoch), which is called, chooses what the epoch has; or give "
                    "this one another name"
                )
        if not self._has_looked:
            self._has_looked = True
            self._places += [place for place, held in _loaders(frame) if held is self._loader]

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


def _set_at(place: _Place, frames: list[FrameType]) -> str:
    """Return FILE:LINE where the script last sets it, as far as its functions show that."""
    for frame in frames:
        kind = "STORE_ATTR" if place.name != place.key else "STORE_"
        if lines := list(lines_with(frame.f_code, {place.key}, kind)):
            return f"{submitted(frame.f_code.co_filename)}:{max(lines)}"
    return place_of(frames[0]) if frames else ""


def _loaders(frame: FrameType | None) -> Iterator[tuple[_Place, DataLoader[Any]]]:
    """Yield the loaders that the script's functions, modules, objects and dicts hold."""
    for user in user_frames(frame):
        function, module = user.f_code.co_name, user.f_globals["__name__"]
        scopes: list[tuple[Any, dict[str, Any]]] = [(user.f_globals, user.f_globals)]
        if function != MODULE:
            scopes.append((function, dict(user.f_locals)))
        for holder, space in scopes:
            for name, value in [*space.items()]:
                if isinstance(value, DataLoader):
                    yield _Place(name, name, holder), value
                elif isinstance(value, dict) or type(value).__module__ == module:
                    yield from _held_by(name, value)


def _held_by(name: str, value: Any) -> Iterator[tuple[_Place, DataLoader[Any]]]:
    items = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for key, held in [*items.items()] if len(items) <= MOST_HELD else ():
        if isinstance(held, DataLoader):
            shown = f"{name}[{key!r}]" if isinstance(value, dict) else f"{name}.{key}"
            yield _Place(shown, key, value), held
