"""What a script's text alone tells: whether it is Python, and whether it can call Swell at all."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator

from swell.api.fields import InvalidField

#: Libraries that a training script imports and that do not call `swell.train.elastic` for it. A script that
#: imports anything else may call it there.
LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "PIL", "accelerate", "cv2", "datasets", "einops", "lightning", "matplotlib", "numpy", "pandas",
    "pytorch_lightning", "scipy", "sklearn", "tensorboard", "timm", "tokenizers", "torch", "torchaudio",
    "torchvision", "tqdm", "transformers", "yaml",
}  # fmt: skip
#: What may run another script.
RUNNING = re.compile(rb"\b(__import__|exec|importlib|runpy)\b")


def check_source(path: str, is_live: bool) -> None:
    """Raises InvalidField for a script that no worker could run.

    Args:
        is_live: whether the job is resized inside its processes, by calls of its script.
    """
    with open(path, "rb") as file:
        text = file.read()
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
        return  # whether Python can run it, its trial run will tell
    is_silent = b"swell" not in text and _imported(tree) <= LIBRARIES and not RUNNING.search(text)
    if is_live and is_silent:
        raise InvalidField(
            "script",
            f"{path} never calls swell.train.elastic, so there is nothing to resize; call it as "
            "docs/how-to/make-a-script-elastic.md shows, or submit the script with elasticity restart",
        )


def _imported(tree: ast.Module) -> set[str]:
    """The first names of the modules that a script imports; an empty one stands for its own package."""
    return {name.partition(".")[0] for node in ast.walk(tree) for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "" if node.level else node.module or ""
