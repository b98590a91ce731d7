"""What a chart's picture shows: all of its values, in words of a legible size."""

from __future__ import annotations

from typing import Literal

from swell_papers.findings import Chart, chart
from swell_papers.pictures import figure_of

Kind = Literal["bars", "lines", "steps"]


def _chart(kind: Kind, y_label: str = "", **lines: tuple[float | None, ...]) -> Chart:
    return _panels(kind, y_label, {"": lines})


def _panels(kind: Kind, y_label: str, panels: dict[str, dict[str, tuple[float | None, ...]]]) -> Chart:
    num = len(next(iter(next(iter(panels.values())).values())))
    return chart("c", "", kind, ("hours", [float(at) for at in range(num)]), y_label, panels=panels)


def test_all_panels_show_all_of_their_values() -> None:
    """They share an axis: the first one's values must not be its end."""
    shown = _panels("lines", "", {"low": {"a": (1.0, 1.0)}, "high": {"a": (3.0, 3.0)}})
    for panel in figure_of(shown).axes:
        assert panel.get_ylim()[0] == 0.0 and panel.get_ylim()[1] >= 3.0


# ---------------------------------------------------------------- bars
def test_a_series_without_values_is_named_and_told_to_be_not_measured() -> None:
    legend = figure_of(_chart("bars", paper=(1.0, 2.0), Swell=(None, None))).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["paper", "Swell: not measured"]
    assert [patch.get_visible() for patch in legend.get_patches()] == [True, False]
