"""The state on disk: complete or not there at all.

A checkpoint's name carries the steps and the SHA-256 of its content, so that one rename makes it whole,
and a damaged one is known before it is read. Damaged ones are moved away: only sound ones count towards
those that are kept. The content is a plain tree of state dicts, which `torch.load(path, weights_only=True)`
reads, at whatever size it was written. Most are written behind training, which stands still while the state
is copied, and not while the copy is written, hashed and made durable.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import math
import os
import shutil
import tempfile
import time
import warnings
from collections import ChainMap, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import torch

from swell.checkpoint_interval import FIRST_S, interval_s
from swell.train.collective.pieces import as_real, local
from swell.train.collective.positions import ALONE, FailedTogether, Positions
from swell.train.state import codec
from swell.train.state.codec import EncodeError
from swell.train.state.staging import Form, Stage, forms_of
from swell.train.state.train_state import TrainState
from swell.wire.checkpoint_files import (
    MANIFEST,
    Manifest,
    checkpoint_name,
    checkpoints_in,
    digest_in,
    is_whole,
    num_bytes_of,
    order_in,
    remove,
    steps_in,
    witness_path,
    witnesses_in,
)
from swell.wire.whole_files import make_folder, sync, write_whole

#: A save that takes longer is told: its storage is slow, or hangs.
SLOW_S = 60.0
#: Times of so many of the latest checkpoints count: disks are shared, and one may be slow by chance.
NUM_MEASURED = 8

#: The disk is full, the user's share of it is used up, or a file may not grow.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: What reading a file fails with where the disk has lost a part of it, or all.
LOST = (errno.EIO, errno.ENOENT, errno.ESTALE)
#: Where damaged files are moved to, in the folder of the checkpoints.
QUARANTINE = "damaged"
#: Damaged files that are kept there.
MAX_QUARANTINED = 2


class SaveError(OSError):
    """No checkpoint was written of the state after so many steps; the folder is as it was."""

    def __init__(self, steps: int, folder: Path, reason: object) -> None:
        super().__init__(f"no checkpoint at step {steps} in {folder}: {reason}")
        self.steps = steps


class NoCheckpointError(FileNotFoundError):
    """There is no checkpoint, or none that is whole."""


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read what a job has saved, on any machine and for any purpose.

    Args:
        path: a checkpoint, or a folder of them, of which the newest whole one is read:
            `jobs/ID/checkpoints` in a platform's state folder.

    Returns:
        The state dicts `model` and `optimizer`, `scheduler` and `scaler` (None where there was none), those
        of the script's own objects by name under `objects`, and `steps`; what is known of the loss under
        `loss`, and how far the samples have been trained on under `place`. Tensors are in host memory.

    Warns:
        UserWarning: a newer one is damaged, and the one before it is read.

    Raises:
        NoCheckpointError: there is none, or none that is whole.
    """
    path = Path(path).resolve()
    is_of_several = path.is_dir() and digest_in(path) is None
    found = [each for _, each in checkpoints_in(path)] if is_of_several else [path]
    digests = ((each, digest_in(each)) for each in found)
    whole = next((each for each, own in digests if own and each.exists() and is_whole(each, own)), None)
    if whole is None:
        raise NoCheckpointError(
            f"{path} {'holds' if is_of_several else 'is'} no undamaged checkpoint; give one, such as "
            "step-000000000100.HASH.pt, or a folder of them"
        )
    if whole != found[0]:
        warnings.warn(f"checkpoint {found[0]} is damaged; {whole.name} is read", stacklevel=2)
    return _read(whole)


@dataclass(frozen=True)
class Content:
    """What one checkpoint holds: the state after some steps, or a copy of it."""

    steps: int
    updates: int
    skeleton: str
    tensors: Sequence[torch.Tensor]
    #: Parameters that are trained. Where one is no number, the state is not worth going on from.
    trained: Sequence[torch.Tensor]

    @property
    def is_finite(self) -> bool:
        """Whether all trained parameters are numbers: one that is not never becomes one again."""
        some = (as_real(each) for each in self.trained if each.numel())
        return all(math.isfinite(bound) for each in some for bound in torch.aminmax(each))  # NaN is either


def content_of(state: TrainState) -> Content:
    """The content of a checkpoint of this state; tensors are not copied. Raises `codec.EncodeError`."""
    skeleton, tensors = state.encode()
    layouts = codec.layouts(skeleton).values() if '"Partial"' in skeleton else ()
    if any(kind == "Partial" for layout in layouts for kind, _ in layout.placements):
        raise EncodeError(
            "the state has a DTensor with a Partial placement, which no checkpoint can hold: redistribute it"
        )
    trained = [local(each).detach() for each in state.model.parameters() if each.requires_grad]
    return Content(state.steps, state.updates, skeleton, tensors, trained)


@dataclass(slots=True)
class _Work:
    """What a thread does while training goes on: it makes room for a copy, or writes one."""

    steps: int
    begun_s: float
    ends: Future[Path] | Future[None]
    pause_s: float | None = None  #: that training stood still for it; None: it is no save
    is_told: bool = False  #: that it takes long


class CheckpointStore:
    """The newest few checkpoints of one job, in one folder, and one save at a time.

    Args:
        interval_s: between two of them; None: it is chosen by `mean_time_to_loss_s` and what a save takes.
        positions: of the worker that saves. Its processes save, load and roll back together.
    """

    def __init__(
        self,
        folder: Path,
        num_kept: int,
        interval_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        positions: Positions = ALONE,
    ) -> None:
        #: Called after the warning that there are damaged ones: its text, and the steps of the newest sound
        #: one, 0 if there is none.
        self.tell_damaged: Callable[[str, int], None] = lambda message, sound_steps: None
        self._sound: set[Path] = set()  # that this process has written or read whole
        self._writing = Lock()
        self.folder = folder.resolve()
        self._positions, self._saving = positions, positions.saving
        if positions.num > 1:
            import_module("swell.train.state.checkpoint_folder")  # now, and not while training goes on
        self.num_kept = num_kept
        self.interval_s = interval_s
        #: Of the checkpoint that is kept besides, for a new process has computed the same from it.
        self.verified_steps: int | None = None
        self._clock = clock
        self._due_s: float | None = None
        #: Until training that is not saved is lost, as the scheduler expects; None: it has not said.
        self.mean_time_to_loss_s: float | None = None
        self._measured_s: deque[float] = deque(maxlen=NUM_MEASURED)
        self._is_untold = False  #: one was measured since `take_save_s`
        self._stage = Stage()
        self._thread = ThreadPoolExecutor(1, "swell-save")  # begins with the first work
        self._work: _Work | None = None
        self._lacks_room: MemoryError | None = None  # for the copy that is due
        self._is_room_made = False  # behind training, since the last copy
        self._has_warned = False

    # ------------------------------------------------------------------ when
    @property
    def save_s(self) -> float | None:
        """Mean time that training stood still for one of the latest checkpoints; None: there was none."""
        return sum(self._measured_s) / len(self._measured_s) if self._measured_s else None

    def take_save_s(self) -> float | None:
        """`save_s`, if there was a save since it was last taken."""
        is_untold, self._is_untold = self._is_untold, False
        return self.save_s if is_untold else None

    def is_due(self) -> bool:
        """Whether it is time to save: early after the first step, then every `interval_s` or less often.

        To be asked after each step.
        """
        now_s = self._clock()
        if self._due_s is None:
            fixed_s = FIRST_S if self.interval_s is None else self.interval_s
            self._due_s = now_s + min(fixed_s, FIRST_S)
        return now_s >= self._due_s

    def _rest(self, pause_s: float) -> None:
        """A save has ended, well or not: the next one is due after the interval.

        Args:
            pause_s: that training stood still for it.
        """
        self._measured_s.append(pause_s)
        self._is_untold = True
        took_s = self.save_s if self.interval_s is None else pause_s
        self._due_s = self._clock() + interval_s(self.interval_s, self.mean_time_to_loss_s, took_s)

    # ------------------------------------------------------------------ while training stands still
    def save(self, state: TrainState) -> Path:
        """Write the state. It is safe on disk, or not there, when this returns.

        A state with a parameter that is no number is not written as long as there is another to go on from:
        that one is returned. So it cannot push the last good one out.

        Raises:
            SaveError: the disk is full, the folder cannot be written, or an object cannot be saved.
        """
        begun_s = self._clock()
        try:
            with self._explained(state.steps):
                return self.write(self._positions.together(lambda: content_of(state)))
        finally:
            self._rest(self._clock() - begun_s)

    def save_once(self, state: TrainState) -> Path | None:
        """Save the state as `save` does, unless another worker has saved the same one: then return None.

        Raises:
            SaveError: as `save` does.
        """
        with self._explained(state.steps), ExitStack() as stack:
            order = state.steps, state.updates
            is_saved = self._positions.first(lambda: self._find_saved(order, stack), _reason)
            return None if is_saved else self.save(state)

    def _find_saved(self, order: tuple[int, int], stack: ExitStack) -> str:
        """The name of the checkpoint after so many steps and updates. The folder is locked from now on."""
        make_folder(self.folder)
        stack.enter_context(_locked(self.folder))
        found = (
            path.name
            for digest, path in checkpoints_in(self.folder)
            if order_in(path) == order and self._is_sound(path, digest)
        )
        return next(found, "")

    # ------------------------------------------------------------------ behind training
    @property
    def is_idle(self) -> bool:
        """Whether nothing was begun whose end has not been taken."""
        return self._work is None

    def begin(self, state: TrainState) -> Path | None:
        """Copy the state, and write the copy in the background: `take` and `wait` tell how that ended.

        Where memory for the copy has to be made first, that alone is begun, and the save stays due. Where the
        host has none, the state is written now, which is warned of once.

        Returns:
            The checkpoint, if it was written now.

        Raises:
            SaveError: an object cannot be saved, or it could not be written now.
        """
        begun_s = self._clock()
        together = self._positions.together
        try:
            content = together(lambda: content_of(state))
        except (EncodeError, FailedTogether):
            return self.save(state)  # which tells why it cannot be
        if not self._positions.all(self._lacks_room is None):
            if (lacking := self._lacks_room) is not None and not self._has_warned:
                self._has_warned = True
                warnings.warn(f"training stands still for each checkpoint, for {lacking}", stacklevel=2)
            self._lacks_room = None  # there may be room next time
            return self.save(state)
        tensors = [*content.tensors, *content.trained]
        forms = forms_of(tensors)
        try:
            has_room = together(lambda: self._has_room(forms))
        except (MemoryError, FailedTogether):
            return self.save(state)
        if self._positions.all(has_room):
            copies, split = self._stage.copy(tensors), len(content.tensors)
            copied = replace(content, tensors=copies[:split], trained=copies[split:])
            now_s, ends = self._clock(), self._thread.submit(self.write, copied)
            self._work = _Work(state.steps, now_s, ends, pause_s=now_s - begun_s)
        else:
            self._work = _Work(state.steps, begun_s, self._thread.submit(self._stage.make_room, forms))
        return None

    def _has_room(self, forms: Sequence[Form]) -> bool:
        """Whether a copy has room. It is made at once if it was made in vain: some states grow in each step.

        Raises:
            MemoryError: then the host has none for it.
        """
        if self._is_room_made and not self._stage.has_room(forms):
            self._stage.make_room(forms)
        self._is_room_made = not self._stage.has_room(forms)
        return not self._is_room_made

    def take(self) -> Path | None:
        """The checkpoint that was written since `begin`; None if there is none, or none yet.

        Raises:
            SaveError: it could not be written; or, once, it takes long.
        """
        work = self._work
        if work is None:
            return None
        if not work.ends.done():
            if not work.is_told and self._clock() - work.begun_s > SLOW_S:
                work.is_told = True
                slow = f"it takes more than {SLOW_S:g} s: the storage is slow or hangs; training goes on"
                raise SaveError(work.steps, self.folder, slow)
            return None
        self._work = None
        if work.pause_s is not None:
            self._rest(work.pause_s)
        try:
            return work.ends.result()
        except MemoryError as error:
            self._lacks_room, self._is_room_made = error, False
            return None

    def wait(self) -> Path | None:
        """Wait for what was begun, and return what `take` does then. Raises SaveError as `take` does."""
        if self._work is not None:
            self._work.ends.exception()  # which waits, and raises nothing
        return self.take()

    # ------------------------------------------------------------------ files
    def write(self, content: Content) -> Path:
        """Write a checkpoint of this content, in any thread: one waits for another. Raises SaveError."""
        with self._writing:
            self._stage.await_copies()  # which this content may be made of
            with self._explained(content.steps):
                is_finite = self._saving.all(content.is_finite)
                name = self._saving.first(lambda: self._find_instead(is_finite), _reason)
                write = self._write if self._positions.num == 1 else self._write_folder
                path = self.folder / name if name else write(content)
            try:
                if self._positions.is_first:
                    self._evict(path)
            except OSError as error:  # the new one is written all the same
                warnings.warn(f"old checkpoints in {self.folder} cannot be removed: {error}", stacklevel=2)
        return path

    def _find_instead(self, is_finite: bool) -> str:
        """Make the folder ready. The name of a checkpoint to keep in place of a state that is no number."""
        make_folder(self.folder)
        self._remove_left_drafts()
        sound = [] if is_finite else self._newest_sound(1)
        return sound[0].name if sound else ""

    @contextmanager
    def _explained(self, steps: int) -> Iterator[None]:
        """Raises SaveError for what fails within: there is no checkpoint of this step."""
        try:
            yield
        except SaveError:
            raise
        except (OSError, RuntimeError, EncodeError) as error:  # torch.save says RuntimeError of a full disk
            raise SaveError(steps, self.folder, _reason(error)) from error

    def roll_back(self) -> None:
        """Remove what is newer than the newest verified checkpoint, if that is there."""
        if self._positions.is_first and (verified := self._verified()) is not None:
            for _, path in checkpoints_in(self.folder):
                if order_in(path) > order_in(verified):
                    remove(path)

    def _verified(self) -> Path | None:
        """The newest checkpoint from which a new process has computed the same, if it is to be kept."""
        if self.verified_steps is None:
            return None
        found = (path for _, path in checkpoints_in(self.folder) if steps_in(path) == self.verified_steps)
        return next(found, None)

    def load_newest(
        self, state: TrainState, is_meant: Callable[[Path], bool] = lambda path: True
    ) -> Path | None:
        """Take over the newest sound checkpoint that is meant, and return it; None if there is none.

        Damaged ones are moved away.

        Raises:
            RuntimeError: it is of another script, see `TrainState.restore`.
        """
        if not (name := self._positions.first(lambda: self._find_newest(is_meant))):
            return None
        path = self.folder / name
        if self._positions.num == 1 and not path.is_dir():
            state.restore(_read(path))
            return path
        from swell.train.state.checkpoint_folder import divided, read_part, room_in

        read = partial(read_part, path, own=self._positions.own, num=self._positions.num)
        read = read if path.is_dir() else partial(divided, _read(path))
        state.restore(read(make_room=room_in(state)))
        return path

    def _find_newest(self, is_meant: Callable[[Path], bool]) -> str:
        with self._writing:
            self._sound.clear()  # a disk may have lost what was written to it
            newest = self._newest_sound(1, is_meant)
        return newest[0].name if newest else ""

    def _newest_sound(self, most: int, is_meant: Callable[[Path], bool] = lambda path: True) -> list[Path]:
        """The newest that are meant and sound, so many at most. Move damaged ones away that are newer."""
        sound, damaged = list[Path](), list[Path]()
        for digest, path in checkpoints_in(self.folder):
            if len(sound) < most and is_meant(path):
                (sound if self._is_sound(path, digest) else damaged).append(path)
        self._remove_damaged(damaged, sound[0] if sound else None)
        return sound

    def _evict(self, newest: Path) -> None:
        """Remove sound ones beyond those to keep, and damaged ones. What is as new as `newest` stays."""
        kept = {newest, self._verified() or newest, *self._newest_sound(self.num_kept)}
        for _, path in checkpoints_in(self.folder):
            if path not in kept and order_in(path) <= order_in(newest):
                remove(path)
        notes = {witness_path(path).stem for path in kept}
        for path in witnesses_in(self.folder):
            own = path.name.partition(".")[0]  # one for each process of a worker
            if own not in notes and own <= witness_path(newest).stem:
                path.unlink(missing_ok=True)

    def _remove_damaged(self, paths: list[Path], sound: Path | None) -> None:
        """Move them away, if there are any, and tell it; `sound` is the newest that is not damaged."""
        if not paths:
            return
        steps = [str(steps_in(path)) for path in paths]
        named = f"s of steps {', '.join(steps)} are" if steps[1:] else f" of step {steps[0]} is"
        try:
            for path in paths:
                _quarantine(path)
            place = f"moved to {self.folder / QUARANTINE}"
        except OSError as error:  # they are passed over all the same
            place = f"still in {self.folder} ({error})"
        sound_steps = 0 if sound is None else steps_in(sound)
        instead = "no other is sound" if sound is None else f"that of step {sound_steps} is sound"
        message = f"the checkpoint{named} damaged, and {place}; {instead}"
        warnings.warn(message, stacklevel=4)
        self.tell_damaged(message, sound_steps)

    def _is_sound(self, path: Path, digest: str) -> bool:
        """Whether the content has this SHA-256. It is read once, and again before it is loaded.

        Raises:
            OSError: it cannot be read, which says nothing of the content.
        """
        try:
            is_sound = path in self._sound or is_whole(path, digest)
        except OSError as error:
            if error.errno in LOST:
                return False
            raise
        if is_sound:
            self._sound.add(path)
        return is_sound

    def _remove_left_drafts(self) -> None:
        """Remove drafts of processes that were killed while they wrote: these hold them locked no more."""
        for path in self.folder.glob(".draft-*"):
            with suppress(OSError), _locked(path, fcntl.LOCK_NB):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _write(self, content: Content) -> Path:
        tree = codec.decode(content.skeleton, content.tensors, for_file=True)
        handle, draft = _locked_draft(self.folder)
        try:
            with os.fdopen(handle, "wb+") as file:
                torch.save(tree, file)
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            path = self.folder / checkpoint_name(content.steps, content.updates, digest)
            os.rename(draft, path)
        except BaseException:
            with suppress(OSError):  # the first error is the one to tell
                os.unlink(draft)
            raise
        self._sound.add(path)
        sync(self.folder)
        return path

    def _write_folder(self, content: Content) -> Path:
        """Write it with the other processes of this worker."""
        from swell.train.state.checkpoint_folder import write_part

        saving = self._saving
        with ExitStack() as stack:
            draft = saving.first(lambda: self._begin_folder(stack), _reason)
            write = partial(write_part, Path(draft), content.skeleton, content.tensors, saving)
            written = msgspec.json.encode(saving.together(write, _reason))
            parts = [msgspec.json.decode(part, type=Manifest) for part in saving.gather_bytes(written)]
            manifest = dict(ChainMap(*parts))
            name = saving.first(lambda: self._finish_folder(Path(draft), manifest, content), _reason)
        return self.folder / name

    def _begin_folder(self, stack: ExitStack) -> str:
        """A draft that is gone in the end, unless it was renamed. The first process calls this."""
        handle, draft = _locked_draft(self.folder, is_folder=True)
        stack.callback(os.close, handle)
        stack.callback(shutil.rmtree, draft, ignore_errors=True)
        return draft

    def _finish_folder(self, draft: Path, manifest: Manifest, content: Content) -> str:
        """What all have written is the checkpoint of this name. The first process calls this."""
        text = msgspec.json.encode(manifest)
        write_whole(draft / MANIFEST, text, mode=0o640, is_synced=True)
        digest = hashlib.sha256(text).hexdigest()
        path = self.folder / checkpoint_name(content.steps, content.updates, digest, suffix="")
        os.rename(draft, path)
        self._sound.add(path)
        sync(self.folder)
        return path.name


def _locked_draft(folder: Path, is_folder: bool = False) -> tuple[int, str]:
    """Make a draft and lock it. One that another process removes before it is locked is made again."""
    while True:
        if is_folder:
            draft = tempfile.mkdtemp(prefix=".draft-", dir=folder)
            try:
                handle = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
        else:
            handle, draft = tempfile.mkstemp(prefix=".draft-", dir=folder)
        os.fchmod(handle, 0o750 if is_folder else 0o640)
        with suppress(OSError):  # a file system without locks keeps what a killed writer leaves
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(draft):
            return handle, draft
        os.close(handle)


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        from swell.train.state.checkpoint_folder import read_whole

        return read_whole(path)
    read = torch.load(path, map_location="cpu", weights_only=True)
    tree: dict[str, Any] = codec.decode(*codec.encode(read))
    return tree


@contextmanager
def _locked(path: Path, how: int = 0) -> Iterator[None]:
    """Wait for who has it, or raise OSError. The lock goes with its process, and leaves no file."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    """Describe the cause of a failed save in words that name a remedy.

    torch.save hides that the disk is full behind an error of its own.
    """
    met = error.__context__ if isinstance(error, RuntimeError) else error
    if isinstance(met, OSError) and met.errno in NO_ROOM:
        return f"{met.strerror}; make room there"
    return str(error)


def room_for_next(path: Path) -> tuple[int, bool]:
    """The size of this checkpoint in bytes, and whether another one fits on the disk."""
    try:
        size, disk = num_bytes_of(path), os.statvfs(path)
    except OSError:  # its owner has removed it meanwhile: nothing is known
        return 0, True
    return size, size <= disk.f_bavail * disk.f_frsize


def _quarantine(path: Path) -> None:
    """Move a damaged file out of the way. The oldest of those that were moved before go."""
    folder = path.parent / QUARANTINE
    folder.mkdir(mode=0o750, exist_ok=True)
    os.rename(path, folder / path.name)
    os.utime(folder / path.name)
    by_age = sorted(folder.iterdir(), key=lambda held: held.stat().st_mtime_ns, reverse=True)
    for old in by_age[MAX_QUARANTINED:]:
        remove(old)
