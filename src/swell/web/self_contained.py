"""One HTML file with its styles, scripts and data inside: it opens from a disk, and asks for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from swell.web.assets import UPLOT_SCRIPT, UPLOT_STYLE, read_asset
from swell.web.bundle import bundle
from swell.web.templating import environment


def self_contained(template: str, module: str, styles: Iterable[str], data: object, **values: Any) -> str:
    """The file's text. Its content security policy allows these scripts and styles by their hashes, no more.

    Args:
        template: extends `self_contained.html`.
        module: `static/NAME.js`, whose `draw(data)` is called once the file is open; those that it imports
            come with it, and uPlot.
        styles: of ours, in order.
        data: what is written as JSON.
        values: for the template.
    """
    style = "\n".join(map(read_asset, (UPLOT_STYLE, *styles)))
    charts = read_asset(UPLOT_SCRIPT)
    data_text = 'document.getElementById("data").textContent'
    script = f'{{\n{bundle(module)}\nmodules["{module}"].draw(JSON.parse({data_text}));\n}}'
    policy = (
        f"default-src 'none'; script-src {_hash(charts)} {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {"style": style, "charts": charts, "script": script}
    inside = {name: _inside_tag(text) for name, text in parts.items()}
    page = environment().get_template(template)
    return page.render(policy=policy, inside=inside, data=data, **values)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _inside_tag(text: str) -> Markup:
    """Raises ValueError for a text that would end its tag."""
    if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
        raise ValueError("a script or style of a report must not hold </script, </style or <!--")
    return Markup(text)  # noqa: S704 - ends no tag, and is a file of ours
