"""What may be set, and that it arrives."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.executors.puppets import make_stage

from swell.core.core_settings import CoreSettings
from swell.executors.gang.job_context import GangSettings
from swell.settings import DEFAULTS, RULES, InvalidSettings, make_settings, parse_setting, spell


@pytest.mark.parametrize("kind", [CoreSettings, GangSettings])
def test_every_constant_of_a_part_has_a_setting(kind: Any) -> None:
    follows_from_leases = {"unheard_s"}
    assert {field.name for field in fields(kind)} - follows_from_leases <= set(RULES)


def limits(name: str) -> tuple[float, float]:
    """The least and the most that a setting may be."""
    meta = RULES[name]
    assert meta.ge is not None and meta.le is not None
    return meta.ge, meta.le


@pytest.mark.parametrize("name", RULES)
def test_every_setting_arrives_where_it_counts(name: str) -> None:
    value = min(DEFAULTS[name] * 2, limits(name)[1]) or limits(name)[1]
    changed = make_settings({name: value})
    parts = asdict(changed.core) | asdict(changed.gang_settings)
    parts |= {"lease_s": changed.leases.lease_s, "lease_margin_s": changed.leases.margin_s}
    # `test_fixed_jobs` has what the second one does.
    parts |= {name: changed[name] for name in ("estimate_quantile", "longest_time_s", "session_devices")}
    parts |= asdict(changed.retention) | asdict(changed.code) | asdict(changed.user_rates)
    assert parts[name] == value
    assert changed.changed == {name: value}
    assert RULES[name].description


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=share_of_examples(0.15))
@given(data=st.data())
def test_what_is_spelled_is_read_and_what_is_out_of_bounds_is_not(name: str, data: st.DataObject) -> None:
    least, most = limits(name)
    inside: st.SearchStrategy[float] = (
        st.integers(int(least), int(most))
        if isinstance(DEFAULTS[name], int)
        else st.floats(least, most, allow_subnormal=False)
    )
    value = data.draw(inside)
    assert parse_setting(f"{name}={spell(value)}") == (name, value)
    for beyond in (least - 1, most + 1):
        with pytest.raises(InvalidSettings, match=f"between {spell(least)} and {spell(most)}"):
            parse_setting(f"{name}={spell(beyond)}")


def test_an_interval_between_checkpoints_is_chosen_or_no_shorter_than_a_second() -> None:
    assert make_settings({"checkpoint_interval_s": 0.0}).core.checkpoint_interval_s == 0.0
    error = r"checkpoint_interval_s=0\.5 is too short; it must be 0, .* at least 1"
    with pytest.raises(InvalidSettings, match=error):
        make_settings({"checkpoint_interval_s": 0.5})


def test_a_parameter_of_a_policy_is_a_setting_too() -> None:
    settings = make_settings(dict([parse_setting("tiresias.promote_knob=4"), parse_setting("ready_s=30")]))
    assert settings.changed == {"ready_s": 30.0, "tiresias.promote_knob": 4.0}
    assert make_settings(settings.changed) == settings
    assert settings.parameters_of("tiresias") == {"promote_knob": 4.0} and not settings.parameters_of("fifo")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("tiresias.promote_knob=-1", r"tiresias\.promote_knob=-1 may not be: Expected float >= 0"),
        ("tiresias.promote_knob=inf", r"promote_knob=inf is not a finite number"),
        ("themis.fairness_knob=2", r"fairness_knob=2 may not be: Expected float <= 1"),
        ("tiresias.knob=3", "tiresias has no parameter 'knob'; it has period_s, promote_knob"),
        ("lifo.knob=3", "there is no policy 'lifo'; did you mean fifo?"),
        ("tiresias.promote_knob=x", "'x' is not a number"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_by_name(said: str, error: str) -> None:
    with pytest.raises(InvalidSettings, match=error):
        parse_setting(said)


def test_workers_are_welcomed_with_their_settings() -> None:
    changed = make_settings({"checkpoint_interval_s": 9, "keep_checkpoints": 5, "heartbeat_s": 2})
    stage = replace(make_stage(), settings=changed.gang_settings)
    welcome = stage.welcome((next(iter(stage.bindings)),))
    assert (welcome.checkpoint_interval_s, welcome.keep_checkpoints, welcome.heartbeat_s) == (9, 5, 2)
