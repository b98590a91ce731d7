"""Positions of a script's functions in their code, to tell whether an exit left a loop."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FrameType

#: A function's code, and the position in it.
Instruction = tuple[CodeType, int]


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
