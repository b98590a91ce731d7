from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from swell_papers.picture_style import COLOURS, DASHES, width

#: What colour-blind people see of linear red, green and blue: Machado, Oliveira and Fernandes, 2009.
SEEN = {
    "all": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
#: CIE76: 2.3 is just noticeable.
APART = 15.0


def lab(colour: str, seen: Any) -> np.ndarray:
    srgb = np.array(to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(np.array(seen) @ linear, 0.0, 1.0) / TO_XYZ.sum(axis=1)
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", SEEN)
def test_any_two_colours_differ_for_everyone(kind: str) -> None:
    places = [lab(colour, SEEN[kind]) for colour in COLOURS]
    assert all(np.linalg.norm(one - other) > APART for one, other in itertools.combinations(places, 2))


def test_a_further_line_is_never_wider_and_the_first_ones_are_broken_differently() -> None:
    widths = [width(number) for number in range(12)]
    assert widths == sorted(widths, reverse=True)
    assert len({str(dashes) for dashes in DASHES}) == len(DASHES)
