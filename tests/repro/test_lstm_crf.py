"""The conditional random field, against all chains of tags of a short text."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from swell.demo.text import SYMBOLS
from swell_papers.scripts.lstm_crf import NUM_TAGS, WordTagger

LENGTH = 4
CHAINS = torch.tensor(list(itertools.product(range(NUM_TAGS), repeat=LENGTH)))


def tagger(seed: int) -> tuple[WordTagger, Tensor, Tensor]:
    """A model, two short texts, and the score of each chain of tags in each: (chains, 2)."""
    torch.manual_seed(seed)
    model = WordTagger()
    torch.nn.init.normal_(model.pairs)
    letters = torch.randint(len(SYMBOLS), (2, LENGTH))
    single = model.scores(letters)[:, torch.arange(LENGTH), CHAINS].sum(dim=2).T
    return model, letters, single + model.pairs[CHAINS[:, :-1], CHAINS[:, 1:]].sum(dim=1, keepdim=True)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(0, len(CHAINS) - 1))
def test_the_loss_is_that_of_all_chains(seed: int, at: int) -> None:
    model, letters, all_scores = tagger(seed)
    likelihood = all_scores[at] - torch.logsumexp(all_scores, dim=0)
    loss = model(letters, CHAINS[at].expand(2, LENGTH))
    assert loss.item() == pytest.approx(-likelihood.mean().item() / LENGTH, rel=1e-4, abs=1e-5)
