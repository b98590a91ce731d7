"""What a script's text alone tells: whether it can run, whether it can call Swell, and its batch and end.

Of its batch and end only plain numbers are taken, or names that stand for one number in the whole text: what
a script computes, or takes from its arguments, is known only once it runs.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from swell.api.fields import InvalidField

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


class ScriptNumbers(NamedTuple):
    """Numbers that a script gives to `elastic`; None: it states none, or not as a plain number."""

    batch: int | None = None  #: samples, of the loader
    epochs: int | None = None
    steps: int | None = None


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
    if b"swell" in text or _DYNAMIC.search(text):
        return False
    return {name.partition(".")[0] for name in _imported(tree)} <= LIBRARIES


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that a source imports; empty: one beside it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "") if not node.level else ""


def numbers_of(path: str) -> ScriptNumbers:
    """Read what a script states in its one call of `elastic`; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _numbers_in(file.read())
    except OSError:
        return ScriptNumbers()


@lru_cache(maxsize=MOST_REMEMBERED)
def _numbers_in(text: bytes) -> ScriptNumbers:
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ScriptNumbers()  # that it is no Python is told where it is checked
    calls = [node for node in nodes if isinstance(node, ast.Call) and _called(node) == "elastic"]
    if len(calls) != 1:
        return ScriptNumbers()
    loader = _meant(_argument(calls[0], "loader", 2), nodes)
    batch = None
    if isinstance(loader, ast.Call) and _called(loader) == "DataLoader":
        batch = _argument(loader, "batch_size", 1)
    ends = [_argument(calls[0], name) for name in ("epochs", "steps")]
    return ScriptNumbers(*(_number(_meant(expression, nodes)) for expression in (batch, *ends)))


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """An argument of a call, by its name or its place; None: it has none."""
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
    if by_name or place is None or len(call.args) <= place:
        return by_name[0] if by_name else None
    is_known = not any(isinstance(each, ast.Starred) for each in call.args[: place + 1])
    return call.args[place] if is_known else None


def _meant(expression: ast.expr | None, nodes: Sequence[ast.AST]) -> ast.expr | None:
    """The expression that a name stands for, if it is set once among these; any other is itself."""
    if not isinstance(expression, ast.Name):
        return expression
    values: list[ast.expr | None] = []
    num_set = 0
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == expression.id:
                values.append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if name == expression.id:
                values.append(value)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                num_set += name == expression.id
            case ast.alias(name=module, asname=other):
                num_set += (other or module).partition(".")[0] == expression.id
    return values[0] if len(values) == num_set == 1 else None


def _number(expression: ast.expr | None) -> int | None:
    value = expression.value if isinstance(expression, ast.Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
