"""What a script's text alone tells: whether it can run, and whether it can call Swell."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from swell.wire.untrusted_files import read_regular

#: Libraries that a training script imports and that do not call `swell.train.elastic` for it. A script that
#: imports anything else may call it there.
LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "PIL", "accelerate", "cv2", "datasets", "einops", "lightning", "matplotlib", "numpy", "pandas",
    "pytorch_lightning", "scipy", "sklearn", "tensorboard", "timm", "tokenizers", "torch", "torchaudio",
    "torchvision", "tqdm", "transformers", "yaml",
}  # fmt: skip
#: With one of these a script may import, or run, what its source does not name.
_DYNAMIC = re.compile(rb"\b(importlib|import_module|__import__|runpy|exec|execfile)\b")
#: Scripts of which it is remembered what they tell: a sweep submits one many times.
MOST_REMEMBERED = 32
#: A larger file is data, not a script. To parse one may take a thousand times as much memory.
MAX_SCRIPT_BYTES = 1 << 20


class ScriptSource(NamedTuple):
    """What a script's text tells."""

    fault: str = ""  #: why no worker could run it; empty: that is not known
    is_silent: bool = False  #: it is certain that it does not call Swell


#: What reads a script, in this process or in another one.
ReadScript = Callable[[str], ScriptSource]


def read_script(path: str) -> ScriptSource:
    """Parse a script once; one that cannot be read has a fault."""
    try:
        text = read_regular(Path(os.path.realpath(path)), MAX_SCRIPT_BYTES)
    except OSError as error:
        return ScriptSource(f"{path} cannot be read ({error.strerror}); give the path of a Python script")
    return _parsed(text, path)


@lru_cache(maxsize=MOST_REMEMBERED)
def _parsed(text: bytes, path: str) -> ScriptSource:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, path)
            compile(tree, path, "exec", dont_inherit=True)  # finds a `return` outside of a function, too
    except SyntaxError as error:
        return ScriptSource(f"{path}, line {error.lineno}: {error.msg}; correct it")
    except ValueError as error:  # a NUL, for example
        return ScriptSource(f"{path} is no Python script: {error}; correct it")
    except MemoryError:
        return ScriptSource(f"{path} is too large or nested too deeply to be parsed; split it into modules")
    except RecursionError:
        return ScriptSource()  # whether Python can run it, its trial run will tell
    may_call = b"swell" in text or _DYNAMIC.search(text) is not None
    is_silent = not may_call and {name.partition(".")[0] for name in _imported(tree)} <= LIBRARIES
    return ScriptSource("", is_silent)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that a source imports; empty: one beside it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "") if not node.level else ""
