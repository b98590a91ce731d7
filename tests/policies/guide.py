"""The example policies of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from swell.policies.policy import Policy

GUIDE = Path(__file__).parents[2] / "docs/how-to/add-a-policy.md"


def sources() -> list[str]:
    """As they stand in the text."""
    found: list[str] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    return found


def from_the_guide() -> list[Policy]:
    """One of each, by default: the plain one, then the one with a period, a parameter and a memory."""
    examples: list[Policy] = []
    for source in sources():
        module: dict[str, Any] = {"__name__": GUIDE.stem}
        exec(compile(source, str(GUIDE), "exec"), module)  # noqa: S102 - our own documentation
        kinds = [value for value in module.values() if isinstance(value, type) and value is not Policy]
        examples += [kind() for kind in kinds if issubclass(kind, Policy)]
    return examples
