"""Times as Slurm writes them, in all of its formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick

from swell.api.sbatch.time_limit import parse_time_limit

NUMBERS = st.integers(0, 999)
UNITS_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
#: Each format of the manual, and what its parts are.
FORMATS = {
    "{m}": "m",
    "{m}:{s}": "ms",
    "{h}:{m}:{s}": "hms",
    "{d}-{h}": "dh",
    "{d}-{h}:{m}": "dhm",
    "{d}-{h}:{m}:{s}": "dhms",
}


@given(pick(*FORMATS), st.fixed_dictionaries(dict.fromkeys("dhms", NUMBERS)), pick("", "0"))
def test_a_time_is_the_sum_of_its_parts(form: str, parts: dict[str, int], padding: str) -> None:
    text = form.format(**{unit: f"{padding}{number}" for unit, number in parts.items()})
    expected = sum(parts[unit] * UNITS_S[unit] for unit in FORMATS[form])
    assert parse_time_limit(text) == (expected or None), "Slurm reads 0 as no limit"


@pytest.mark.parametrize("text", ["UNLIMITED", "infinite", "0", "00:00:00", "-1"])
def test_no_limit(text: str) -> None:
    assert parse_time_limit(text) is None


@given(st.text(st.sampled_from("0123456789:-dhm "), max_size=8))
def test_anything_else_is_refused_with_the_formats(text: str) -> None:
    try:
        seconds = parse_time_limit(text)
    except ValueError as error:
        assert "days-hours[:minutes[:seconds]]" in str(error)
    else:
        assert seconds is None or seconds > 0
        assert text == "-1" or set(text) <= set("0123456789:-")
