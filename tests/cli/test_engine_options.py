"""Which engine `swell up` means: as said now, else as last time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swell.api.errors import InvalidOption
from swell.cli.up import choose
from swell.executors.engine import LocalEngine
from swell.executors.ray.engine import RayEngine
from swell.platform_options import PlatformOptions
from swell.store.folder import StateFolder

NOTHING: dict[str, str] = {}


def chosen(folder: StateFolder, said: dict[str, Any], **of_engine: str | bool) -> PlatformOptions:
    return choose(folder, said, of_engine)[0]


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path)
    made.create()
    return made


def test_a_platform_is_local_unless_another_engine_is_named(folder: StateFolder) -> None:
    assert type(chosen(folder, NOTHING).made_engine) is LocalEngine
    assert chosen(folder, NOTHING).devices == "auto"


def test_machines_join_where_an_address_is_named(folder: StateFolder) -> None:
    choice = chosen(folder, {"listen": "127.0.0.1:0"})
    assert choice.hosts_may_join and not choice.made_engine.encoded()
    assert not LocalEngine().door_at("")


def test_on_ray_the_own_machine_has_no_devices_unless_they_are_named(folder: StateFolder) -> None:
    choice = chosen(folder, {"engine": "ray"})
    assert choice.made_engine == RayEngine() and choice.devices == "none"
    assert chosen(folder, {"engine": "ray", "devices": "cpu:2"}).devices == "cpu:2"


def test_what_was_said_last_time_is_remembered_and_said_again(folder: StateFolder) -> None:
    first = chosen(
        folder, {"engine": "ray"}, address="10.9.0.1:6379", device_resource="seat", is_borrowed=True
    )
    folder.write_options(first)
    second, remembered = choose(folder, {"engine": None}, {})
    made = RayEngine(address="10.9.0.1:6379", device_resource="seat", is_borrowed=True)
    assert second.made_engine == first.made_engine == made
    said = ("--engine ray", "--address 10.9.0.1:6379", "--device-resource seat", "--borrowed")
    assert set(said) <= set(remembered)
    assert chosen(folder, NOTHING, is_borrowed=False).made_engine != made
    assert chosen(folder, NOTHING, address="").made_engine.changed.keys() == {
        "device_resource",
        "is_borrowed",
    }
    assert type(chosen(folder, {"engine": "local"}).made_engine) is LocalEngine


def test_an_option_of_a_version_to_come_is_told(
    folder: StateFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"devices": "cpu:1", "policy": "fifo", "preload": [], "colour": "red"}
    folder.options.write_text(json.dumps(options))
    assert chosen(folder, NOTHING).devices == "auto"
    assert "unknown field `colour`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "of_engine", "named"),
    [
        (NOTHING, {"address": "10.9.0.1:6379"}, "--address"),
        (NOTHING, {"device_resource": "seat"}, "--device-resource"),
        ({"engine": "local"}, {"device_resource": "CPU"}, "--device-resource"),
    ],
)
def test_what_is_about_ray_is_not_ignored_without_it(
    folder: StateFolder, said: dict[str, str], of_engine: dict[str, str | bool], named: str
) -> None:
    with pytest.raises(
        InvalidOption, match=f"{named} is about `--engine ray`: add that, or leave {named} out"
    ):
        chosen(folder, said, **of_engine)


def test_an_engine_or_a_resource_that_there_is_none_of_is_refused(folder: StateFolder) -> None:
    with pytest.raises(InvalidOption, match=r"--engine pbs: .* choose one of local, ray, slurm"):
        chosen(folder, {"engine": "pbs"})
    with pytest.raises(InvalidOption, match=r"--slice-devices 2: .* write cuda:N"):
        _ = chosen(folder, {"engine": "ray"}, slice_devices="2").made_engine


def test_a_remembered_engine_that_is_gone_is_refused(folder: StateFolder) -> None:
    options = {"devices": "none", "policy": "fifo", "preload": [], "engine": "toy"}
    folder.options.write_text(json.dumps(options))
    with pytest.raises(InvalidOption, match="--engine toy: "):
        chosen(folder, NOTHING)


@pytest.mark.parametrize(
    ("options", "resource"),
    [
        ({}, "CPU"),
        ({"slice_devices": "cuda:4"}, "GPU"),
        ({"slice_devices": "paced:4@200"}, "CPU"),
        ({"slice_devices": "cpu:4", "device_resource": "GPU"}, "GPU"),
    ],
)
def test_devices_of_a_slice_are_units_of_a_resource(options: dict[str, str], resource: str) -> None:
    assert RayEngine(**options).resource == resource  # type: ignore[arg-type]
