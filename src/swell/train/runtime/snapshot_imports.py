"""Imports come from the snapshot of a job's code, if its agent made one."""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)

from swell.train.link.code_paths import snapshot_folder, snapshotted
from swell.wire import environ

PYTHONPATH = "PYTHONPATH"
#: As the interpreter's own path hook has them.
LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def use_snapshot() -> None:
    """Called once, before the script runs: `sys.path` and `PYTHONPATH` lead to the snapshot.

    So do the folders that packages in development mode are imported from.
    """
    asked = [path for path in os.environ.get(PYTHONPATH, "").split(os.pathsep) if path]
    sys.path[:0] = [path for path in asked if path not in sys.path]  # this one was read before it was set
    sys.path[:] = [snapshotted(path) for path in sys.path]
    if asked:
        os.environ[PYTHONPATH] = os.pathsep.join(map(snapshotted, asked))
    if snapshot_folder():
        sys.path_hooks.insert(0, _finder)  # of what the script adds to `sys.path`
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):  # setuptools keeps a module with one for each such package
            paths = {name: path for name, path in mapping.items() if isinstance(path, str)}
            mapping.update({name: snapshotted(path) for name, path in paths.items()})


def _finder(path: str) -> FileFinder:
    """A path hook: the modules of a folder of the snapshot. Raises ImportError for any other folder."""
    original = os.path.abspath(_of_job(path))
    twin = snapshotted(original)
    if twin == original:
        raise ImportError(f"{path} is not in the snapshot of the job's code")
    if path in sys.path:  # processes that the script starts by `spawn` get this list, and no path hook
        sys.path.insert(sys.path.index(path), twin)
    return FileFinder(twin, *LOADERS)


def _of_job(path: str) -> str:
    """A trial run works in a mirror of the working directory: what is relative means the job's own."""
    is_trial = os.environ.get(environ.TRIAL) == "1"
    return os.path.join(os.environ.get(environ.WORKDIR, ""), path) if is_trial else path
