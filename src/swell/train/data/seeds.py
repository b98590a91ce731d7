"""Seeds of several numbers: what is drawn for one place has nothing to do with what is drawn for another."""

from __future__ import annotations


def mix(*parts: int) -> int:
    """One 63-bit seed of several numbers, with no simple relation between neighbours (SplitMix64's steps)."""
    state = 0
    for part in parts:
        state = (state ^ (part & 0xFFFFFFFFFFFFFFFF)) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 31
    return state >> 1
