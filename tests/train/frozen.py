"""Imported last by the process that workers of tests are forked from.

Collections of garbage in the workers leave alone what is imported here, and with that the pages that they
share: a third of what it costs to start one.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
