"""How Hypothesis runs here: the same examples each time, and no time limit for one on a busy machine.

`pytest --hypothesis-profile=explore` looks for new ones. Laws of each of the policies, the slowest, have a
share of a profile's number (`tests/examples.py`), which is larger with `thorough`, in `make test-soak`.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("explore", deadline=None, max_examples=1000)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=250)
settings.register_profile("swell", deadline=None, derandomize=True)
settings.load_profile("swell")
