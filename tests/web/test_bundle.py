from __future__ import annotations

import re
from collections import Counter

import pytest

from swell.web import templating
from swell.web.templating import bundle


def test_what_a_module_imports_comes_before_it_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "a": 'import { b } from "/static/b.js";\nimport { c } from "/static/c.js";\nexport const a = c;',
        "b": 'import { c } from "/static/c.js";\nexport function b() { return c; }',
        "c": "export const c = 1;",
    }
    monkeypatch.setattr(templating, "read_asset", lambda name: texts[name[len("static/") : -len(".js")]])
    assert bundle("static/a.js").split("\n") == ["const c = 1;", "function b() { return c; }", "const a = c;"]


def test_modules_of_a_report_have_plain_imports_and_names_of_their_own() -> None:
    text = bundle("static/simulation.js")
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    declared = re.findall(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", text, re.MULTILINE)
    assert max(Counter(declared).values()) == 1
