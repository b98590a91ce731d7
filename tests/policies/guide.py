"""The example policies of the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

from swell.policies.policy import Policy

GUIDE = Path(__file__).parents[2] / "docs/how-to/add-a-policy.md"
EXAMPLE = GUIDE.parents[2] / "examples/periodic_shares.py"


def sources() -> list[str]:
    """Return the program of the text, and the one to which it leads."""
    found: list[str] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    return [*found, EXAMPLE.read_text()]


def from_the_guide() -> list[Policy]:
    """One of each, by default: the plain one, then the one with a period, a parameter and a memory."""
    examples: list[Policy] = []
    for number, source in enumerate(sources()):
        module = ModuleType(f"tests.policies.guide_{number}")
        sys.modules[module.__name__] = module  # where the types of parameters are looked up
        exec(compile(source, str(GUIDE), "exec"), vars(module))  # noqa: S102 - our own documentation
        kinds = [one for one in vars(module).values() if isinstance(one, type) and one is not Policy]
        examples += [kind() for kind in kinds if issubclass(kind, Policy)]
    return examples
