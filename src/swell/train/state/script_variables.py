"""State that a script keeps in variables, found by comparing them with what they were before the first epoch.

Looked at are globals of the script's modules, locals of the functions that run the loop, and attributes of
objects of the script's own classes and of the model. Those whose value is plainly state (`script_values`), or
has a `state_dict`, and that have changed by the time the state is saved or sent, belong to it. They are put
back before the head of an epoch reads them. Of others that change the script's owner is told.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch

from swell.script_facts import ScriptFinding
from swell.train.link.code_paths import last_place, user_frames
from swell.train.state import codec
from swell.train.state.script_search import Search, Variable, WaitingFunction, labelled
from swell.train.state.script_values import (
    MAX_BYTES,
    UNBOUND,
    UNCHANGING,
    Kept,
    Packed,
    bring_back,
    copied,
    fill,
    fill_object,
    is_light,
    is_object,
    keep,
    kind_of,
    mark,
    size_of,
    wrap,
)

#: Bytes of a value that is copied in each step, and of one that is copied before it is known to change.
MAX_SMALL_BYTES, MAX_DATA_BYTES = 2**22, 2**27


class ScriptVariables:
    """The variables of this process's script."""

    def __init__(
        self, parts: Callable[[], Sequence[Any]] = tuple, held: Callable[[], Sequence[Any]] = tuple
    ) -> None:
        """
        Args:
            parts: what is trained.
            held: what the script has given to `run.state` by now.
        """
        self._parts, self._held = parts, held
        #: Whether they are looked for: in a job. A script that runs by itself is left alone.
        self.is_wanted = False
        #: Called with what another process would not have as it is here.
        self.tell: Callable[[ScriptFinding], object] = lambda finding: None
        self._told: set[str] = set()
        self._frame: FrameType | None = None  # of the loop, while that waits for a batch
        self._functions: dict[str, WaitingFunction] = {}  # that have waited, by their names
        self._callers: tuple[FrameType | None, FrameType | None] = (None, None)  # from which these were found
        self._of_epochs: frozenset[str] = frozenset()  # those with the loop over epochs, and their callers
        self._search: Search | None = None
        self._has_begun = False  # the script has asked for a batch
        self._begun: dict[str, Look] = {}  # the variables before the first epoch
        self._first: frozenset[str] = frozenset()  # those before the first batch
        self._changed: dict[str, Variable] = {}  # since then
        self._homes: dict[int, str] = {}  # see `_homes_of`
        self._watched: dict[str, Variable] = {}  # what is kept of each step; in the first one, all but data
        self._small: set[str] = set()  # of these, those that are copied
        self._waiting: Mapping[str, Packed] = {}  # until a batch is given
        #: What is not in that, as it was before the head of an epoch that others are amid.
        self._before_head: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}  # as of the step's beginning
        self._num_boundaries, self._look_at = 0, 1

    @property
    def is_waiting(self) -> bool:
        """Whether the script has not asked for a batch yet, and may still set what was restored."""
        return self.is_wanted and not self._has_begun

    # ------------------------------------------------------------------ boundaries
    def begin_epochs(self, frame: FrameType | None, restored_at: str) -> None:
        """The script enters its loop over epochs: what it sets from now on is of the first epoch.

        The head of that epoch reads what was restored. A worker that joins amid the epoch runs it with
        another model, so all that the head changes is put back before the first batch: to what was restored,
        or, where the others have not changed it since they began, to what it was here.

        Args:
            restored_at: in which part of an epoch what was restored was saved, see `TrainState`.
        """
        if not self.is_waiting:
            return
        found = self._find(frame, is_of_epochs=True)
        self._begin(found)
        self._of_epochs = frozenset(self._functions)
        if restored_at == "amid":
            values = {name: one.now() for name, one in found.items() if name not in self._waiting}
            self._before_head = {name: keep(value) for name, value in values.items() if _is_kept(value)}
        self._put(self._waiting, frame)
        if restored_at == "between":
            self._waiting = {}

    def _begin(self, found: Mapping[str, Variable]) -> None:
        """What is found in these modules and functions for the first time is as the script begins with it."""
        known = {name.partition(".")[0] for name in self._begun}
        news = [name for name in found if name.partition(".")[0] not in known]
        self._begun |= {name: look_at(found[name].now()) for name in news}

    def reach_boundary(self, frame: FrameType | None) -> None:
        """The script asks for a batch, in the function of `frame`."""
        if not self.is_wanted:
            return
        self._frame = frame
        if not self._has_begun:
            self._has_begun, self._search = True, None  # it may have imported modules since
            found = self._find(frame)
            self._begin(found)
            self._first = frozenset(found)
            self._watch(found)
        self._num_boundaries += 1
        if self._num_boundaries > self._look_at:
            self._look_at *= 2
            self._look()
            self._watch(self._changed)

    def leave_boundary(self) -> None:
        """The script gets a batch, or the epoch is over."""
        if self._before_head and self._has_begun:
            before, self._before_head = self._before_head, {}
            for name, one in self._find(self._frame).items():
                if name in before and look_at(one.now()) != self._begun[name]:
                    one.set(bring_back(before[name]))
        self.put_waiting()
        self._frame = None

    def put_waiting(self) -> None:
        """Have the script's variables be what was restored."""
        waiting, self._waiting = self._waiting, {}
        self._put(waiting, self._frame)

    def leave_loop(self) -> None:
        """The script leaves its loop over batches: functions that were called for it are about to end."""
        self._callers = (None, None)
        for label in self._functions.keys() - self._of_epochs:
            self._functions[label].frame = None

    def see_end(self) -> None:
        """An error has ended the script: keep what its functions had, for they are about to be cleared."""
        self._look()
        for function in self._functions.values():
            function.end()

    def tree(self) -> dict[str, Packed]:
        """Name and value of those that have changed.

        `is_new`: it is another object than before the first epoch; `same`: the one that this name has; `kind`
        alone: an object whose attributes are named by themselves; `at`: what holds it, and by which key.
        """
        if not self._has_begun:
            return dict(self._waiting)
        self._look()
        tree: dict[str, Packed] = {}
        names: dict[int, str] = {}
        for name, one in self._changed.items():
            value, begun = one.now(), self._begun.get(name)
            look = look_at(value)
            home = name if look.kind is None else self._homes.get(id(value), name)
            is_other = begun is not None and begun.own != look.own and not self._is_brief(name)
            is_replaced = is_other and self._search is not None and self._search.is_own(value)
            if value is UNBOUND or not (look.is_saved or home != name or is_replaced):
                continue
            same = None if type(value) in UNCHANGING else names.setdefault(id(value), home)
            whole = wrap(value) if look.is_saved else {"kind": kind_of(value)}
            packed = whole if same in (None, name) else {"same": same}
            at = None if one.owner is None else [one.owner.name, one.key]
            tree[name] = {**packed, "is_new": begun is None or begun.own != id(value), "at": at}
        return tree

    def restore(self, values: Mapping[str, Packed]) -> None:
        """Take over what was saved; before the first batch, if that has not been given."""
        if not self._has_begun or self._frame is not None:
            self._waiting = values if self.is_wanted else {}
        else:
            self._put(values, self._frame)

    # ------------------------------------------------------------------ steps that are repeated
    def begin_step(self, frame: FrameType | None = None) -> None:
        """A step begins, and its batch goes to `frame`: `rewind` comes back to here.

        What is large is kept as the object that it is, and copied once the step is lost: `keep_objects`.
        """
        self._follow(frame)
        values = {name: one.now() for name, one in self._watched.items()}
        self._kept = {
            name: keep(value) if name in self._small else value
            for name, value in values.items()
            if not _is_of_step(value)
        }

    def keep_objects(self, frame: FrameType | None) -> None:
        """Copy what is large, too, and what no step is known to change: this one may.

        Args:
            frame: the script's function that the step is made from.
        """
        if not self._has_begun:
            return
        self._watched = {**self._find(frame, is_of_epochs=None), **self._watched}
        for name, one in self._watched.items():
            value = self._kept.get(name, one.now())
            most = MAX_BYTES if name in self._changed else MAX_DATA_BYTES
            if not isinstance(value, Kept) and not _is_of_step(value):
                self._kept[name] = keep(value) if _is_kept(value, most) else value

    def rewind(self, frame: FrameType | None = None) -> None:
        """What is known to change is again what it was, also in the function that waits for a batch.

        The boundary that comes is the one before the step again, and shows nothing new.
        """
        self._num_boundaries -= 1
        self._follow(frame)
        for name, kept in self._kept.items():
            self._watched[name].set(bring_back(kept))

    def delete_others(self, names: Collection[str]) -> None:
        """Have no global and no attribute that the script has made since its first batch, beyond these.

        Without this `tests/scripts/same/earlier_selves.py`, whose optimizer makes one in an update, is held.
        """
        self._look()
        for name, one in self._changed.items():
            if name not in self._first and name not in names:
                one.set(UNBOUND)

    def values(self, frame: FrameType | None = None) -> dict[str, Packed]:
        """Copies of all that may be put back, as it is now."""
        self._follow(frame)
        values = {name: one.now() for name, one in {**self._changed, **self._watched}.items()}
        homes = self._homes_of(values)
        same = {name: {"same": homes.get(id(value), name)} for name, value in values.items()}
        return {
            name: copied(wrap(value) if is_saved else same[name])
            for name, value in values.items()
            for is_saved in [isinstance(value, torch.Tensor) or look_at(value).is_saved]
            if is_saved or same[name]["same"] != name
        }

    def _watch(self, variables: dict[str, Variable]) -> None:
        self._watched = variables
        values = {name: one.now() for name, one in variables.items()}
        self._small = {name for name, value in values.items() if _is_small(value)}

    # ------------------------------------------------------------------ what there is
    def frames(self) -> list[FrameType]:
        """The script's functions that wait for a batch, the innermost first."""
        return list(user_frames(self._frame))

    def _follow(self, frame: FrameType | None) -> None:
        """Know the functions that wait, which are those that waited last as a rule."""
        callers = (frame, frame and frame.f_back)
        if frame is None or callers == self._callers:
            return
        self._callers, calls = callers, dict(labelled(user_frames(frame)))
        for label in self._functions.keys() | calls.keys():
            self._functions.setdefault(label, WaitingFunction()).frame = calls.get(label)

    def _look(self) -> None:
        """Have what is not what it was belong to the state."""
        if not any(function.frame for function in self._functions.values()):
            return  # training is over, or has not begun
        known, self._changed = self._changed, {}
        found = {**known, **self._find(self._frame)}
        values = {name: one.now() for name, one in found.items()}
        self._homes = self._homes_of(values)
        for name, one in found.items():
            look, begun = look_at(values[name]), self._begun.get(name)
            if name in known or look != begun:
                self._changed[name] = one
            is_elsewhere = self._homes.get(id(values[name]), name) != name
            if begun is not None and look.kind not in (begun.kind, None) and not is_elsewhere:
                self._tell_lost(one, "changes while the job trains")

    def _homes_of(self, values: Mapping[str, Any]) -> dict[int, str]:
        """Find what stands where it stood before the first epoch: another process has it by that name."""
        homes: dict[int, str] = {}
        for name, value in values.items():
            is_begun = name in self._begun and self._begun[name].own == id(value)
            if is_begun and not self._is_brief(name):
                homes.setdefault(id(value), name)
        return homes

    def _find(self, frame: FrameType | None, is_of_epochs: bool | None = False) -> dict[str, Variable]:
        """Find them. Of those that the script sets next, where it waits for something, none is shown.

        Args:
            is_of_epochs: it waits for an epoch, and not for a batch; None: it does not wait.
        """
        self._follow(frame)
        if self._search is None:
            self._search = Search(frame)
        for function in self._functions.values() if frame is not None and is_of_epochs is not None else ():
            function.note_place(bool(is_of_epochs))
        return self._search.find(self._functions, self._parts(), self._held())

    def _put(self, values: Mapping[str, Packed], frame: FrameType | None) -> None:
        """Give the variables these values, those that lead to others before these."""
        if not values:
            return
        found = self._find(frame)
        assert self._search is not None  # noqa: S101 - it has found them
        for name, packed in values.items():
            one = found.get(name) or self._search.missing(name, packed.get("at"), self._functions)
            if one is None:
                continue
            found[name] = self._changed[name] = one
            try:
                own = one.now()
                if packed.get("is_new") and "kind" in packed:
                    own = self._unshared(own, name, found, is_whole="object" in packed)
                one.set(_unpacked(codec.completed(packed), own, found))
            except Exception as error:  # noqa: BLE001 - of the script's own objects, which did not ask for it
                if self._has_begun:  # else the script may make it yet
                    self._tell_lost(one, f"could not be put back ({error})")

    def _unshared(self, own: Any, name: str, found: Mapping[str, Variable], is_whole: bool) -> Any:
        """The object, or one like it where something else holds it, too, as `best = model` before the loop.

        What is trained stays the same in the copy, as a scheduler's optimizer.
        """
        assert self._search is not None  # noqa: S101 - it has found them
        others = (each for other, each in found.items() if other != name and not self._is_brief(other))
        if not self._search.is_ours(own) and all(each.now() is not own for each in others):
            return own
        trained = {id(part): part for part in self._parts() if part is not own}
        return copy.deepcopy(own, trained) if is_whole else copy.copy(own)

    def _is_brief(self, name: str) -> bool:
        """Whether it is of a function that is called in an epoch, and has its objects from elsewhere."""
        label = name.partition(".")[0]
        return label in self._functions and label not in self._of_epochs

    def _tell_lost(self, variable: Variable, why: str) -> None:
        if variable.name in self._told:
            return
        self._told.add(variable.name)
        size, key = size_of(variable.now()), str(variable.key)
        what = f"more than {MAX_BYTES:,} bytes" if MAX_BYTES < size < math.inf else kind_of(variable.now())
        text = (
            f"`{variable.name.removeprefix('__main__.')}` ({what}) {why}, and a new worker begins without "
            f"it: keep it as plain values, or as an object with a state_dict, in run.state[{key!r}]"
        )
        warnings.warn(text, stacklevel=2)
        place = last_place(self.frames(), {key}, "STORE_")
        self.tell(ScriptFinding(name="script-variable", text=text, place=place, holds=False))


class Look(NamedTuple):
    """What a variable was when it was looked at."""

    mark: Any  #: equal for equal values
    own: int = 0  #: which object it held
    is_saved: bool = False  #: it is plainly state, or an object that saves itself
    kind: Any = None  #: of what another process would have to make; None: that is its value


def look_at(value: Any) -> Look:
    if type(value) in UNCHANGING:
        return Look(repr(value), is_saved=True)
    size = 0 if is_object(value) else size_of(value)
    if size < math.inf and (marked := mark(value)) is not None:
        is_saved = size <= MAX_BYTES
        kind = kind_of(value) if is_object(value) else None if is_saved else marked
        return Look(marked, id(value), is_saved, kind)
    if _is_of_step(value):
        return Look(None)
    shape = kind_of(value), len(value) if isinstance(value, list | tuple | dict | set) else 0
    return Look(shape, id(value), kind=shape)


def _unpacked(packed: Packed, own: Any, found: Mapping[str, Variable]) -> Any:
    """What a variable is to hold that holds `own`."""
    if "same" in packed:
        return found[packed["same"]].now()
    if "kind" in packed:
        return fill_object(own, packed)
    value = packed["value"]
    if not packed.get("is_new"):
        return fill(own, value)
    if codec.is_record(own) and isinstance(value, tuple):  # of a class within a function
        return own._make(value)
    is_moved = isinstance(own, torch.Tensor) and isinstance(value, torch.Tensor)
    return value.to(own.device) if is_moved else value


def _is_of_step(value: Any) -> bool:
    """Whether it is nothing, or a tensor with a graph."""
    return value is UNBOUND or (isinstance(value, torch.Tensor) and value.grad_fn is not None)


def _is_kept(value: Any, most: int = MAX_DATA_BYTES) -> bool:
    """Whether its content is copied where it is not known what changes: all but data."""
    return is_object(value) or size_of(value) <= most


def _is_small(value: Any) -> bool:
    """Whether a copy of it in each step costs little."""
    return is_light(value) if is_object(value) else size_of(value) <= MAX_SMALL_BYTES
