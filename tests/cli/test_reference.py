from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import msgspec

from swell.api.job_file import load
from swell.api.submission import OF_SESSION, Submission, declared
from swell.cli.commands import load as load_command
from swell.cli.commands import load_all
from swell.settings import RULES

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
assert spec is not None
assert spec.loader is not None
make_reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_reference)


def test_every_command_field_and_setting_is_there() -> None:
    cli = make_reference.cli_page()
    for name, loaded in load_all().items():
        inner = getattr(loaded, "commands", None) or [""]
        for command in (f"{name} {word}".rstrip() for word in inner):
            assert f"\n## swell {command}\n" in cli
    fields = make_reference.job_file_page()
    for field in msgspec.structs.fields(Submission):
        assert f"\n| `{field.encode_name}` | " in fields
    settings, _, parameters = make_reference.settings_page().partition("## Parameters")
    for name in RULES:
        assert f"\n| `{name}` | " in settings
    assert "| `tiresias.promote_knob` |" in parameters


def test_the_example_is_a_job(tmp_path: Path) -> None:
    text = make_reference.EXAMPLE.removeprefix("```yaml\n").removesuffix("```\n")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(text)
    (job,) = load(tmp_path / "job.yaml")
    assert job.to_spec(0.0).max_workers == 8


def test_each_field_of_a_job_is_an_option_that_says_what_the_reference_says() -> None:
    commands = {False: "submit", True: "run"}
    options = {
        is_session: {option.name: option for option in load_command(command).params}
        for is_session, command in commands.items()
    }
    for name, field in declared().items():
        if name in ("args", "command", "session"):  # words, which stand behind the options; a command
            continue
        option = options[name in OF_SESSION][name]
        assert option.opts == [f"--{field.word.replace('_', '-')}"]
        said = re.sub(r"--([a-z-]+)", lambda word: word[1].replace("-", "_"), option.help)
        said = said.removesuffix(" May be repeated.")
        assert field.option.description.replace("`", "").startswith(said.replace("`", "")), name
