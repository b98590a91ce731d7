"""Builds the library of compiled loops, `swell/_loops.abi3.so`: once, for every Python and every processor.

numba translates the loops, the machine's C compiler links them with `shim.c`. To run them neither is needed.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
from numba import _dynfunc, carray, njit, types
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod
from numba.extending import intrinsic

from swell.compiled import linked_with, name_of, part_options
from swell.loops.entry import CannotBuild, LoopEntry, entry_of

HERE = Path(__file__).parent
LIBRARY = HERE.parent / "_loops.abi3.so"
NUMBA = Path(numba.__file__).parent


def build(calls: Mapping[Callable[..., Any], Sequence[object]], library: Path = LIBRARY) -> None:
    """Build all loops for the types of one call of each.

    Raises:
        CannotBuild: a loop's types cannot be, or the C compiler is missing or failed; the text says which.
    """
    entries = {kernel: entry_of(kernel, arguments) for kernel, arguments in calls.items()}
    with tempfile.TemporaryDirectory() as folder:
        objects, header = Path(folder, "loops.o"), Path(folder, "loops.h")
        objects.write_bytes(_translate(entries))
        header.write_text(_table(entries), encoding="utf-8")
        made = Path(folder, library.name)
        _link(objects, made)
        # At one go: another process may be loading the library that is replaced.
        beside = library.with_name(f"{library.name}.{os.getpid()}")
        beside.write_bytes(made.read_bytes())
        beside.replace(library)


@global_compiler_lock  # type: ignore[untyped-decorator]
def _translate(entries: Mapping[Callable[..., Any], LoopEntry]) -> bytes:
    """An object file with a function `loop_N` for each."""
    context = _ahead_of_time()
    libraries = [(_compile(kernel, entry)) for kernel, entry in entries.items()]
    context.codegen()._library_class = codegen.AOTCodeLibrary
    whole = context.codegen().create_library("swell_loops")
    for one, symbol in libraries:
        # A loop's own function stays, and its parts, of which other loops have the same, are merged.
        one._get_module_for_linking().get_function(symbol).linkage = "external"
        whole.add_linking_library(one)
    allocation, _ = nrtdynmod.create_nrt_module(context)
    whole.add_ir_module(allocation)
    whole.finalize()
    for number, (_, symbol) in enumerate(libraries):
        whole.get_function(symbol).name = f"loop_{number}"
    return bytes(whole.emit_native_object())


def _ahead_of_time() -> Any:
    """Make numba in this process translate for any processor from now on; what it makes is not run.

    Returns:
        The context with which it translates.
    """
    context = cpu_target.target_context.with_aot_codegen("swell_loops")
    context.codegen()._library_class = _Unoptimized
    context.get_executable = _no_executable
    cpu_target.__dict__["_toplevel_target_context"] = context
    return context


class _Unoptimized(codegen.AOTCodeLibrary):  # type: ignore[misc]
    """The library of one function, not optimized on its own.

    All are optimized once, together, instead of each again within each that calls it.
    """

    def _optimize_final_module(self) -> None:
        return


def _no_executable(library: Any, function: Any, environment: Any) -> Any:
    """What numba keeps of a function in order to know it again."""
    library._ensure_finalized()
    name = function.qualname.split(".")[-1]
    return _dynfunc.make_function(function.lookup_module(), name, "", 0, environment, (library,))


def _compile(kernel: Callable[..., Any], entry: LoopEntry) -> tuple[Any, str]:
    names = {**entry.names, "carray": carray, "address": _address, "kernel": _part(kernel)}
    exec(entry.source, names)  # noqa: S102 - written by `entry`
    enter = cast(FunctionType, names["enter"])
    enter.__qualname__ = name_of(kernel).replace(".", "_")
    dispatcher = njit(**part_options(enter))(enter)
    dispatcher.compile((types.voidptr,))
    made = dispatcher.overloads[(types.voidptr,)]
    return made.library, made.fndesc.llvm_func_name


@cache
def _part(kernel: FunctionType) -> Any:
    return njit(**part_options(kernel))(linked_with(kernel, _part))


@intrinsic  # type: ignore[untyped-decorator]
def _address(typing_context: Any, number: Any) -> Any:
    """A pointer from the number that it is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


def _table(entries: Mapping[Callable[..., Any], LoopEntry]) -> str:
    """`loops.h` for `shim.c`."""
    lines = [f"#define MOST_NUMBERS {max(entry.num_numbers for entry in entries.values())}"]
    lines.append(f"#define NUM_LOOPS {len(entries)}")
    rows = []
    for number, (kernel, entry) in enumerate(entries.items()):
        lines.append(f"extern int32_t loop_{number}(void **, Raised **, void *);")
        rows.append(f'    {{"{name_of(kernel)}", "{entry.arguments}", "{entry.returns}", loop_{number}}},')
    return "\n".join([*lines, "static const Loop LOOPS[] = {", *rows, "};", ""])


def _link(objects: Path, library: Path) -> None:
    compiler = os.environ.get("CC", "cc")
    common = [compiler, "-O2", "-fPIC", "-fvisibility=hidden", f"-I{objects.parent}"]
    shim, allocation = objects.with_name("shim.o"), objects.with_name("nrt.o")
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
    _run([*common, *includes, "-c", str(HERE / "shim.c"), "-o", str(shim)])
    plain = ["-fno-exceptions", "-fno-rtti", f"-I{sysconfig.get_path('include')}"]
    _run([*common, *plain, "-c", str(NUMBA / "core/runtime/nrt.cpp"), "-o", str(allocation)])
    parts = [str(objects), str(shim), str(allocation)]
    _run([*common, "-shared", "-Wl,--gc-sections", "-s", *parts, "-lm", "-o", str(library)])
    try:
        ctypes.CDLL(str(library), mode=os.RTLD_NOW)
    except OSError as error:  # a loop calls a function of NumPy that is not machine code alone
        raise CannotBuild(f"the loops need more than the library has: {error}; write it as a loop") from error


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise CannotBuild(
            f"there is no C compiler {command[0]!r} on this machine; install one or set CC"
        ) from error
    except subprocess.CalledProcessError as error:
        raise CannotBuild(f"{' '.join(command)} failed:\n{error.stderr}") from error
