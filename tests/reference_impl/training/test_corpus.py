"""Building the corpus from small stand-ins of the free texts: deterministic, and blind to the evaluation texts."""

from __future__ import annotations

import gzip
import random
import re
import struct
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from omni_bench.errors import DatasetError
from reference_impl.prompt.text.spoken import spoken_form
from reference_impl.training import corpus as module
from reference_impl.training.corpus import build_sentences, load_corpus, save_corpus
from reference_impl.training.free_texts import read_bible, read_fortunes, read_wordnet, split_prose
from reference_impl.training.sentences import EXCLUDED_SETS, Chooser, excluded_keys, key, reserved, tidy, usable
from reference_impl.training.slots import GROUPS, SLOTS, WordPool, article, fill, read_lists

WORDS = [
    "alpha", "bravo", "castle", "dinner", "evening", "flower", "garden", "harbor",
    "island", "jacket", "kitchen", "ladder", "mirror", "night", "orange", "paper",
]  # fmt: skip


def known(word: str) -> float:
    """Every word is frequent, but for one."""
    return 0.0 if word == "xyzzy" else 4.0


@pytest.fixture
def sources(tmp_path) -> Path:
    """WordNet, the Bible module, fortunes and the Debian Reference, a few dozen sentences each."""
    rng = random.Random(5)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(5, 9)))

    wordnet = tmp_path / "wordnet"
    wordnet.mkdir()
    for name, kind in (("noun", "n"), ("verb", "v"), ("adj", "a"), ("adv", "r")):
        lines = ["  1 licence text"]
        lines += [
            f'0000{i:04d} 03 {kind} 01 {rng.choice(WORDS)} 0 000 | {sentence()}; "{sentence()}"' for i in range(40)
        ]
        lines.append(f'00009999 15 n 01 Lisbon 0 001 @i 00001740 n 0000 | a city; "{sentence()}"')
        (wordnet / f"data.{name}").write_text("\n".join(lines) + "\n")
    bible = tmp_path / "bible"
    bible.mkdir()
    for testament in ("ot", "nt"):
        text = " ".join(f"<w>{sentence().capitalize()}</w><note>left out</note>." for _ in range(30)).encode()
        packed = zlib.compress(text)
        (bible / f"{testament}.bzz").write_bytes(packed)
        (bible / f"{testament}.bzs").write_bytes(struct.pack("<III", 0, len(packed), len(text)))
    for folder, name in (("fortunes", "wisdom"), ("fortunes", "literature")):
        (tmp_path / folder).mkdir(exist_ok=True)
        fortunes = [f"{sentence().capitalize()}.\n\t\t-- Somebody" for _ in range(10)]
        (tmp_path / folder / name).write_text("\n%\n".join(fortunes))
    with gzip.open(tmp_path / "debian-reference.en.txt.gz", "wt") as handle:
        handle.write("\n\n".join(f"{sentence().capitalize()}." for _ in range(20)))
    return tmp_path


def test_the_same_seed_gives_the_same_sentences(sources):
    first = build_sentences(sources, 300, 7, known, WORDS)
    assert first == build_sentences(sources, 300, 7, known, WORDS)
    assert first != build_sentences(sources, 300, 8, known, WORDS)
    assert len(first) == len({key(s) for s in first})
    assert 280 <= len(first) <= 300


def test_texts_of_the_evaluation_sets_are_never_taken(sources, monkeypatch):
    secret = build_sentences(sources, 300, 7, known, WORDS)[:40]
    monkeypatch.setattr(module, "excluded_keys", lambda: {key(s) for s in secret})
    taken = {key(s) for s in build_sentences(sources, 300, 7, known, WORDS)}
    assert not taken & {key(s) for s in secret}


def test_the_excluded_keys_hold_both_sets():
    keys = excluded_keys()
    for path in EXCLUDED_SETS:
        rows = [r for r in path.read_text(encoding="utf-8").splitlines() if r and not r.startswith("#")]
        assert len(rows) > 300
        assert all(key(spoken_form(row.split("|")[3])) in keys for row in rows)


def test_a_missing_evaluation_set_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match="must leave out"):
        excluded_keys([tmp_path / "meta.lst"])


@pytest.mark.parametrize(
    ("raw", "good"),
    [
        ("The garden is open.", True),
        ("I saw a xyzzy there.", False),
        ("See http://example.org for more.", False),
        ("Two words.", False),
        ("He said {this} aloud.", False),
        ("NASA went to the island.", False),
        ("word " * 40 + ".", False),
        ("It costs $5 in 1984.", True),
    ],
)
def test_usable(raw, good):
    assert usable(raw, known) is good


def test_tidy():
    assert tidy('He said , "no" ') == "He said, no."
    assert tidy("Is it  late ?") == "Is it late?"


def test_reserved_sentences_are_not_chosen():
    raw = [f"{a} and {b} met at noon." for a in WORDS for b in WORDS]
    kept = [s for s in raw if reserved(s)]
    assert 0 < len(kept) < len(raw) / 10
    chosen = Chooser(random.Random(0), known, set()).take(raw, len(raw))
    assert not {key(s) for s in chosen} & {key(s) for s in kept}


def test_pairs_hold_both_sentences_whole():
    chooser = Chooser(random.Random(0), known, set())
    sentences = [f"The {w} is here." for w in WORDS]
    for pair in chooser.pairs(sentences, 30):
        assert sum(f"the {w} is here" in pair.lower() for w in WORDS) == 2


def test_a_corpus_file_comes_back(tmp_path):
    encoded = [(b"At 5.", b"At five.", bytes([0, 9, 0])), ("£4.".encode(), b"Four pounds.", bytes([0, 7, 8, 0]))]
    save_corpus(tmp_path / "c.npz.xz", encoded, {"seed": 3})
    corpus = load_corpus(tmp_path / "c.npz.xz")
    assert len(corpus) == 2 and corpus.info == {"seed": 3}
    assert [corpus.written_text(i) for i in (0, 1)] == ["At 5.", "£4."]
    assert [corpus.spoken_text(i) for i in (0, 1)] == ["At five.", "Four pounds."]
    assert [corpus.phoneme_ids(i).tolist() for i in (0, 1)] == [[0, 9, 0], [0, 7, 8, 0]]
    assert corpus.phoneme_ids(1).dtype == np.int64
    (tmp_path / "broken").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="broken"):
        load_corpus(tmp_path / "broken")


def test_wordnet_names_come_from_instances_only(sources):
    wordnet = read_wordnet(sources)
    assert wordnet.places == ["Lisbon"]
    assert set(wordnet.nouns) <= set(WORDS)
    assert all(e[0].isupper() and e[-1] in ".?!" for e in wordnet.examples)


def test_bible_and_fortunes_lose_their_markup(sources):
    assert len(read_bible(sources)) == 60
    assert all(re.fullmatch(r"[A-Za-z ]+\.", s) for s in read_bible(sources))
    assert all("Somebody" not in s for s in read_fortunes(sources))


def test_missing_sources_name_their_package(tmp_path):
    with pytest.raises(DatasetError, match="wordnet-base"):
        read_wordnet(tmp_path)


def test_prose_is_split_at_sentence_ends():
    assert split_prose("One is here.  Two\nis there? Three!") == ["One is here.", "Two is there?", "Three!"]


def test_every_slot_of_every_template_is_known():
    pools = {"w", "n", "a", "P", "S", "Person"}
    for weight, templates in GROUPS.values():
        assert weight > 0 and templates
        for template in templates:
            assert set(re.findall(r"\{(\w+)\}", template)) <= set(SLOTS) | pools, template


def test_filled_templates_are_plain_sentences():
    rng, pools = random.Random(0), dict.fromkeys("wnaPS", lambda rng: "apple")
    for _ in range(300):
        text = fill(rng, pools)
        assert "{" not in text and text[-1] in ".?!" and not text[0].islower()
        assert re.fullmatch(r"[A-Za-z ,.?!']+", spoken_form(text)), text


def test_articles_fit_the_next_word():
    assert article("it is a old idea and a new one.") == "It is an old idea and a new one."


def test_a_pool_prefers_what_was_seen_least():
    seen: Counter[str] = Counter({"often": 1000})
    pool = WordPool(["often", "rare"], [1.0, 1.0], seen, candidates=8)
    drawn = Counter(pool.draw(random.Random(i)) for i in range(50))
    assert drawn["rare"] > 45


def test_lists_are_read_with_comments_left_out(tmp_path):
    (tmp_path / "lists").write_text("# about\n[one]\na|b\nc\n[two]\nd e\n")
    assert read_lists(tmp_path / "lists") == {"one": ["a", "b", "c"], "two": ["d e"]}
