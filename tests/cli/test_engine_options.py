"""Which engine `swell up` means: as said now, else as last time."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.errors import InvalidOption
from swell.cli.remembered import Choice, EngineWords, choose
from swell.executors.ray.options import DeviceResource, InvalidResource, RayOptions, parse_resource
from swell.store.folder import StateFolder


def chosen(folder: StateFolder, words: EngineWords, devices: str | None = None) -> Choice:
    return choose(folder, devices, None, None, None, engine=words)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path)
    made.create()
    return made


def test_a_platform_is_local_unless_another_engine_is_named(folder: StateFolder) -> None:
    assert chosen(folder, EngineWords()).ray is None
    assert chosen(folder, EngineWords()).options.devices == "auto"


def test_on_ray_the_own_machine_has_no_devices_unless_they_are_named(folder: StateFolder) -> None:
    choice = chosen(folder, EngineWords(engine="ray"))
    assert choice.ray == RayOptions() and choice.options.devices == "none"
    assert chosen(folder, EngineWords(engine="ray"), "cpu:2").options.devices == "cpu:2"


def test_what_was_said_last_time_is_remembered_and_said_again(folder: StateFolder) -> None:
    words = EngineWords("ray", "10.9.0.1:6379", "GPU=cpu", borrowed=True)
    first = chosen(folder, words)
    folder.write_options(first.options)
    second = chosen(folder, EngineWords())
    assert second.ray == first.ray
    assert second.ray is not None and second.ray.is_borrowed
    assert second.ray.resource == DeviceResource(name="GPU", form="cpu")
    said = ("--engine ray", "--address 10.9.0.1:6379", "--device-resource GPU=cpu", "--borrowed")
    assert set(said) <= set(second.remembered)
    assert chosen(folder, EngineWords(borrowed=False)).ray != first.ray
    assert chosen(folder, EngineWords(engine="local")).ray is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (EngineWords(address="10.9.0.1:6379"), "--address"),
        (EngineWords(device_resource="GPU=cpu"), "--device-resource"),
        (EngineWords(engine="local", borrowed=True), "--borrowed"),
    ],
)
def test_what_is_about_ray_is_not_ignored_without_it(
    folder: StateFolder, words: EngineWords, named: str
) -> None:
    with pytest.raises(
        InvalidOption, match=f"{named} is about `--engine ray`: add that, or leave {named} out"
    ):
        chosen(folder, words)


def test_an_engine_or_a_resource_that_there_is_none_of_is_refused(folder: StateFolder) -> None:
    with pytest.raises(InvalidOption, match="--engine slurm: choose from local, ray"):
        _ = chosen(folder, EngineWords(engine="slurm")).ray
    with pytest.raises(InvalidOption, match=r"--device-resource GPU=gpu: .* write a resource of Ray"):
        _ = chosen(folder, EngineWords(engine="ray", device_resource="GPU=gpu")).ray


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
