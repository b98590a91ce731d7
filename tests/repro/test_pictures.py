"""What a chart's picture shows: all of its values, in words of a legible size."""

from __future__ import annotations

import itertools
from typing import Literal

import msgspec
import pytest
from matplotlib.axes import Axes

from swell_papers.findings import Chart, chart
from swell_papers.pictures import TWO_PANELS_WIDTH, Y_LABEL_LETTERS, figure_of

Kind = Literal["bars", "lines", "steps"]


def _chart(kind: Kind, y_label: str = "", **lines: tuple[float | None, ...]) -> Chart:
    return _panels(kind, y_label, {"": lines})


def _panels(kind: Kind, y_label: str, panels: dict[str, dict[str, tuple[float | None, ...]]]) -> Chart:
    num = len(next(iter(next(iter(panels.values())).values())))
    return chart("c", "", kind, ("hours", [float(at) for at in range(num)]), y_label, panels=panels)


def _axes(chart: Chart) -> Axes:
    (axes,) = figure_of(chart).axes
    return axes


def test_all_panels_show_all_of_their_values() -> None:
    """They share an axis: the first one's values must not be its end."""
    shown = _panels("lines", "", {"low": {"a": (1.0, 1.0)}, "high": {"a": (3.0, 3.0)}})
    for panel in figure_of(shown).axes:
        assert panel.get_ylim()[0] == 0.0 and panel.get_ylim()[1] >= 3.0


# ---------------------------------------------------------------- lines
@pytest.mark.parametrize("kind", ["lines", "steps"])
def test_lines_of_the_same_values_are_drawn_apart(kind: Kind) -> None:
    same = (1.0, 2.0, 1.5)
    axes = _axes(_chart(kind, a=same, b=same))
    first, second = axes.lines
    assert first.get_linewidth() > second.get_linewidth()
    assert first.is_dashed() != second.is_dashed()


def test_a_value_of_steps_holds_until_the_next_x_as_in_the_report_of_a_browser() -> None:
    (line,) = _axes(_chart("steps", a=(1.0, 2.0))).lines
    assert line.get_drawstyle() == "steps-post"


# ---------------------------------------------------------------- bars
def test_a_series_without_values_is_named_and_told_to_be_not_measured() -> None:
    legend = figure_of(_chart("bars", paper=(1.0, 2.0), Swell=(None, None))).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["paper", "Swell: not measured"]
    assert [patch.get_visible() for patch in legend.get_patches()] == [True, False]


def test_bars_below_0_are_whole() -> None:
    least, most = _axes(_chart("bars", a=(-80.0, 20.0))).get_ylim()
    assert least < -80.0 and most > 20.0


# ---------------------------------------------------------------- size and words
def test_a_picture_is_no_wider_than_a_page_shows_with_legible_letters() -> None:
    for num in (1, 2, 4, 6):
        shown = _panels("lines", "", {str(at): {"a": (1.0, 2.0)} for at in range(num)})
        width, height = figure_of(shown).get_size_inches()
        assert width <= TWO_PANELS_WIDTH and height > 1.5 * (num // 2)


def test_a_long_label_is_broken() -> None:
    label = "jobs more, while the greedy allocator does 100 of them and the others wait"
    told = _axes(_chart("bars", label, a=(1.0,))).get_ylabel()
    assert told.replace("\n", " ") == label
    assert max(map(len, told.split("\n"))) <= Y_LABEL_LETTERS


def test_the_legend_has_the_order_of_the_series_and_a_series_one_colour_in_all_panels() -> None:
    few: dict[str, tuple[float | None, ...]] = {"a": (1.0,), "c": (3.0,)}
    figure = figure_of(_panels("bars", "", {"few": few, "many": {"a": (1.0,), "b": (2.0,), "c": (3.0,)}}))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]
    colours = [
        {bars.get_label(): bars[0].get_facecolor() for bars in axes.containers} for axes in figure.axes
    ]
    assert colours[0].items() <= colours[1].items()


@pytest.mark.slow
def test_names_at_ticks_do_not_touch() -> None:
    """Numbers: some are left out; names: in lines, aslant or upright."""
    for x in ([str(6 * at) for at in range(28)], [f"model {at}" for at in range(15)], ["a policy"] * 12):
        shown = _chart("lines", a=tuple(map(float, range(len(x)))))
        figure = figure_of(msgspec.structs.replace(shown, x=tuple(x)))
        figure.draw_without_rendering()
        labels = figure.axes[0].get_xticklabels()
        boxes = [label.get_window_extent() for label in labels if label.get_rotation() == 0]
        assert all(one.x1 <= other.x0 for one, other in itertools.pairwise(boxes))
