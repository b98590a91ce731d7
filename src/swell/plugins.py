"""What is registered by name: Swell's own classes, and those that installed packages add by entry points."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast, get_type_hints

import msgspec

from swell.entry_points import EntryPoint, entry_points_of, how_to_install, repair

#: Longer than an import takes on a busy machine.
IMPORT_LIMIT_S = 30.0


class RegistryEntry(msgspec.Struct, kw_only=True):
    """A value: its fields are its options, with bounds and meanings; class variables declare the rest."""

    name: ClassVar[str]


RegisteredT = TypeVar("RegisteredT", bound=RegistryEntry)


class Registry(Mapping[str, type[RegisteredT]], Generic[RegisteredT]):
    """Classes of one kind by name, Swell's own first. Packages are looked through when others are needed.

    A class that cannot be used is left out, so that it keeps no other from being used: `broken` says why.
    """

    def __init__(
        self,
        kind: type[RegisteredT],
        group: str,
        own: Iterable[type[RegisteredT]],
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """The registry of one kind.

        Args:
            group: of entry points.
            elsewhere: packages to install, by the names that they have classes of.

        Raises:
            TypeError: see `declared`.
        """
        self._kind, self._group = kind, group
        self.noun = _noun(kind)
        self.own = {one.name: declared(one) for one in own}
        self._elsewhere = elsewhere
        self.broken: dict[str, str] = {}  #: why, with what to do, by name
        self.packages: dict[str, str] = {}  #: name and version, by name of what is not Swell's own

    @cached_property
    def _others(self) -> dict[str, type[RegisteredT]]:
        others: dict[str, type[RegisteredT]] = {}
        for point in entry_points_of(self._group):
            package = point.package
            try:
                if point.name in self.own or point.name in others:
                    owner = f"package {self.packages[point.name]}" if point.name in others else "Swell"
                    raise TypeError(f"{owner} has a {self.noun} of this name")
                others[point.name] = self._usable(point)
                self.packages[point.name] = package
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever another package does
                self._break(point.name, package, f"{type(error).__name__}: {' '.join(str(error).split())}")
        return others

    def refuse(self, name: str, why: str) -> None:
        """What an installed package has registered cannot be used from now on."""
        del self._others[name]
        self._break(name, self.packages.pop(name), why)

    def _break(self, name: str, package: str, why: str) -> None:
        self.broken[name] = f"{self.noun} {name!r} {repair(package, why)}"

    def _usable(self, point: EntryPoint) -> type[RegisteredT]:
        """Raises whatever is wrong with it."""
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, self._kind)):
            raise TypeError(f"{point.value} is no subclass of {self._kind.__module__}.{self._kind.__name__}")
        if declared(found).name != point.name:
            raise TypeError(f"its entry point has another name than the class, {found.name!r}")
        return found

    def __getitem__(self, name: str) -> type[RegisteredT]:
        return self.own[name] if name in self.own else self._others[name]

    def __iter__(self) -> Iterator[str]:
        return chain(self.own, self._others)

    def __len__(self) -> int:
        return len(self.own) + len(self._others)

    def why_not(self, name: str) -> str:
        """Why there is none of that name, with what to do."""
        if name in self._elsewhere and name not in self.broken:
            return how_to_install(f"{self.noun} {name!r}", self._elsewhere[name])
        others = f"choose one of {', '.join(sorted(self))}"
        rule = did_you_mean(name, self) or others
        return self.broken.get(name, f"there is no {self.noun} {name!r}; {rule}")


def _noun(kind: type[RegistryEntry]) -> str:
    """What the sort of the class is called: `policy`, `engine`."""
    return next(base.__name__.lower() for base in kind.__mro__ if RegistryEntry in base.__bases__)


def declared(kind: type[RegisteredT]) -> type[RegisteredT]:
    """The class itself, if what it declares is in order.

    Raises:
        TypeError: it has no name, sets what none of its sort has, or has an option without a meaning or with
            a default that it may not have. The text names the remedy.
    """
    noun = _noun(kind)
    what = f"{noun} {kind.__name__}"
    if "name" not in vars(kind):
        raise TypeError(f"{what} has no name: give the class a `name`")
    if not kind.name.isidentifier():
        raise TypeError(f"{what} has the name {kind.name!r}: use letters, digits and _ alone")
    for field in kind.__struct_fields__:
        meaning(kind, field)
    for attribute in vars(kind):
        if attribute != "name" and not _is_known(kind, attribute):
            raise TypeError(
                f"{what} sets {attribute!r}, which no {noun} has: is it misspelt? "
                "annotate it as ClassVar if it is its own"
            )
    try:
        msgspec.convert(msgspec.to_builtins(kind()), kind)
    except msgspec.ValidationError as error:
        raise TypeError(f"a default of {what} is out of its own bounds: {error}") from error
    return kind


def _is_known(kind: type[RegistryEntry], attribute: str) -> bool:
    is_own = attribute in kind.__struct_fields__ or attribute in inspect.get_annotations(kind)
    found = getattr(kind, attribute)
    is_helper = attribute.startswith("_") or callable(found) or isinstance(found, property)
    return is_own or is_helper or any(hasattr(base, attribute) for base in kind.__mro__[1:])


@cache
def type_hints(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Annotations of the fields of a class, with their meanings. To read them takes a millisecond or two."""
    return MappingProxyType(get_type_hints(kind, include_extras=True))


def meaning(kind: type[RegistryEntry], field: str) -> msgspec.Meta:
    """Return the description of an option, with its bounds.

    Raises:
        TypeError: it has none.
    """
    hint = type_hints(kind)[field]
    for meta in getattr(hint, "__metadata__", ()):
        return cast(msgspec.Meta, meta)
    raise TypeError(
        f"option {field!r} of {_noun(kind)} {kind.__name__} has no meaning: "
        "annotate it as Annotated[float, msgspec.Meta(ge=..., description=...)]"
    )


def why_not_importable(place: str) -> str:
    """Why `module:name` cannot be imported, tried in a process of its own; empty: it can."""
    module, _, name = place.partition(":")
    program = "import importlib, sys; getattr(importlib.import_module(sys.argv[1]), sys.argv[2])"
    words = [sys.executable, "-P", "-c", program, module, name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=IMPORT_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"it takes more than {IMPORT_LIMIT_S:g} s"
    return "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def broken_rule(kind: type[RegistryEntry], option: str, value: object) -> str:
    """The rule that this value of an option breaks; empty: none."""
    try:
        msgspec.convert({option: value}, kind, strict=False)
    except msgspec.ValidationError as error:
        return str(error).partition(" - at ")[0].replace("`", "")
    return ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean epochs?`; empty if no known word is similar."""
    from difflib import get_close_matches  # only a mistake has to wait for it

    found = get_close_matches(word, [*known], cutoff=0.7)
    return f"did you mean {' or '.join(found)}?" if found else ""
