"""Which engine `swell up` means: as said now, else as last time."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.errors import InvalidOption
from swell.cli.remembered import choose
from swell.cli.up_options import UpOptions
from swell.executors.ray.options import DeviceResource, InvalidResource, RayOptions, parse_resource
from swell.store.folder import StateFolder


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path)
    made.create()
    return made


def test_a_platform_is_local_unless_another_engine_is_named(folder: StateFolder) -> None:
    assert choose(folder, UpOptions()).ray is None
    assert choose(folder, UpOptions()).options.devices == "auto"


def test_on_ray_the_own_machine_has_no_devices_unless_they_are_named(folder: StateFolder) -> None:
    choice = choose(folder, UpOptions(engine="ray"))
    assert choice.ray == RayOptions() and choice.options.devices == "none"
    assert choose(folder, UpOptions(engine="ray", devices="cpu:2")).options.devices == "cpu:2"


def test_what_was_said_last_time_is_remembered_and_said_again(folder: StateFolder) -> None:
    words = UpOptions(engine="ray", address="10.9.0.1:6379", device_resource="GPU=cpu", borrowed=True)
    first = choose(folder, words)
    folder.write_options(first.options)
    second = choose(folder, UpOptions())
    assert second.ray == first.ray
    assert second.ray is not None and second.ray.is_borrowed
    assert second.ray.resource == DeviceResource(name="GPU", form="cpu")
    said = ("--engine ray", "--address 10.9.0.1:6379", "--device-resource GPU=cpu", "--borrowed")
    assert set(said) <= set(second.remembered)
    assert choose(folder, UpOptions(borrowed=False)).ray != first.ray
    assert choose(folder, UpOptions(engine="local")).ray is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (UpOptions(address="10.9.0.1:6379"), "--address"),
        (UpOptions(device_resource="GPU=cpu"), "--device-resource"),
        (UpOptions(engine="local", borrowed=True), "--borrowed"),
    ],
)
def test_what_is_about_ray_is_not_ignored_without_it(
    folder: StateFolder, words: UpOptions, named: str
) -> None:
    with pytest.raises(
        InvalidOption, match=f"{named} is about `--engine ray`: add that, or leave {named} out"
    ):
        choose(folder, words)


def test_an_error_names_what_was_remembered_only_if_it_is_about_that(folder: StateFolder) -> None:
    first = choose(folder, UpOptions(engine="ray", address="10.9.0.1:6379", borrowed=True))
    folder.write_options(first.options)
    with (
        pytest.raises(InvalidOption, match=r"^--policy magic: odd$"),
        choose(folder, UpOptions()).explained(),
    ):
        raise InvalidOption("--policy magic: odd")
    told = (
        r"--address 10.9.0.1:6379: odd \(--address 10.9.0.1:6379 is from the last `swell up`; give it again\)"
    )
    with pytest.raises(InvalidOption, match=told), choose(folder, UpOptions()).explained():
        raise InvalidOption("--address 10.9.0.1:6379: odd")


def test_an_engine_or_a_resource_that_there_is_none_of_is_refused(folder: StateFolder) -> None:
    with pytest.raises(InvalidOption, match="--engine slurm: choose from local, ray"):
        _ = choose(folder, UpOptions(engine="slurm")).ray
    with pytest.raises(InvalidOption, match=r"--device-resource GPU=gpu: .* write a resource of Ray"):
        _ = choose(folder, UpOptions(engine="ray", device_resource="GPU=gpu")).ray


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
