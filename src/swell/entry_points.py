"""What installed packages register as Swell's: names in their metadata, which are read without an import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A name under which an installed package registers something of its own."""

    name: str
    value: str  #: module, `:`, name in it
    package: str  #: name and version

    def load(self) -> Any:
        """Import it. Raises whatever its import raises."""
        module, _, place = self.value.partition(":")
        return reduce(getattr, filter(None, place.split(".")), import_module(module))


def entry_points_of(group: str) -> Iterator[EntryPoint]:
    """What installed packages register; the first installation of a package counts.

    Files are read here because `importlib.metadata` imports 49 modules, which takes 60 ms.
    """
    known = set[str]()
    for folder in map(Path, sys.path):
        for info in chain(folder.glob("*.dist-info"), folder.glob("*.egg-info")):
            package = info.name.partition("-")[0].removesuffix(".egg").lower()
            if package not in known:
                known.add(package)
                yield from _registered(info, group)


def _registered(info: Path, group: str) -> Iterator[EntryPoint]:
    """What one package registers, by its folder of metadata."""
    section = ""
    for line in map(str.strip, _text(info / "entry_points.txt").splitlines()):
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.partition("[")[0].strip(), _package(info))


def _package(info: Path) -> str:
    """Name and version."""
    head = (_text(info / "METADATA") or _text(info / "PKG-INFO")).partition("\n\n")[0]
    told = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    return f"{told.get('Name', info.stem)} {told.get('Version', '')}".strip()


def _text(file: Path) -> str:
    """Empty where there is none, or it is another user's."""
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def repair(package: str, why: str) -> str:
    """Why something of a package cannot be used, and what to do."""
    return (
        f"of package {package} cannot be used ({why}); repair or update that "
        f"package, or remove it with `pip uninstall {package.split()[0]}`"
    )


def how_to_install(what: str, package: str) -> str:
    """What to do where something is asked for that another package has, which is on no index yet."""
    return f"{what} is in package {package}: `{sys.executable} -m pip install ./papers` in a clone of Swell"
