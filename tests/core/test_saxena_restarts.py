"""The policy of Saxena et al. in a head that dies, is folded and replayed: its decisions stay the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import core_of, node, spec
from tests.core.head import FATES, Head
from tests.examples import Shown, share_of_examples

from swell.policies.saxena import Saxena

SHOWN = Shown(*FATES, "trial", "gang")


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        Saxena(period_s=3.0),
        Saxena(period_s=3.0, drops=1, ended_share=0.0),
    ],
    ids=["queue", "drop"],
)
@SHOWN.wholly
@settings(max_examples=share_of_examples(0.2), deadline=None)
@given(
    seed=st.integers(0, 2**20),
    fates=st.lists(st.sampled_from(FATES), min_size=25, max_size=40),
)
def test_kills_folds_and_replays_lead_to_the_same_commands(
    policy: Saxena, seed: int, fates: list[str]
) -> None:
    """Every job ends, and nothing is left over, with faults of all kinds."""
    world = DrivenWorld(seed, ALL_FAULTS)
    head = Head(lambda: core_of(policy), world)
    world.join(node("n0", 4))
    for number in range(6):
        head.submit(f"job{number}", spec(40 + 30 * number))
    for fate in fates:
        head.undergo(fate)
    SHOWN.note([*fates, *world.struck])
    world.calm_down()
    world.join(node("n0", 4))
    head.run()
    assert len(head.ended) == 6 and not world.gangs
