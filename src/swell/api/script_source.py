"""What a script's text alone tells: whether it is Python, and whether it can call Swell at all."""

from __future__ import annotations

import ast
import sys
import warnings
from functools import lru_cache
from pathlib import Path

from swell.api.fields import InvalidField
from swell.executors.local.script_sources import DYNAMIC, imported

#: Libraries that a training script imports and that do not call `swell.train.elastic` for it. A script that
#: imports anything else may call it there.
LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "PIL", "accelerate", "cv2", "datasets", "einops", "lightning", "matplotlib", "numpy", "pandas",
    "pytorch_lightning", "scipy", "sklearn", "tensorboard", "timm", "tokenizers", "torch", "torchaudio",
    "torchvision", "tqdm", "transformers", "yaml",
}  # fmt: skip
#: Scripts of which it is remembered what they are: a sweep submits one many times.
MOST_REMEMBERED = 32


def check_source(path: str, is_live: bool) -> None:
    """Raises InvalidField for a script that no worker could run.

    Args:
        is_live: whether the job is resized inside its processes, by calls of its script.
    """
    with open(path, "rb") as file:
        is_silent = _is_silent(file.read(), path)
    if is_live and is_silent:
        raise InvalidField(
            "script",
            f"{path} never calls swell.train.elastic, so there is nothing to resize; call it as "
            "docs/how-to/make-a-script-elastic.md shows, or submit the script with elasticity restart",
        )


@lru_cache(maxsize=MOST_REMEMBERED)
def _is_silent(text: bytes, path: str) -> bool:
    """Whether it is certain that the script does not call Swell. Raises InvalidField: it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, path)
            compile(tree, path, "exec", dont_inherit=True)  # finds a `return` outside of a function, too
    except SyntaxError as error:
        raise InvalidField("script", f"{path}, line {error.lineno}: {error.msg}; correct it") from error
    except ValueError as error:  # a NUL, for example
        raise InvalidField("script", f"{path} is no Python script: {error}; correct it") from error
    except (RecursionError, MemoryError):
        return False  # whether Python can run it, its trial run will tell
    if b"swell" in text or DYNAMIC.search(text):
        return False
    return {name.partition(".")[0] for name in imported(tree, Path(path))} <= LIBRARIES
