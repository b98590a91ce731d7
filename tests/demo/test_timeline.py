from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from tests.demo.views import make_view

from swell.demo.timeline import draw
from swell.demo.watch import DeviceSpan, Watch
from swell.model.job import Phase
from swell.sim.picture_style import colour

DEVICES = ("d0", "d1", "d2")


def test_a_device_that_changes_hands_ends_one_span_and_begins_another() -> None:
    watch = Watch()
    watch.look(1.0, [make_view("a", devices=("d0", "d1"))])
    watch.look(2.0, [make_view("a", devices=("d0",)), make_view("b", devices=("d1",))])
    watch.look(3.0, [make_view("b", devices=("d1",))])
    assert sorted(watch.finish(4.0), key=lambda span: (span.device, span.from_s)) == [
        DeviceSpan("d0", "a", 1.0, 3.0),
        DeviceSpan("d1", "a", 1.0, 2.0),
        DeviceSpan("d1", "b", 2.0, 4.0),
    ]


@given(st.lists(st.lists(st.sampled_from(["a", "b", None]), min_size=3, max_size=3), min_size=1, max_size=12))
def test_spans_say_exactly_what_was_seen(looks: list[list[str | None]]) -> None:
    watch = Watch()
    for at_s, holders in enumerate(looks):
        names = {name for name in holders if name}
        views = [
            make_view(
                name,
                devices=tuple(device for device, by in zip(DEVICES, holders, strict=True) if by == name),
            )
            for name in names
        ]
        watch.look(float(at_s), views)
    spans = watch.finish(float(len(looks)))
    for at_s, holders in enumerate(looks):
        for device, by in zip(DEVICES, holders, strict=True):
            found = [span.job for span in spans if span.device == device and span.from_s <= at_s < span.to_s]
            assert found == ([by] if by else [])


def test_the_picture_shows_each_job_in_its_own_colour(tmp_path: Path) -> None:
    views = [
        make_view("a", deadline_s=1040.0),
        make_view("b"),
        make_view("c", phase=Phase.REJECTED, submitted_s=1005.0, deadline_s=1006.0),
    ]
    spans = [DeviceSpan("d0", "a", 1002.0, 1020.0), DeviceSpan("d1", "b", 1003.0, 1030.0)]
    draw(DEVICES, spans, views, tmp_path / "timeline.png")
    pixels = (imread(tmp_path / "timeline.png")[..., :3] * 255).round().astype(int).reshape(-1, 3)
    seen = {tuple(pixel) for pixel in pixels.tolist()}
    wanted = {tuple(round(255 * part) for part in to_rgb(colour(number))) for number in range(len(views))}
    assert wanted <= seen
