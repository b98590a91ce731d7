"""What a script's text alone tells: whether it can run, and whether it can call Swell."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from swell.wire.untrusted_files import read_regular

#: Libraries that a training script imports and that do not call `swell.train.elastic` for it. A script that
#: imports anything else may call it there, or is elastic by `swell.train.libraries`.
LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "PIL", "cv2", "datasets", "einops", "matplotlib", "numpy", "pandas", "scipy", "sklearn", "tensorboard",
    "timm", "tokenizers", "torch", "torchaudio", "torchvision", "tqdm", "transformers", "yaml",
}  # fmt: skip
#: With one of these a script may import, or run, what its source does not name; or `transformers` trains it.
_DYNAMIC = re.compile(rb"\b(importlib|import_module|__import__|runpy|exec|execfile)\b|Trainer")
#: Scripts of which it is remembered what they tell: a sweep submits one many times.
MOST_REMEMBERED = 32
#: A larger file is data, not a script. To parse one may take a thousand times as much memory.
MAX_SCRIPT_BYTES = 1 << 20


def script_fault(path: str, is_live: bool) -> str:
    """Why no worker could run a script; empty: no reason is known.

    Args:
        is_live: whether the job is resized inside its processes, by calls of its script.
    """
    try:
        text = read_regular(Path(os.path.realpath(path)), MAX_SCRIPT_BYTES)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror}); give the path of a Python script"
    return _text_fault(text, path, is_live)


@lru_cache(maxsize=MOST_REMEMBERED)
def _text_fault(text: bytes, path: str, is_live: bool) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, path)
            compile(tree, path, "exec", dont_inherit=True)  # finds a `return` outside of a function, too
    except SyntaxError as error:
        return f"{path}, line {error.lineno}: {error.msg}; correct it"
    except ValueError as error:  # a NUL, for example
        return f"{path} is no Python script: {error}; correct it"
    except MemoryError:
        return f"{path} is too large or nested too deeply to be parsed; split it into modules"
    except RecursionError:
        return ""  # whether Python can run it, its trial run will tell
    may_call = not is_live or b"swell" in text or _DYNAMIC.search(text) is not None
    if may_call or not {name.partition(".")[0] for name in _imported(tree)} <= LIBRARIES:
        return ""
    return (
        f"{path} never calls swell.train.elastic, so there is nothing to resize; call it as "
        "docs/how-to/make-a-script-elastic.md shows, or submit the script with elasticity restart"
    )


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that a source imports; empty: one of its own folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "") if not node.level else ""
