from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.web.prose import Phrase, blocks, words


def test_blocks_are_told_apart_and_items_go_on_below() -> None:
    text = "# A title\n\nTwo lines\nof one.\n\n* an item\n  goes on\n* another\n\n"
    text += "| a | b |\n|---|---|\n| 1 | 2 |"
    found = list(blocks(text))
    assert [block.kind for block in found] == ["heading", "paragraph", "list", "table"]
    assert found[1].lines == [[Phrase("text", "Two lines of one.")]]
    assert found[2].lines == [[Phrase("text", "an item goes on")], [Phrase("text", "another")]]
    assert found[3].lines == [
        [[Phrase("text", "a")], [Phrase("text", "b")]],
        [[Phrase("text", "1")], [Phrase("text", "2")]],
    ]


def test_of_a_link_its_words_stay() -> None:
    assert words("see [the page](../page.md) of `swell` and **that** *one*") == [
        Phrase("text", "see "),
        Phrase("text", "the page"),
        Phrase("text", " of "),
        Phrase("code", "swell"),
        Phrase("text", " and "),
        Phrase("strong", "that"),
        Phrase("text", " "),
        Phrase("em", "one"),
    ]


@given(st.text(st.characters(exclude_characters="`*[]()")))
def test_a_line_without_signs_is_its_own_text(line: str) -> None:
    assert "".join(piece.text for piece in words(line)) == line
    assert all(piece.style == "text" for piece in words(line))
