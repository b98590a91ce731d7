"""Templates of this folder, filled in with text as it is, and pages that are one file with all they need."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

IMPORT = re.compile(r'^import \{[^}]*\} from "/(static/[a-z_]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)
#: Charts of others: see static/vendor/README.md.
UPLOT_SCRIPT = "static/vendor/uplot/uPlot.iife.min.js"
UPLOT_STYLE = "static/vendor/uplot/uPlot.min.css"


@cache
def environment() -> Environment:
    """Return the Jinja environment of all pages and reports.

    Autoescape is on for every template, and an unknown name is an error.
    """
    made = Environment(
        loader=PackageLoader("swell.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {"clock": clock, "iso": iso}
    return made


def render(name: str, values: Mapping[str, Any]) -> str:
    """The template of this name with these values."""
    return environment().get_template(name).render(values)


def clock(at_s: float | None) -> str:
    """The time by this machine's clock, as `14:05:22`, on another day `Jan 15 14:05`.

    A page's script puts its own in.
    """
    if at_s is None:
        return "\N{EN DASH}"
    at = datetime.fromtimestamp(at_s).astimezone()
    is_today = at.date() == datetime.now().astimezone().date()
    return f"{at:%H:%M:%S}" if is_today else f"{at:%b} {at.day} {at:%H:%M}"


def iso(at_s: float) -> str:
    """The same for programs."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")


def bundle(first: str, texts: dict[str, str] | None = None) -> str:
    """A script of this module, `static/NAME.js`, and all that it imports: each once, after those it imports.

    For pages that may load nothing, not even a module from a `data:` URL. A module of ours imports only
    `{ names } from "/static/NAME.js"`. In a bundle no two modules declare the same name.
    """
    texts, text = {} if texts is None else texts, read_asset(first)
    for name in IMPORT.findall(text):
        if name not in texts:
            bundle(name, texts)
    texts[first] = EXPORT.sub("", IMPORT.sub("", text))
    return "\n".join(texts.values())


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
    script = f"{{\n{bundle(module)}\ndraw(JSON.parse({data_text}));\n}}"
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


def read_asset(name: str) -> str:
    """The text of the file of this name, as `static/charts.js`. Raises FileNotFoundError."""
    return files("swell.web").joinpath(name).read_text(encoding="utf-8")


@cache
def uplot_version() -> str:
    """Return the version of uPlot, as its script says."""
    found = re.match(r"/\*! \S+ \(v([\d.]+)\)", read_asset(UPLOT_SCRIPT))
    return found[1] if found else "of an unknown version"
