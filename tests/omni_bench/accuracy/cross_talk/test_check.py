"""Attribution from end to end, on hand-made transcripts: whose words, where, and how sure."""

from __future__ import annotations

import pytest

from omni_bench.accuracy.cross_talk.check import (
    MAX_NULL_PAIRS,
    MIDDLE,
    ONSET,
    TAIL,
    THRESHOLD,
    WHOLE,
    find_cross_talk,
    score_pairs,
)
from omni_bench.accuracy.cross_talk.pairs import EARLIER, IN_FLIGHT, Request
from omni_bench.accuracy.cross_talk.score import weigh_words
from omni_bench.datasets.bundled import bundled_texts
from omni_bench.run.validity import cross_talk_reasons

OWN = "i dreamed about flying over the city last night"
OTHER = "hundreds of tiny lights were hanging from the branches of the trees"
THIRD = "a strong cup of coffee helps me think"
BACKGROUND = [tuple(text.lower().replace(".", "").replace(",", "").split()) for text in bundled_texts("en")]


def words(text):
    return tuple(text.split())


def request(name, text, *, started=0, finished=10, concurrency=4, reference=""):
    return Request(name, concurrency, started, finished, words(text), words(reference))


def level_of(heard, own=OWN, others=(OTHER, THIRD), background=BACKGROUND, **own_options):
    requests = [request("victim", own, **own_options)]
    requests += [request(f"other{i}", text) if isinstance(text, str) else text for i, text in enumerate(others)]
    return find_cross_talk(requests, {"victim": words(heard)}, background)[4]


def hit_of(heard, *arguments, **options):
    hits = level_of(heard, *arguments, **options).hits
    assert len(hits) <= 1
    return hits[0] if hits else None


@pytest.mark.parametrize(
    ("heard", "position", "phrase"),
    [
        (OTHER, WHOLE, OTHER),
        (f"hundreds of tiny lights {OWN}", ONSET, "hundreds of tiny lights"),
        ("hundreds of tiny lights over the city last night", ONSET, "hundreds of tiny lights"),
        (f"{OWN} branches of the trees", TAIL, "branches of the trees"),
        ("i dreamed about flying over the city branches of the trees", TAIL, "branches of the trees"),
        ("i dreamed about flying from the branches of the trees", MIDDLE, "from the branches of the trees"),
        ("i dreamed about tiny lights were hanging over the city last night", MIDDLE, "tiny lights were hanging"),
    ],
)
def test_a_hit_says_whose_words_where_and_which(heard, position, phrase):
    hit = hit_of(heard)
    assert (hit.victim, hit.source, hit.kind, hit.relation) == ("victim", "other0", "target", IN_FLIGHT)
    assert (hit.position, hit.heard, hit.words) == (position, phrase, phrase)
    assert hit.score >= THRESHOLD and hit.concurrency == 4


@pytest.mark.parametrize(
    "heard",
    [
        f"hundrets of tinny lites {OWN}",
        f"tiny light swear hanging {OWN}",
        f"{OWN} the branch is of the tree",
        "i dreamed about hang in from the branches of the trees",
    ],
)
def test_garbled_words_are_found(heard):
    assert hit_of(heard).source == "other0"


@pytest.mark.parametrize(
    "heard",
    [
        OWN,
        "i dreamed about flying over this city last night",
        "i dreamt about fly in over the city last knight",
        "",
        "of the from the were of",  # function words that the neighbour has too
        "we dreamed about flying over the sea last friday",
        "zzz qqq xxx ppp",
    ],
)
def test_what_is_no_hit(heard):
    assert level_of(heard).hits == ()


def test_names_misheard_in_the_own_text_are_no_hit():
    assert hit_of("mick hale plays the gui tar in a band", "michael plays the guitar in a band") is None


def test_words_that_both_texts_have_are_no_evidence():
    own = "the old wooden box was very heavy"
    assert hit_of("the old wooden box", own, ["he opened the old wooden box very slowly"]) is None


def test_the_same_text_in_flight_is_no_hit():
    assert level_of(OWN, others=[OWN, OWN]).hits == ()
    swapped = level_of(OTHER, own=OTHER, others=[OTHER])
    assert swapped.hits == () and swapped.pairs == 0


def test_the_source_with_the_most_letters_is_named():
    assert hit_of(f"a strong cup of coffee helps {OWN} tiny lights").source == "other1"


def test_a_request_that_was_not_there_is_no_source():
    far = [request("far", OTHER, started=100, finished=110), request("near", THIRD)]
    assert level_of(OTHER, others=far).hits == ()


def test_a_request_that_had_just_finished_is_a_source():
    hit = hit_of(OTHER, others=[request("before", OTHER, started=0, finished=5)], started=5)
    assert (hit.source, hit.relation) == ("before", EARLIER)


def test_a_later_request_is_no_source():
    assert hit_of(OTHER, others=[request("after", OTHER, started=10, finished=15)]) is None


def test_reference_texts_of_others_and_the_own_one():
    theirs = hit_of(f"{OTHER} {OWN}", others=[request("b", THIRD, reference=OTHER)])
    assert (theirs.source, theirs.kind, theirs.position) == ("b", "reference", ONSET)
    own = hit_of(f"{OTHER} {OWN}", others=[THIRD], reference=OTHER)
    assert (own.source, own.kind) == ("victim", "reference")


def test_chinese_by_characters():
    own, other = "今 天 天 气 很 好 我 想 去 公 园", "图 书 馆 里 有 很 多 新 书"
    hit = hit_of(f"图 书 馆 里 有 {own}", own, [other], background=[])
    assert (hit.source, hit.position, hit.heard) == ("other0", ONSET, "图 书 馆 里 有")
    assert hit_of("今 天 天 气 真 好 我 想 去 花 园", own, [other], background=[]) is None


def test_pairs_and_null_are_counted():
    level = level_of(OWN)
    assert level.pairs == 2
    assert level.null.pairs == len({*BACKGROUND} - {words(OWN), words(OTHER), words(THIRD)})
    assert level.null.hits == 0 and level.expected_false_hits == 0.0 and level.chance is None


def test_texts_of_related_requests_are_not_in_the_null():
    level = level_of(f"{OTHER} {OWN}", background=[words(OTHER), words(THIRD), words("someone else wrote this")])
    assert level.null.pairs == 1 and level.null.hits == 0


def test_the_null_takes_other_levels_and_is_capped_and_repeatable(monkeypatch):
    monkeypatch.setattr("omni_bench.accuracy.cross_talk.check.MAX_NULL_PAIRS", 7)
    requests = [request(f"r{i}", text, concurrency=4 + i % 2) for i, text in enumerate((OWN, OTHER, THIRD))]
    heard = {"r0": words(OTHER)}
    first, second = (find_cross_talk(requests, heard, BACKGROUND) for _ in range(2))
    assert first == second and first[4].null.pairs == 7
    assert list(first) == [4]
    assert MAX_NULL_PAIRS > 1000


def test_without_requests_or_words_nothing_is_found():
    assert find_cross_talk([], {}) == {}
    assert level_of(OWN, others=[]).pairs == 0


def test_a_level_with_a_clear_hit_is_invalid_and_says_why():
    (reason,) = map(str, cross_talk_reasons(level_of(f"hundreds of tiny lights {OWN}")))
    assert reason.startswith(
        'cross-talk: request victim speaks words of other0 (onset: "hundreds of tiny lights"); 0 expected by chance'
    )


def test_a_reference_is_named_as_such():
    (reason,) = map(str, cross_talk_reasons(level_of(f"{OTHER} {OWN}", others=[request("b", THIRD, reference=OTHER)])))
    assert "words of b's reference (onset" in reason
    (reason,) = map(str, cross_talk_reasons(level_of(f"{OTHER} {OWN}", others=[THIRD], reference=OTHER)))
    assert "words of its own reference (onset" in reason


def test_no_hits_or_no_check_are_no_reason():
    assert list(cross_talk_reasons(None)) == [] == list(cross_talk_reasons(level_of(OWN)))


def test_scores_can_be_compared_between_texts():
    weights = weigh_words(BACKGROUND)
    one, two, none = score_pairs(
        words(f"{OTHER} {THIRD}"), words(OWN), [words(OTHER), words(THIRD), words(OWN)], weights
    )
    assert one > two > THRESHOLD and none == 0.0
    assert score_pairs((), words(OWN), [words(OTHER)], weights) == [0.0]
