"""Lines of a script's output that tell numbers, between any others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import swell
from swell.executors.local.zygote.output import INTERVAL_S, MAX_LINE_BYTES, MOST_READ, ValueLines
from swell.wire.reports import Number

LINES = st.one_of(
    st.builds(lambda value: json.dumps({"step": 1, "loss": value}), st.floats()),
    st.sampled_from(
        [
            "",
            "epoch 3",
            '{"loss": "high"}',
            '{"loss": 0.5',
            'the "loss" went down',
            '{"accuracy": 0.9}',
            '["loss"]',
            "x" * (MAX_LINE_BYTES + 1) + '{"loss": 1.0}',
            '{"loss": 1e999}',
        ]
    ),
)


class Clock:
    def __init__(self) -> None:
        self.s = 10.0

    def __call__(self) -> float:
        return self.s


def read(text: bytes, name: str = "loss") -> dict[str, Number]:
    lines = ValueLines(name, Clock())
    lines.feed(text)
    lines.close()
    return lines.take_values()[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"step": 120, "loss": 0.31}', {"step": 120.0, "loss": 0.31}),
        ('\r 60%|####| 3/5 {"loss": 2}', {"loss": 2.0}),
        ('{"loss": NaN, "low": -Infinity}', {"loss": "nan", "low": "-inf"}),
        ('{"loss": 1, "is_best": true, "name": "vae", "none": null}', {"loss": 1.0}),
        ('{"loss": 1, "huge": 1' + "0" * 400 + "}", {"loss": 1.0}),
        ('{"loss": {"train": 1.0}}', {}),
        ('{"loss": true}', {}),
        ('{"a": {"loss": 1.0}}', {}),
        ('"loss": 1.0', {}),
        ('{"loss": 1.0} and more', {}),
        ('"loss"' + "[" * 4000, {}),
        ("", {}),
    ],
)
def test_what_is_a_report(line: str, expected: dict[str, Number]) -> None:
    assert read(line.encode() + b"\n") == expected
    assert read(b"before\n" + line.encode()) == expected


@given(st.lists(LINES, max_size=6), st.data())
def test_it_is_the_same_in_whichever_pieces_it_comes(printed: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\n" for line in printed).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    lines = ValueLines("loss", Clock())
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        lines.feed(text[begin:end])
    lines.close()
    assert lines.take_values(at_once=True)[0] == read(text)


def test_of_many_lines_the_newest_is_read_once_in_an_interval() -> None:
    clock = Clock()
    lines = ValueLines("loss", clock)
    assert lines.wait_s is None
    lines.feed(b'{"loss": 1.0}\n')
    assert lines.wait_s == 0.0
    assert lines.take_values() == ({"loss": 1.0}, {})
    for value in (2, 3):
        lines.feed(b'{"loss": %d.0}\n' % value)
        assert lines.take_values() == ({}, {})
    lines.feed(b'the "loss" is low\n')
    assert lines.wait_s == INTERVAL_S
    clock.s += INTERVAL_S
    assert lines.take_values() == ({"loss": 3.0}, {})
    assert lines.wait_s is None


@pytest.mark.parametrize("name", ["", "loss"])
def test_links_are_read_whatever_else_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ValueLines(name, Clock())
    swell.link("W&B", "https://wandb.ai/x?a=<b>")
    lines.feed(capsys.readouterr().out.encode() + b'{"loss": 1.0}\n')
    lines.feed(b'epoch 1 {"swell.link": "log", "url": "http://host/0"}\n' * (2 * MOST_READ))
    lines.feed(b'epoch 1 {"swell.link": "log", "url": "http://host/1"}\n')
    wrong = ["javascript:alert(1)", "https://", "https://a b", "https://\u202e.org", "ftp://a", 7]
    for url in wrong:
        lines.feed(json.dumps({"swell.link": "bad", "url": url}).encode() + b"\n")
    values, links = lines.take_values()
    assert values == ({"loss": 1.0} if name else {})
    assert links == {"W&B": "https://wandb.ai/x?a=<b>", "log": "http://host/1"}
    for url in wrong[:-1]:
        with pytest.raises(ValueError, match=r"swell\.link"):
            swell.link("bad", str(url))
