"""How many examples the slowest laws have, and what these must show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from swell_papers.variants import variant_policy

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

Arguments = ParamSpec("Arguments")
T = TypeVar("T")


def share_of_examples(share: float) -> int:
    """Of the number that the profile gives, rounded up; `thorough` gives more of them."""
    profile = settings.default
    assert profile is not None
    return math.ceil(share * profile.max_examples)


def fewer_if_quick(number: int) -> int:
    """For a law with a number of its own, whatever the profile's is: a tenth of it in `make test-quick`."""
    return math.ceil(number / 10) if settings.get_current_profile_name() == "quick" else number


def policies(names: Iterable[str]) -> list[str | ParameterSet]:
    """Parameters of a slow law; policies that only evaluations compare with are tried in `make test-soak`."""
    return [
        name if _is_of_product(name) else pytest.param(name, marks=pytest.mark.soak) for name in sorted(names)
    ]


def _is_of_product(name: str) -> bool:
    return type(variant_policy(name)).__module__.startswith("swell.")


@lru_cache(maxsize=None, typed=True)
def pick(*values: T) -> st.SearchStrategy[T]:
    """One of these, by a strategy that is made once: to make one takes longer than to draw from it."""
    return st.sampled_from(values)


class Shown:
    """Kinds of things that happen in the examples of a law: together these must show all of them.

    With other strategies, or a smaller share of examples, the law would fail then, and not try less unseen.
    The few examples of `make test-quick` show what they show.
    """

    def __init__(self, *kinds: str) -> None:
        self.kinds = tuple(dict.fromkeys(kinds))  #: as they were named, each once
        self._seen: set[str] = set()

    def note(self, kinds: Iterable[str]) -> None:
        """An example shows these."""
        self._seen.update(kinds)

    def wholly(self, law: Callable[Arguments, None]) -> Callable[Arguments, None]:
        """The law, a test that stands under `given`, and then that its examples have shown all kinds."""

        @wraps(law)
        def tried(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            self._seen.clear()
            law(*args, **kwargs)
            if settings.get_current_profile_name() == "quick":
                return
            missing = [kind for kind in self.kinds if kind not in self._seen]
            assert not missing, f"no example shows {', '.join(missing)}: draw more, or longer ones"

        return tried
