"""Whether the machine code of a policy's loops is on disk: a mark beside it, made when all of it was."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from swell import compiled

PACKAGE = Path(compiled.__file__).parent


def is_compiled(policy: str) -> bool:
    """For this source, this compiler and this machine."""
    return _mark(policy).exists()


def note_compiled(policy: str) -> None:
    """All of it is on disk now. Without a place for the mark it is found out anew each time."""
    mark = _mark(policy)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:
        return


def _mark(policy: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "swell" / f"loops-{policy}-{_digest()}"


def _digest() -> str:
    """Of all that the machine code depends on."""
    sources = sorted(PACKAGE.glob("*.py"))
    for package in ("core", "model", "placement", "policies", "solvers", "throughput"):
        sources += sorted((PACKAGE / package).rglob("*.py"))
    stamps = [(str(source), source.stat().st_mtime_ns, source.stat().st_size) for source in sources]
    machine = (platform.node(), platform.machine(), sys.version, os.environ.get("NUMBA_CACHE_DIR"))
    compiler = [importlib.metadata.version(name) for name in ("numba", "llvmlite", "numpy")]
    return hashlib.sha256(repr((stamps, machine, compiler)).encode()).hexdigest()[:16]
