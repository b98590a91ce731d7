"""Files of the wheel that a browser may load."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from swell.web.assets import asset

VERSION_DIGITS = 12
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent."""

    content: bytes
    media_type: str
    version: str  #: another one for other content


@cache
def _paths() -> dict[str, str]:
    """Where the files lie that may be asked for, by name: none but those that are there."""
    paths = {file.name: f"static/{file.name}" for file in asset("static").iterdir()}
    for folder in asset("vendor").iterdir():
        if folder.is_dir():
            names = [f"vendor/{folder.name}/{file.name}" for file in folder.iterdir()]
            paths |= dict(zip(names, names, strict=True))
    return {name: path for name, path in paths.items() if PurePosixPath(name).suffix in MEDIA_TYPES}


@cache
def static_file(name: str) -> StaticFile | None:
    """The file of this name below `/static/`; None: there is none."""
    path = _paths().get(name)
    if path is None:
        return None
    content = asset(path).read_bytes()
    version = hashlib.sha256(content).hexdigest()[:VERSION_DIGITS]
    return StaticFile(content, MEDIA_TYPES[PurePosixPath(path).suffix], version)


def static_url(name: str) -> str:
    """Address of this version of a file, which may be kept for ever. Raises FileNotFoundError."""
    found = static_file(name)
    if found is None:
        raise FileNotFoundError(f"there is no static file {name!r}")
    return f"/static/{name}?v={found.version}"
