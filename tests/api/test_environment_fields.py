"""What a job's processes find around them: values of a file, requirements, mounts."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.environment_fields import inputs_of
from swell.api.fields import InvalidField
from swell.api.submission import Submission, origin_of, parse
from swell.model.coding import encode
from swell.model.job import Mount
from swell.wire.job_inputs import MOST_BYTES, MOST_VALUE_BYTES, JobInputs, read_inputs

NAMES = st.from_regex(r"MY_[A-Z]{1,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"))
SECRET = "hunter2-" + "x" * 20


def request(**fields: Any) -> Submission:
    return parse({"script": __file__, "workdir": "/", "global_batch": 8, "steps": 1} | fields)


def private(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@given(variables=st.dictionaries(NAMES, VALUES, min_size=1))
def test_values_of_a_file_arrive_and_no_spec_has_them(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("own")
    marked = {name: f"s3cret {value}" for name, value in variables.items()}
    lines = "".join(f"{name}={value}\n" for name, value in marked.items())
    private(folder / "s.env", f"# not one\n\n{lines}")
    sent = request(env_from="s.env").anchored(folder)
    spec = sent.to_spec(0.0)
    assert spec.secrets == tuple(sorted(marked)) and b"s3cret" not in encode(spec)
    inputs = inputs_of(sent.env_from, sent.uv)
    inputs.write(folder)
    assert read_inputs(folder) == inputs == JobInputs(variables=marked)
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.glob("inputs*")] == [0o600]
    assert "s3cret" not in str(origin_of(sent, spec, "key", 0.0))


def test_a_request_with_other_values_has_the_same_fingerprint_and_with_other_names_another() -> None:
    """A digest of values would let them be guessed from a journal."""
    prints = [
        origin_of(sent, sent.to_spec(0.0), "key", 0.0).fingerprint
        for sent in (request(env_from=values) for values in ({"A": "1"}, {"A": "2"}, {"B": "1"}))
    ]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(
    ("text", "mode", "error"),
    [
        (f"KEY={SECRET}", 0o640, "chmod 600"),
        (f"KEY={SECRET}", 0o602, "chmod 600"),
        (f"fine=1\n{SECRET}", 0o600, "line 2"),
        (f"not a name={SECRET}", 0o600, "line 1"),
        (f"SWELL_TOKEN={SECRET}", 0o600, "set by Swell"),
        (f"OMP_NUM_THREADS={SECRET}", 0o600, "interpreter starts"),
        (f"KEY={SECRET}" + "x" * MOST_BYTES, 0o600, "smaller"),
        (f"KEY={SECRET}" + "é" * (MOST_VALUE_BYTES // 2), 0o600, "64 KiB"),
    ],
)
def test_a_file_of_values_that_is_refused(tmp_path: Path, text: str, mode: int, error: str) -> None:
    private(tmp_path / "s.env", text, mode)
    with pytest.raises(InvalidField, match=error) as refused:
        request(env_from="s.env").to_spec(0.0, tmp_path)
    assert SECRET not in str(refused.value) and refused.value.field == "env_from"


def test_a_link_and_a_pipe_are_no_files_of_values(tmp_path: Path) -> None:
    (tmp_path / "link.env").symlink_to(private(tmp_path / "s.env", "KEY=1"))
    os.mkfifo(tmp_path / "pipe.env", 0o600)
    for name in ("link.env", "pipe.env", "missing.env"):
        with pytest.raises(InvalidField, match="cannot be read"):
            request(env_from=name).anchored(tmp_path)


@pytest.mark.parametrize("values", [{"KEY": [SECRET]}, [SECRET], {"KEY": {"x": SECRET}}])
def test_no_error_about_a_request_shows_a_value(values: Any) -> None:
    with pytest.raises(InvalidField) as refused:
        request(env_from=values)
    assert (
        "what it has is not a text" in str(refused.value)
        and SECRET not in str(refused.value)
        and refused.value.field == "env_from"
    )


def test_a_variable_has_one_value_and_the_server_reads_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="given by env"):
        request(env={"KEY": "1"}, env_from={"KEY": "2"}).to_spec(0.0)
    for field in ("env_from", "uv"):
        with pytest.raises(InvalidField, match="the submitter reads the file"):
            request(**{field: "/etc/shadow"}).to_spec(0.0)


# ---------------------------------------------------------------- requirements
def test_requirements_are_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "# of ours\nrich >= 13.9 # table\n\nnumpy[x]==2.0 \\\n    --hash=sha256:00\n"
    )
    (tmp_path / "b.txt").write_text("rich >= 13.9\nnumpy[x]==2.0 --hash=sha256:00\n")
    a, b = (request(uv=name).anchored(tmp_path) for name in ("a.txt", "b.txt"))
    assert a.uv == b.uv == ("rich >= 13.9", "numpy[x]==2.0 --hash=sha256:00")
    assert a.to_spec(0.0).uv == b.to_spec(0.0).uv
    assert inputs_of(None, a.uv).requirements.splitlines() == list(a.uv or ())


@pytest.mark.parametrize(
    "line",
    [
        "a", "a==1.0", "a>=1,<2", "A.b_c~=1.0; python_version < '3.12'", "a @ https://example.org/a.whl",
        "a @ git+https://example.org/a@v1", "--index-url https://example.org/simple", "a[b,c]===1+cpu",
        "--extra-index-url=https://example.org/simple",
    ],
)  # fmt: skip
def test_a_line_of_requirements(line: str) -> None:
    assert request(uv=[line]).to_spec(0.0).uv


@pytest.mark.parametrize(
    "line",
    [
        "-r /etc/shadow", "-e .", "./a.whl", "/x/a.whl", "a @ file:///x/a.whl", "--find-links /x",
        "https://example.org/a.whl", "-c x", "--index-url file:///x", "a @ https://x/${HOME}", "", "a  b",
        "a\n-r /etc/shadow", "a --config-settings=x", "--index-url https://x -r /etc/shadow",
    ],
)  # fmt: skip
def test_a_line_that_leads_to_files_of_the_host_is_refused(line: str) -> None:
    with pytest.raises(InvalidField, match="is no requirement"):
        request(uv=[line]).to_spec(0.0)


# ---------------------------------------------------------------- mounts
def test_mounts_begin_where_the_job_file_is(tmp_path: Path) -> None:
    texts = ["data", "data:/inside:ro", "/abs:/there"]
    spec = request(image="py:1", mount=texts).to_spec(0.0, tmp_path)
    data = str(tmp_path / "data")
    assert spec.mounts == (Mount(data, data, True), Mount(data, "/inside"), Mount("/abs", "/there", True))
    assert msgspec.json.decode(encode(spec), type=type(spec)) == spec


@pytest.mark.parametrize("text", ["", ":/x", "/a:b", "/a:/b:/c", "/a:/b:ro:x", "/a\0", "/a:"])
def test_what_is_no_mount(text: str) -> None:
    with pytest.raises(InvalidField) as refused:
        request(image="py:1", mount=[text]).to_spec(0.0)
    assert refused.value.field == "mount"


def test_a_mount_is_of_a_container_and_no_target_stands_twice() -> None:
    for fields in ({"mount": ["/a"]}, {"mount": ["/a:/x", "/b:/x"], "image": "py:1"}):
        with pytest.raises(InvalidField, match="mount"):
            request(**fields).to_spec(0.0)
