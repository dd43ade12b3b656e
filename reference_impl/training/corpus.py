"""The training text: free sentences and templates, as written, as spoken, and as the teacher's phoneme ids.

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
from reference_impl.prompt.text.spoken import spoken_form
from reference_impl.training import free_texts
from reference_impl.training.sentences import MAX_CHARS, Chooser, excluded_keys
from reference_impl.training.slots import LISTS, WordPool, fill

MAX_SPOKEN_CHARS = 200
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
    """Sentences as flat arrays: ``written`` and ``spoken`` are UTF-8 bytes, ``phonemes`` teacher ids.

    ``written`` is the sentence as people write it; ``spoken`` has numbers, dates, prices and
    abbreviations as words. ``..._ends`` int64 [sentences]: sentence i is ``array[ends[i - 1]:ends[i]]``.
    ``info``: seed, sizes and sources.
    """

    written: np.ndarray
    written_ends: np.ndarray
    spoken: np.ndarray
    spoken_ends: np.ndarray
    phonemes: np.ndarray
    phoneme_ends: np.ndarray
    info: dict

    def __len__(self) -> int:
        return len(self.phoneme_ends)

    def written_text(self, index: int) -> str:
        """One sentence as people write it."""
        return _part(self.written, self.written_ends, index).tobytes().decode()

    def spoken_text(self, index: int) -> str:
        """One sentence with everything in words."""
        return _part(self.spoken, self.spoken_ends, index).tobytes().decode()

    def phoneme_ids(self, index: int) -> np.ndarray:
        """The teacher's phoneme ids of one sentence with the pads at both ends, int64."""
        return _part(self.phonemes, self.phoneme_ends, index).astype(np.int64)


def _part(array: np.ndarray, ends: np.ndarray, index: int) -> np.ndarray:
    return array[ends[index - 1] if index else 0 : ends[index]]


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


Encoded = tuple[bytes, bytes, bytes]  # of one sentence: written, spoken, phoneme ids
_teacher: object | None = None


def _encode(sentence: str) -> Encoded | None:
    """The three forms of one sentence, or None if it does not fit."""
    global _teacher
    if _teacher is None:
        from hibari import Hibari

        _teacher = Hibari()
    spoken = spoken_form(sentence)
    if not spoken.strip(" ,'") or len(spoken) > MAX_SPOKEN_CHARS:
        return None
    phonemes = _teacher.ids(" ".join(_teacher.phonemize(spoken)))
    if len(phonemes) > MAX_PHONEMES or len(phonemes) < 5:
        return None
    return sentence.encode(), spoken.encode(), bytes(phonemes)


def encode_sentences(sentences: list[str], processes: int) -> list[Encoded]:
    """The three forms of every sentence that fits, in order."""
    if processes <= 1:
        encoded = map(_encode, sentences)
        return [e for e in encoded if e]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return [e for e in pool.imap(_encode, sentences, chunksize=200) if e]


def save_corpus(path: Path, encoded: list[Encoded], info: dict) -> None:
    """Write the compressed file."""
    arrays = {
        **{
            name: np.frombuffer(b"".join(e[i] for e in encoded), np.uint8)
            for i, name in enumerate(("written", "spoken", "phonemes"))
        },
        "lengths": np.array([[len(part) for part in e] for e in encoded], np.uint16),
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
            written, spoken, phonemes = np.cumsum(z["lengths"].astype(np.int64), axis=0).T
            return Corpus(
                z["written"], written, z["spoken"], spoken, z["phonemes"], phonemes, json.loads(z["info"].tobytes())
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
        "characters": sum(len(written) for written, _, _ in encoded),
        "words": sum(spoken.count(b" ") + 1 for _, spoken, _ in encoded),
    }
    save_corpus(args.out, encoded, info)
    print(json.dumps({**info, "bytes": args.out.stat().st_size}))


if __name__ == "__main__":
    main()
