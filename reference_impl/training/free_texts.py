"""Free English texts as lists of raw sentences, read from unpacked Debian packages.

Sources: WordNet 3.0 (``wordnet-base``; permissive licence), the World English Bible
(``sword-text-web``; public domain), the Debian Reference (``debian-reference-en``; GPL-2+, read
aloud only) and the fortune files (``fortunes``, ``fortunes-min``; mixed origin). Nothing of
them is stored in this repository.
"""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_bench.errors import DatasetError

_SENTENCE_END = re.compile(r"(?<=[.?!])[\"”’']?\s+(?=[\"“‘A-Z])")
WORDNET_FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
# instances of these lexicographer files (WordNet's lexnames) are people and places
_PLACE_FILE, _PERSON_FILE = "15", "18"


@dataclass(frozen=True)
class WordNet:
    """What a corpus takes from WordNet.

    ``examples``: quoted usage examples; ``definitions``: glosses; ``nouns`` and ``adjectives``:
    single lower-case words; ``places`` and ``surnames``: capitalised names of instances.
    """

    examples: list[str]
    definitions: list[str]
    nouns: list[str]
    adjectives: list[str]
    places: list[str]
    surnames: list[str]


def _need(root: Path, pattern: str, package: str) -> Path:
    found = sorted(root.rglob(pattern))
    if not found:
        raise DatasetError(f"{root}: no {pattern} below this folder; unpack the Debian package {package} there")
    return found[0]


def _capital(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text[-1:] in ".?!" else f"{text}."


def read_wordnet(root: Path) -> WordNet:
    """Parse the four ``data.*`` files (format: wndb(5WN)) found anywhere below ``root``.

    Raises DatasetError if they are missing.
    """
    examples: list[str] = []
    definitions: list[str] = []
    words: dict[str, list[str]] = {"n": [], "a": [], "place": [], "person": []}
    for name in WORDNET_FILES:
        path = _need(root, name, "wordnet-base")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("  "):
                continue
            head, _, gloss = line.partition(" | ")
            fields = head.split(" ")
            kind = fields[2]
            lemmas = [fields[4 + 2 * i].split("(")[0] for i in range(int(fields[3], 16))]
            instance = " @i " in head
            for lemma in lemmas:
                if instance and re.fullmatch(r"[A-Z][a-z]{2,11}", lemma):
                    group = {_PLACE_FILE: "place", _PERSON_FILE: "person"}.get(fields[1])
                    if group:
                        words[group].append(lemma)
                elif not instance and re.fullmatch(r"[a-z]{3,14}", lemma) and kind in "nas":
                    words["n" if kind == "n" else "a"].append(lemma)
            examples += [_capital(e) for e in re.findall(r'"([^"]{8,})"', gloss)]
            definition = re.sub(r"\([^)]*\)", " ", gloss.split('; "')[0]).strip(" ;")
            if definition and '"' not in definition:
                definitions.append(_capital(definition))
    return WordNet(
        list(dict.fromkeys(examples)),
        list(dict.fromkeys(definitions)),
        *(list(dict.fromkeys(words[key])) for key in ("n", "a", "place", "person")),
    )


def sword_blocks(folder: Path, testament: str) -> Iterator[str]:
    """Decompressed blocks of a SWORD zText module: ``bzs`` holds (offset, size, raw size) of each block of ``bzz``."""
    index = (folder / f"{testament}.bzs").read_bytes()
    data = (folder / f"{testament}.bzz").read_bytes()
    for offset, size, _ in struct.iter_unpack("<III", index[: len(index) // 12 * 12]):
        if size:
            yield zlib.decompress(data[offset : offset + size]).decode("utf-8", errors="replace")


def split_prose(text: str) -> list[str]:
    """Sentences of running text, each on one line."""
    flat = re.sub(r"\s+", " ", text)
    return [s.strip() for s in _SENTENCE_END.split(flat) if s.strip()]


def read_bible(root: Path) -> list[str]:
    """Sentences of the World English Bible. Raises DatasetError if the module is missing."""
    folder = _need(root, "ot.bzs", "sword-text-web").parent
    sentences: list[str] = []
    for testament in ("ot", "nt"):
        for block in sword_blocks(folder, testament):
            text = re.sub(r"<note.*?</note>|<title.*?</title>", " ", block, flags=re.S)
            text = re.sub(r"<[^>]+>|[“”\"‘’]", lambda m: "'" if m[0] == "’" else " ", text)
            sentences += split_prose(text)
    return sentences


def read_debian_reference(root: Path) -> list[str]:
    """Sentences of the Debian Reference. Raises DatasetError if it is missing."""
    path = _need(root, "debian-reference.en.txt.gz", "debian-reference-en")
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        text = handle.read()
    paragraphs = re.split(r"\n\s*\n|\n\s*[•○*-] ", text)
    return [s for p in paragraphs for s in split_prose(p)]


def read_fortunes(root: Path) -> list[str]:
    """Sentences of the fortune files without their attributions. Raises DatasetError if there are none."""
    folder = _need(root, "fortunes/wisdom", "fortunes").parent
    also = _need(root, "fortunes/literature", "fortunes-min").parent
    sentences: list[str] = []
    for path in sorted({p for f in (folder, also) for p in f.iterdir() if p.is_file() and not p.suffix}):
        for fortune in path.read_text(encoding="utf-8", errors="replace").split("\n%\n"):
            body = re.split(r"\n\s*-- ", fortune)[0]
            sentences += split_prose(re.sub(r"\s-+\s", ", ", body))
    return sentences
