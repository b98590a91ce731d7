"""Imported before NumPy: arithmetic with the same last bits on every processor, for runs that are recorded.

Where a processor has AVX-512, NumPy has exponentials and logarithms of its own, which end in other bits than
those of the C library, and a decision may follow.
"""

from __future__ import annotations

import os

os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")
