"""Modules of ours as one script: for pages that may load nothing, not even a module from a `data:` URL.

A module here imports only `{ names } from "/static/NAME.js"`, and exports only functions, classes and
constants where they are declared. Each becomes a function that returns what it exports, those that it imports
first.
"""

from __future__ import annotations

import re

from swell.web.assets import read_asset

IMPORT = re.compile(r'^import \{([^}]*)\} from "/(static/[a-z_]+\.js)";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
#: A line that begins so is to be taken by one of the two.
ANY = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundle(first: str) -> str:
    """A script with this module, `static/NAME.js`, and all that it imports, as members of `modules`.

    Raises ValueError for an import or export of another form, and for modules that import each other.
    """
    texts: dict[str, str] = {}
    _add(first, texts, ())
    return "\n".join(["const modules = {};", *texts.values()])


def _add(name: str, texts: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"{' imports '.join((*above, name))}; a report needs modules in one order")
    if name in texts:
        return
    text = read_asset(name)
    for _, imported in IMPORT.findall(text):
        _add(imported, texts, (*above, name))
    texts[name] = _as_function(name, text)


def _as_function(name: str, text: str) -> str:
    exported = ", ".join(match[1] for match in EXPORT.findall(text))
    body = IMPORT.sub(lambda found: f'const {{{_renamed(found[1])}}} = modules["{found[2]}"];', text)
    body = EXPORT.sub(r"\1 \2", body)
    if (other := ANY.search(body)) is not None:
        raise ValueError(
            f'{name} has {other[0]!r}; write `import {{ a }} from "/static/NAME.js";` in one piece, and '
            "`export function`, `export class` or `export const`"
        )
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();'


def _renamed(names: str) -> str:
    """`a as b` of an import is `a: b` here."""
    return re.sub(r"\s+as\s+", ": ", names)
