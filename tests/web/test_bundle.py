from __future__ import annotations

import pytest

from swell.web import templating
from swell.web.templating import bundle


def _files(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    monkeypatch.setattr(templating, "read_asset", lambda name: texts[name[len("static/") : -len(".js")]])


def test_what_a_module_imports_comes_before_it_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _files(
        monkeypatch,
        a='import { b } from "/static/b.js";\nimport { c as d } from "/static/c.js";\nexport const a = d;',
        b='import { c } from "/static/c.js";\nexport function b() { return c; }',
        c="export const c = 1;",
    )
    text = bundle("static/a.js")
    places = [text.index(f'modules["static/{name}.js"] = ') for name in "cba"]
    assert places == sorted(places)
    assert text.count('modules["static/c.js"] = ') == 1
    assert "import" not in text and "export" not in text
    assert 'const { c: d } = modules["static/c.js"];' in text


@pytest.mark.parametrize(
    "line",
    [
        'import x from "/static/b.js";',
        'import { x } from "./b.js";',
        'import { x } from "https://example.org/b.js";',
        "export default function () {}",
        "export { x };",
    ],
)
def test_another_form_is_refused_before_it_fails_in_a_browser(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    _files(monkeypatch, a=f"const x = 1;\n{line}", b="")
    with pytest.raises(ValueError, match=r"static/a\.js has "):
        bundle("static/a.js")
