"""Options that take a deadline have one shape, whichever command has them."""

from __future__ import annotations

import re

import pytest

from swell.api import fields
from swell.api.submission import MOMENT
from swell.cli.commands import load

#: Commands about one job's deadline, and their options that take one.
OPTIONS = [
    ("submit", "deadline"),
    ("submit", "accept_until"),
    ("retry", "deadline"),
    ("continue", "deadline"),
    ("promise", "deadline"),
    ("promise", "accept_until"),
]


@pytest.mark.parametrize(("command", "name"), OPTIONS)
def test_an_option_that_takes_a_deadline_says_how_one_is_written(command: str, name: str) -> None:
    (option,) = [one for one in load(command).params if one.name == name]
    assert option.metavar == "TIME"
    assert not option.show_default
    found = re.search(rf"(now\+\S+) or ({MOMENT})\.", option.help)
    assert found is not None
    now_s = fields.deadline(found[2], 0.0)
    assert now_s is not None
    later_s = fields.deadline(found[1], now_s)
    assert later_s is not None and later_s > now_s
    assert option.required == ((command, name) == ("promise", "deadline"))
