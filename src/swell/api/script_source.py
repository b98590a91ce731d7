"""What a script's text alone tells: whether it can run, whether it can call Swell, and its batch and end.

Of its batch and end only plain numbers are taken, or names that stand for one number in the whole text: what
a script computes, or takes from its arguments, is known only once it runs.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
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


class ScriptNumbers(NamedTuple):
    """Numbers that a script gives to `elastic`; None: it states none, or not as a plain number."""

    batch: int | None = None  #: samples, of the loader
    epochs: int | None = None
    steps: int | None = None


class ScriptSource(NamedTuple):
    """What a script's text tells."""

    fault: str = ""  #: why no worker could run it; empty: that is not known
    is_silent: bool = False  #: it is certain that it does not call Swell
    numbers: ScriptNumbers = ScriptNumbers()


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
    nodes = [*ast.walk(tree)]
    may_call = b"swell" in text or _DYNAMIC.search(text) is not None
    is_silent = not may_call and {name.partition(".")[0] for name in _imported(nodes)} <= LIBRARIES
    return ScriptSource("", is_silent, _numbers_in(nodes))


def _imported(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Names of the modules that a source imports; empty: one beside it."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "") if not node.level else ""


def _numbers_in(nodes: Sequence[ast.AST]) -> ScriptNumbers:
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
