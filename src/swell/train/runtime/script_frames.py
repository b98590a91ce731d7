"""Places in the user's script, found from the frames of a call, and whether an exit left a loop there."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType

from swell.train.link.code_paths import submitted
from swell.wire.library_paths import is_library

#: A function's code, and the position in it.
Instruction = tuple[CodeType, int]

_OWN = str(Path(__file__).parents[1])
_FEEDING = (str(Path(_OWN, "data")), str(Path(_OWN, "runtime", "run.py")))


def is_feeding(frame: FrameType | None) -> bool:
    """Whether the call is part of loading a batch, and none that the loop's body makes."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OWN):
            return frame.f_code.co_filename.startswith(_FEEDING)
        frame = frame.f_back
    return False


def place_of_error(error: BaseException) -> str:
    """Return the place in the script's innermost call in which an error was raised."""
    places = [
        f"{submitted(frame.f_code.co_filename)}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename)
    ]
    return places[-1] if places else ""


def is_own(frame: FrameType) -> bool:
    """Whether a call was made by Swell's library."""
    return frame.f_code.co_filename.startswith(_OWN)


def is_of_swell(error: BaseException) -> bool:
    """Whether Swell raised an error on purpose: its text says all, and frames of Swell add nothing."""
    if type(error).__module__.startswith("swell."):
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not is_own(frames[-1][0]):
        return False
    frame, line = frames[-1]
    return linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("raise ")


def where_calls_stand(frame: FrameType | None) -> list[Instruction]:
    """Return where a function stands, and all that have called it, the innermost first."""
    found = []
    while frame is not None:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return found


def is_raised_at(calls: Sequence[Instruction], error: BaseException) -> bool:
    """Tell whether an error was raised below these calls, and not after they had gone on.

    The innermost of these functions through which the error has come still stands where it stood.
    """
    positions: dict[CodeType, int] = {}
    entry = error.__traceback__
    while entry is not None:
        positions[entry.tb_frame.f_code] = entry.tb_lasti
        entry = entry.tb_next
    stood = next((call for call in calls if call[0] in positions), None)
    return stood is not None and positions[stood[0]] == stood[1]
