"""The conditional random field, against all chains of tags of a short text."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from swell.demo.text import SYMBOLS
from swell_papers.scripts.lstm_crf import BEGIN, END, NUM_TAGS, SINGLE, WordTagger, tagged_sequences, tags_of

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


@given(st.lists(st.text("abc", min_size=1, max_size=6), max_size=8))
def test_words_are_read_back_from_their_tags(words: list[str]) -> None:
    tags = [tag for word in words for tag in tags_of(word)]
    found: list[str] = []
    for letter, tag in zip("".join(words), tags, strict=True):
        if tag in (SINGLE, BEGIN):
            found.append(letter)
        else:
            found[-1] += letter
    assert found == words and len(tags) == sum(map(len, words))
    assert all(tags[len("".join(words[: at + 1])) - 1] in (SINGLE, END) for at in range(len(words)))


def test_text_to_tag_has_no_spaces_and_none_of_it_is_held_out() -> None:
    training, letters, tags = tagged_sequences(64, 24)
    assert all(tuple(one.shape) == (64, 24) for one in training.tensors) and letters.shape == tags.shape
    spaces = torch.tensor([SYMBOLS.index(symbol) for symbol in " \n"])
    assert not torch.isin(training.tensors[0], spaces).any()
    with pytest.raises(ValueError, match="ask for fewer sequences"):
        tagged_sequences(10**6, 24)
