"""Why a job failed, as one sentence: what its message says last, and where in the user's script."""

from __future__ import annotations

import itertools
import re

from swell.model.view import JobView

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^[ \t|]*File "([^"]+)", line (\d+).*$', re.MULTILINE)
#: Not of the user's script: what is installed, what Python brings, what has no file, and Swell's library.
_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python3[.\d]*/|/swell/train/")
#: The class of an error of Swell's own says no more than its text.
_OWN = re.compile(r"^swell\.[\w.]+: ")
#: After this a message goes on with lines of the script's output.
LOG_ENDS = "its log ends:"
MAX_CHARS = 500


def failure_sentence(message: str) -> str:
    """Return the sentence of a failure's message: `KeyError: 'lr' (train.py:12)`.

    A message may be a traceback, with sentences of Swell before it, or end with lines of a log.
    """
    message = message.strip()
    frames = list(_FRAME.finditer(message))
    if not frames:
        said, *rest = message.splitlines() or [""]
        if rest and said.endswith(":"):
            last = rest[-1].strip()
            said = last if said == _TRACEBACK else f"{said} {last}"
        return _short(_OWN.sub("", said))
    said = f"{_error(message[frames[-1].end() :])}{_place(frames)}"
    return _short("; ".join([said, *_advice(message[: frames[0].start()])]))


def why_failed(view: JobView) -> str:
    """Return in a sentence why a job failed: by its message, or else by its reason."""
    return failure_sentence(view.message) or view.reason


def _error(text: str) -> str:
    """Return the error's own words of the text after the last frame, which begins with its source line."""
    lines = [line.lstrip("| \t") if line.lstrip().startswith("|") else line for line in text.splitlines()]
    said = itertools.dropwhile(lambda line: not line or line[0].isspace(), lines)
    first, *rest = [*said] or ["an error"]
    more = next((line.strip() for line in rest if line.strip()), "")
    return _OWN.sub("", f"{first} {more}" if first.endswith(":") and more else first)


def _place(frames: list[re.Match[str]]) -> str:
    own = [(path, line) for path, line in (frame.groups() for frame in frames) if not _LIBRARY.search(path)]
    return f" ({own[-1][0].rpartition('/')[2]}:{own[-1][1]})" if own else ""


def _advice(head: str) -> list[str]:
    """Return what Swell says before the traceback, without headings; none of it where a log stands there."""
    if LOG_ENDS in head:
        return []
    lines = (line.strip() for line in head.splitlines())
    return [line for line in lines if line and not line.endswith(":") and line != _TRACEBACK]


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 3]}..."
