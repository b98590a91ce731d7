"""Which engine `swell up` means: as said now, else as last time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swell.api.errors import InvalidOption
from swell.cli.remembered import ChosenOptions, choose
from swell.cli.up_options import UpOptions
from swell.executors.local.engine import LocalEngine
from swell.executors.ray.engine import RayEngine
from swell.executors.ray.options import InvalidResource, parse_resource
from swell.store.folder import StateFolder

NOTHING: dict[str, str] = {}


def chosen(folder: StateFolder, said: dict[str, Any], **of_engine: str | bool) -> ChosenOptions:
    return choose(folder, UpOptions(**said), of_engine)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path)
    made.create()
    return made


def test_a_platform_is_local_unless_another_engine_is_named(folder: StateFolder) -> None:
    assert type(chosen(folder, NOTHING).engine) is LocalEngine
    assert chosen(folder, NOTHING).options.devices == "auto"


def test_machines_join_where_an_address_is_named(folder: StateFolder) -> None:
    choice = chosen(folder, {"listen": "127.0.0.1:0"})
    assert choice.engine.door_at(choice.listen) and not choice.engine.encoded()
    assert not LocalEngine().door_at("")


def test_on_ray_the_own_machine_has_no_devices_unless_they_are_named(folder: StateFolder) -> None:
    choice = chosen(folder, {"engine": "ray"})
    assert choice.engine == RayEngine() and choice.options.devices == "none"
    assert chosen(folder, {"engine": "ray", "devices": "cpu:2"}).options.devices == "cpu:2"


def test_what_was_said_last_time_is_remembered_and_said_again(folder: StateFolder) -> None:
    first = chosen(
        folder, {"engine": "ray"}, address="10.9.0.1:6379", device_resource="GPU=cpu", is_borrowed=True
    )
    folder.write_options(first.options)
    second = chosen(folder, NOTHING)
    made = RayEngine(address="10.9.0.1:6379", device_resource="GPU=cpu", is_borrowed=True)
    assert second.engine == first.engine == made
    said = ("--engine ray", "--address 10.9.0.1:6379", "--device-resource GPU=cpu", "--borrowed")
    assert set(said) <= set(second.remembered)
    assert " ".join(said[1:]) in " ".join(second.words)
    assert chosen(folder, NOTHING, is_borrowed=False).engine != made
    assert chosen(folder, NOTHING, address="").engine.changed.keys() == {"device_resource", "is_borrowed"}
    assert type(chosen(folder, {"engine": "local"}).engine) is LocalEngine


def test_options_of_an_engine_are_read_where_earlier_versions_wrote_them(folder: StateFolder) -> None:
    of_ray = {"ray_address": "10.9.0.1:6379", "device_resource": "GPU=cpu", "is_borrowed": True}
    options = {"devices": "none", "policy": "fifo", "preload": [], "engine": "ray", **of_ray}
    folder.options.write_text(json.dumps(options))
    made = RayEngine(address="10.9.0.1:6379", device_resource="GPU=cpu", is_borrowed=True)
    assert chosen(folder, NOTHING).engine == made
    not_given = {"ray_address": "", "device_resource": "", "is_borrowed": False}
    folder.options.write_text(json.dumps({**options, "engine": "local", **not_given}))
    assert type(chosen(folder, NOTHING).engine) is LocalEngine


def test_an_option_of_a_version_to_come_is_told(
    folder: StateFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"devices": "cpu:1", "policy": "fifo", "preload": [], "colour": "red"}
    folder.options.write_text(json.dumps(options))
    assert chosen(folder, NOTHING).options.devices == "auto"
    assert "has 'colour', which this version does not know" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "of_engine", "named"),
    [
        (NOTHING, {"address": "10.9.0.1:6379"}, "--address"),
        (NOTHING, {"device_resource": "GPU=cpu"}, "--device-resource"),
        ({"engine": "local"}, {"is_borrowed": True}, "--borrowed"),
    ],
)
def test_what_is_about_ray_is_not_ignored_without_it(
    folder: StateFolder, said: dict[str, str], of_engine: dict[str, str | bool], named: str
) -> None:
    with pytest.raises(
        InvalidOption, match=f"{named} is about `--engine ray`: add that, or leave {named} out"
    ):
        chosen(folder, said, **of_engine)


def test_an_error_names_what_was_remembered_only_if_it_is_about_that(folder: StateFolder) -> None:
    first = chosen(folder, {"engine": "ray"}, address="10.9.0.1:6379", is_borrowed=True)
    folder.write_options(first.options)
    with (
        pytest.raises(InvalidOption, match=r"^--policy magic: odd$"),
        chosen(folder, NOTHING).explained(),
    ):
        raise InvalidOption("--policy magic: odd")
    told = (
        r"--address 10.9.0.1:6379: odd \(--address 10.9.0.1:6379 is from the last `swell up`; give another\)"
    )
    with pytest.raises(InvalidOption, match=told), chosen(folder, NOTHING).explained():
        raise InvalidOption("--address 10.9.0.1:6379: odd")


def test_an_engine_or_a_resource_that_there_is_none_of_is_refused(folder: StateFolder) -> None:
    with pytest.raises(InvalidOption, match=r"--engine pbs: .* choose one of local, ray, slurm"):
        chosen(folder, {"engine": "pbs"})
    with pytest.raises(InvalidOption, match=r"--device-resource GPU=gpu: .* write a resource of Ray"):
        _ = chosen(folder, {"engine": "ray"}, device_resource="GPU=gpu").engine


def test_a_remembered_engine_that_is_gone_is_said_to_be_remembered(folder: StateFolder) -> None:
    options = {"devices": "none", "policy": "fifo", "preload": [], "engine": "toy"}
    folder.options.write_text(json.dumps(options))
    with pytest.raises(InvalidOption, match=r"--engine toy: .* \(--engine toy is from the last `swell up`"):
        chosen(folder, NOTHING)


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("GPU", "cuda:4"),
        ("CPU", "cpu:4"),
        ("seat", "cpu:4"),
        ("GPU=cpu", "cpu:4"),
        ("seat=paced@200", "paced:4@200"),
    ],
)
def test_a_resource_says_what_its_devices_are(text: str, devices: str) -> None:
    resource = parse_resource(text)
    assert resource.devices(4) == devices and str(resource) == text


@pytest.mark.parametrize("text", ["", "=cpu", "GPU=", "GPU=paced", "GPU=paced@x"])
def test_a_resource_without_a_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidResource, match="NAME=cuda"):
        parse_resource(text)
