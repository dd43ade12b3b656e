"""Which heard words need another explanation than the request's own text, and what words weigh."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omni_bench.accuracy.cross_talk.score import unexplained_words, weigh_words, words_alike

texts = st.lists(st.text("abcdefg", min_size=1, max_size=6), max_size=8).map(tuple)


def words(text):
    return tuple(text.split())


def left(heard, own):
    heard = words(heard)
    return " ".join(heard[index] for index in unexplained_words(heard, words(own)))


def test_an_output_as_it_should_be_leaves_nothing():
    assert left("the cat sat on the mat", "the cat sat on the mat") == ""


def test_words_of_the_own_text_are_explained_wherever_they_stand():
    assert left("mat the sat cat", "the cat sat on the mat") == ""


def test_foreign_words_are_left():
    assert left("blue boats were waiting the cat sat on the mat", "the cat sat on the mat") == "blue boats were waiting"


def test_misspelt_own_words_are_explained():
    assert left("the taylor measured his arms", "the tailor measured his arms") == ""
    assert left("emadrew a picture", "emma drew a picture") == ""
    assert left("the key board is new", "the keyboard is new") == ""


def test_a_word_that_only_rhymes_is_not():
    assert left("hard rain the hand was cold", "the hand was cold") == "hard rain"


def test_everything_is_left_without_an_own_text_and_nothing_of_silence():
    assert left("the cat", "") == "the cat"
    assert left("", "the cat") == ""


def test_chinese_characters_are_words():
    assert left("今 天 天 气 很 好 我 们", "今 天 天 气 很 好") == "我 们"


@given(texts, texts)
def test_left_words_are_no_own_words(heard, own):
    indices = unexplained_words(heard, own)
    assert list(indices) == sorted(set(indices))
    assert all(heard[index] not in own for index in indices)


def test_alike_words():
    assert words_alike(("boats", "boat", "coat"), ("boat",)) == {"boats", "boat"}
    assert words_alike((), ("boat",)) == words_alike(("boat",), ()) == frozenset()


def test_rare_words_weigh_more_than_common_ones():
    weights = weigh_words([words(text) for text in ("the cat", "the dog", "the cow", "a the cat")])
    assert weights.of("cow") == weights.of("never seen") == 1.0
    assert 0 < weights.of("the") < weights.of("cat") < 1.0


def test_a_text_that_is_there_twice_counts_once():
    once, twice = (weigh_words([words("the cat"), *[words("the dog")] * times]) for times in (1, 2))
    assert once == twice


def test_one_text_alone_says_nothing_of_rarity():
    assert weigh_words([words("the cat")]).of("the") == weigh_words([]).of("the") == 1.0
