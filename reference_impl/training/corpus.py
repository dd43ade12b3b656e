"""The training text: free sentences and templates, as character ids and the teacher's phoneme ids.

    python -m reference_impl.training.corpus --sources FOLDER --out corpus.npz.xz [--seed 0]

FOLDER holds the unpacked Debian packages that :mod:`reference_impl.training.free_texts` names.
Every sentence of the bundled data set and of the evaluation set is left out, and one free
sentence in ``RESERVE`` (chosen by a hash of its letters) is kept for evaluation. The result is
one compressed file and depends on the seed, the sources and the teacher's front end only.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import multiprocessing
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omni_bench.errors import DatasetError
from reference_impl.model.config import TextConfig
from reference_impl.prompt.characters import CharTokenizer
from reference_impl.prompt.text.spoken import spoken_form
from reference_impl.training import free_texts
from reference_impl.training.sentences import MAX_CHARS, Chooser, excluded_keys
from reference_impl.training.slots import LISTS, WordPool, fill

MAX_PHONEMES = 400  # the teacher's own limit for one pass
# sentences taken of each source; the templates fill the rest
SHARES = {
    "examples": 36_000,
    "definitions": 22_000,
    "bible": 16_000,
    "fortunes": 10_000,
    "debian": 2_000,
    "pairs": 12_000,
}
DEFAULT_SIZE = 150_000
MIN_WORD_COUNT = 3


@dataclass(frozen=True)
class Corpus:
    """Sentences as flat arrays. ``text`` are indices into the voice's alphabet, ``phonemes`` teacher ids.

    ``text_ends`` and ``phoneme_ends`` int64 [sentences]: sentence i is ``text[ends[i - 1]:ends[i]]``.
    ``info``: seed, sizes and sources.
    """

    text: np.ndarray
    text_ends: np.ndarray
    phonemes: np.ndarray
    phoneme_ends: np.ndarray
    info: dict

    def __len__(self) -> int:
        return len(self.text_ends)

    def text_ids(self, index: int) -> np.ndarray:
        """Alphabet indices of one sentence, uint8."""
        return self.text[self.text_ends[index - 1] if index else 0 : self.text_ends[index]]

    def phoneme_ids(self, index: int) -> np.ndarray:
        """The teacher's phoneme ids of one sentence with the pads at both ends, int64."""
        return self.phonemes[self.phoneme_ends[index - 1] if index else 0 : self.phoneme_ends[index]].astype(np.int64)


def build_sentences(
    sources: Path, size: int, seed: int, frequency: Callable[[str], float], common: list[str]
) -> list[str]:
    """``size`` sentences in random order. ``frequency``: Zipf frequency of a word; ``common``: words to cover."""
    rng = random.Random(seed)
    wordnet = free_texts.read_wordnet(sources)
    chooser = Chooser(rng, frequency, excluded_keys())
    scale = size / DEFAULT_SIZE
    share = {name: int(count * scale) for name, count in SHARES.items()}
    examples = chooser.take(wordnet.examples, share["examples"], min_words=2)
    sentences = list(examples)
    sentences += chooser.take(wordnet.definitions, share["definitions"], min_words=4)
    sentences += chooser.take(free_texts.read_bible(sources), share["bible"], min_words=6)
    sentences += chooser.take(free_texts.read_fortunes(sources), share["fortunes"])
    sentences += chooser.take(free_texts.read_debian_reference(sources), share["debian"], min_words=6)
    sentences += chooser.pairs(examples, share["pairs"])
    seen = Counter(w for s in sentences for w in re.findall(r"[a-z']+", s.lower()))

    def pool(words: Iterable[str], floor: float) -> Callable[[random.Random], str]:
        known = sorted({w for w in words if frequency(w.lower()) >= floor})
        return WordPool(known or ["word"], [10 ** frequency(w.lower()) for w in known] or [1.0], seen).draw

    pools = {
        "w": pool(common, 0.0),
        "n": pool(wordnet.nouns, 3.2),
        "a": pool(wordnet.adjectives, 3.2),
        "P": pool([*wordnet.places, *LISTS["cities"]], 2.6),
        "S": pool([*wordnet.surnames, *LISTS["surnames"]], 2.6),
    }
    # what the sources could not fill goes to the templates; some room stays for words still too rare
    room = int(0.04 * size)
    while len(sentences) < size - room:
        text = fill(rng, pools)
        if len(text) <= MAX_CHARS and chooser.claim(text):
            seen.update(re.findall(r"[a-z']+", text.lower()))
            sentences.append(text)
    rare = [w for w in common if seen[w] < MIN_WORD_COUNT]
    lists: list[str] = []
    while rare and len(sentences) + len(lists) < size:
        rng.shuffle(rare)
        for i in range(0, len(rare), 6):
            group = rare[i : i + 6]
            seen.update(group)
            lists.append(", ".join(group[:-1]) + f" and {group[-1]}." if len(group) > 1 else f"{group[0]}.")
        rare = [w for w in rare if seen[w] < MIN_WORD_COUNT]
    sentences += [s[:1].upper() + s[1:] for s in lists][: size - len(sentences)]
    rng.shuffle(sentences)
    return sentences


_teacher_front: object | None = None


def _encode(sentence: str) -> tuple[bytes, bytes] | None:
    """Alphabet indices and phoneme ids of one sentence, or None if it does not fit."""
    global _teacher_front
    if _teacher_front is None:
        from hibari import Hibari

        _teacher_front = (Hibari(), CharTokenizer(TextConfig()))
    teacher, tokenizer = _teacher_front
    spoken = spoken_form(sentence)
    folded = tokenizer.fold(spoken).strip(" ,'")
    if not folded or len(folded) > MAX_CHARS:
        return None
    phonemes = teacher.ids(" ".join(teacher.phonemize(spoken)))
    if len(phonemes) > MAX_PHONEMES or len(phonemes) < 5:
        return None
    return bytes(TextConfig().chars.index(c) for c in folded), bytes(phonemes)


def encode_sentences(sentences: list[str], processes: int) -> list[tuple[bytes, bytes]]:
    """Character and phoneme ids of every sentence that fits, in order."""
    if processes <= 1:
        encoded = map(_encode, sentences)
        return [e for e in encoded if e]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return [e for e in pool.imap(_encode, sentences, chunksize=200) if e]


def save_corpus(path: Path, encoded: list[tuple[bytes, bytes]], info: dict) -> None:
    """Write the compressed file."""
    arrays = {
        "text": np.frombuffer(b"".join(t for t, _ in encoded), np.uint8),
        "text_lengths": np.array([len(t) for t, _ in encoded], np.uint16),
        "phonemes": np.frombuffer(b"".join(p for _, p in encoded), np.uint8),
        "phoneme_lengths": np.array([len(p) for _, p in encoded], np.uint16),
        "info": np.frombuffer(json.dumps(info).encode(), np.uint8),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=9))


def load_corpus(path: Path) -> Corpus:
    """Read :func:`save_corpus`. Raises DatasetError for a file that is none."""
    try:
        with np.load(io.BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as z:
            return Corpus(
                z["text"],
                np.cumsum(z["text_lengths"].astype(np.int64)),
                z["phonemes"],
                np.cumsum(z["phoneme_lengths"].astype(np.int64)),
                json.loads(z["info"].tobytes()),
            )
    except (OSError, lzma.LZMAError, KeyError, ValueError) as error:
        raise DatasetError(f"{path}: not a corpus file of this project: {error}") from None


def readable_words(words: Iterable[str]) -> list[str]:
    """Those that the teacher's lexicon holds in lower case and that are no abbreviation."""
    from hibari import Hibari

    lexicon = Hibari().g2p.lexicon
    return [
        w
        for w in words
        if re.fullmatch(r"[a-z]+('[a-z]+)?", w)
        and re.search("[aeiouy]", w)
        and 2 < len(w) < 17
        and (w in lexicon.golds or w in lexicon.silvers)
    ]


def main() -> None:
    """Command line; see the module docstring."""
    from wordfreq import top_n_list, zipf_frequency

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the unpacked Debian packages")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=DEFAULT_SIZE, help="sentences")
    parser.add_argument("--words", type=int, default=28_000, help="most frequent words to cover")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    common = readable_words(top_n_list("en", args.words))
    sentences = build_sentences(args.sources, args.size, args.seed, lambda w: zipf_frequency(w, "en"), common)
    encoded = encode_sentences(sentences, args.processes)
    info = {
        "seed": args.seed,
        "sentences": len(encoded),
        "characters": sum(len(t) for t, _ in encoded),
        "words": sum(t.count(0) + 1 for t, _ in encoded),
    }
    save_corpus(args.out, encoded, info)
    print(json.dumps({**info, "bytes": args.out.stat().st_size}))


if __name__ == "__main__":
    main()
