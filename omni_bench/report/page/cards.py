"""The cards of a page: one for each request that somebody should hear, with whatever it can be compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import escape

from omni_bench.accuracy.signal.audio_faults import FAULTS
from omni_bench.accuracy.wer import alignment
from omni_bench.errors import shorten
from omni_bench.foreign_text import inert
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.level import level_of, level_or_none, short_title
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.cross_talk import source_name
from omni_bench.report.evidence import edits_text
from omni_bench.report.format import NA, fixed, metric_text, percent
from omni_bench.report.page.recordings import Recordings
from omni_bench.report.parity import is_mismatch_of, place_of
from omni_bench.report.table import error_rate
from omni_bench.report.utterances import Records, by_damage, is_rejected, score_of, shared_stretches

MAX_CARDS = 300
GOOD = 3
"""Cards of answers without a finding, to compare with."""
MAX_PAGE_TEXT = 1_000_000
"""Characters of HTML that the texts of all cards of a page may come to."""
MAX_TEXT, MAX_FINDING, MAX_NAME, MAX_LISTED = 1500, 400, 200, 12
"""Characters of a text, a finding and a name, and entries of a list, in one card."""
NO_PARITY = {"kind": "pcm"}  # of a level that run.json lacks: by the samples
_METRICS = ("ttfp_ms", "rtf", "e2el_ms", "stalls")

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Player:
    """A recording and what it is. ``name``: in the page's recordings, None if it was not kept; ``mark_s``: where."""

    label: str
    name: str | None
    mark_s: float | None = None
    mark: str = ""


@dataclass(frozen=True)
class Card:
    """One request. ``words``: (kind, wanted, heard) of the alignment; ``tags``: what was found, to filter by."""

    request_id: str
    prompt_id: str
    level: str
    text: str
    heard: str | None
    words: tuple[tuple[str, str, str], ...]
    rates: str
    tags: tuple[str, ...]
    findings: tuple[str, ...]
    facts: tuple[str, ...]
    neighbours: tuple[str, ...]
    players: tuple[Player, ...]


def cards_of(run: Record, records: Records, folder: RunFolder, recordings: Recordings) -> tuple[list[Card], int, int]:
    """The cards, the worst first and a few good ones last; how many of them are findings, and how many there are.

    A page has room for :data:`MAX_CARDS` and :data:`MAX_PAGE_TEXT`. Raises StoreError for an utterance that lacks a
    field.
    """
    rate = error_rate(run)
    parity = {level_of(level): level["parity"] for level in run["levels"] if level.get("parity")}
    by_id = {one["request_id"]: one for one in records.requests}
    heard = {one["request_id"]: one for one in records.utterances}
    alone = {one["request_id"]: one for one in records.solo}
    pairs = {one["request_id"]: one for one in records.parity if not one["repeat"]}
    parted = {name for name, one in pairs.items() if is_mismatch_of(one, parity.get(level_or_none(one), NO_PARITY))}
    victims = {hit["victim"]: hit for hit in sorted(records.hits, key=lambda hit: hit["score"])}
    found = dict.fromkeys(one["request_id"] for one in by_damage(records.utterances))
    found |= dict.fromkeys(victims)
    found |= dict.fromkeys(name for name, one in by_id.items() if is_rejected(one))
    found |= dict.fromkeys(name for name in pairs if name in parted)
    good = [name for name, one in by_id.items() if name not in found and one.get("audio")][:GOOD]

    def card(name: str) -> Card:
        request, utterance, pair = by_id.get(name, {}), heard.get(name), pairs.get(name)
        hit = victims.get(name)
        tags, findings = _findings(request, utterance, hit, pair if name in parted else None)
        solo = alone.get(pair["solo_id"], {}) if pair else {}
        source = by_id.get(hit["source"], {}) if hit and hit["source"] != name else {}
        parts_s = pairs[name].get("at_s") if name in parted else None
        own = recordings.add(folder, request.get("audio") or (utterance or {}).get("audio"))
        players = [Player("this answer", own, parts_s, "parts from the same request alone")]
        if solo:
            what = "the same request alone"
            what += f": “{shorten(pair['heard_alone'], 120)}”" if pair.get("heard_alone") else ""
            players.append(Player(what, recordings.add(folder, solo.get("audio")), parts_s, "parts"))
        if source:
            players.append(Player(f"whose words: {hit['source']}", recordings.add(folder, source.get("audio"))))
        if request.get("ref_audio"):
            players.append(Player("reference recording", recordings.add(folder, request["ref_audio"])))
        level = level_or_none(request or utterance or {})
        return Card(
            name,
            str(request.get("prompt_id") or (utterance or {}).get("prompt_id") or NA),
            NA if level is None else short_title(level),
            str(request.get("text") or (utterance or {}).get("reference") or ""),
            None if utterance is None else utterance["hypothesis"],
            () if utterance is None else tuple(map(tuple, alignment(score_of(utterance)))),
            "" if utterance is None else f"{rate} {percent(utterance['wer'])} ({edits_text(utterance)})",
            tags,
            findings,
            _facts(request, utterance),
            tuple(one["request_id"] for one in pair["neighbours"]) if pair else (),
            tuple(players),
        )

    shown = fitting(card(name) for name in list(found)[:MAX_CARDS])
    return [*shown, *fitting(map(card, good))], len(shown), len(found)


def fitting(cards: Iterable[Card]) -> list[Card]:
    """The first of ``cards`` that a page has room for, each with its long texts cut."""
    kept, room = [], MAX_PAGE_TEXT
    for card in map(_cut, cards):
        texts = (card.text, card.heard or "", card.rates, *(text for word in card.words for text in word))
        texts += (*card.tags, *card.findings, *card.facts, *card.neighbours, *(one.label for one in card.players))
        room -= len(escape(inert("\n".join(texts)))) + len("<span></span>") * len(card.words)
        if room < 0:
            break
        kept.append(card)
    return kept


def _cut(card: Card) -> Card:
    words, length = [], 0
    for kind, wanted, heard in card.words:
        if length > MAX_TEXT:
            words.append(("equal", "...", ""))
            break
        words.append((kind, shorten(wanted, MAX_TEXT), shorten(heard, MAX_TEXT)))
        length += len(wanted) + len(heard)
    more = len(card.neighbours) - MAX_LISTED
    return replace(
        card,
        request_id=shorten(card.request_id, MAX_NAME),
        prompt_id=shorten(card.prompt_id, MAX_NAME),
        text=shorten(card.text, MAX_TEXT),
        heard=None if card.heard is None else shorten(card.heard, MAX_TEXT),
        words=tuple(words),
        tags=tuple(shorten(one, MAX_NAME) for one in card.tags[:MAX_LISTED]),
        findings=tuple(shorten(one, MAX_FINDING) for one in card.findings[:MAX_LISTED]),
        neighbours=(
            *(shorten(one, MAX_NAME) for one in card.neighbours[:MAX_LISTED]),
            *([f"and {more} more (parity.jsonl)"] if more > 0 else []),
        ),
        players=tuple(replace(one, label=shorten(one.label, MAX_FINDING)) for one in card.players),
    )


def filters_of(cards: Sequence[Card]) -> dict[str, list[str]]:
    """What a list of cards can be filtered by."""
    return {
        "levels": list(dict.fromkeys(card.level for card in cards)),
        "tags": sorted({tag for card in cards for tag in card.tags}),
        "prompts": sorted({card.prompt_id for card in cards}),
    }


def _findings(
    request: Record, utterance: Record | None, hit: Record | None, parted: Record | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(tags, sentences) about one request; ``parted``: its line of parity.jsonl if that is a mismatch."""
    found: dict[str, str] = {}
    if hit is not None:
        found["cross-talk"] = f"speaks words of {source_name(hit)} ({hit['position']}): “{shorten(hit['heard'], 200)}”"
    if request.get("error"):
        error = request["error"]
        found[f"failed: {error['kind']}"] = shorten(f"{error['kind']}: {error['message']}", 300)
    for fault in request.get("faults") or ():
        found[fault] = _fault(fault, request)
    if parted is not None:
        found["differs alone"] = f"parts from the same request alone at {place_of(parted)}"
    if utterance is not None and utterance.get("voice_outlier"):
        found["voice"] = "the voice is out of line"
    if utterance is not None and (utterance["substitutions"] or utterance["deletions"] or utterance["insertions"]):
        found["wrong words"] = utterance["forced"] or ""
    return tuple(found) or ("good",), tuple(text for text in found.values() if text)


def _fault(fault: str, request: Record) -> str:
    if fault == "shared_audio" and request.get("shared_audio"):
        return "; ".join(shared_stretches(request))
    return f"{fault}: {FAULTS[fault]}" if fault in FAULTS else f"fault: {fault}"


def _facts(request: Record, utterance: Record | None) -> tuple[str, ...]:
    metrics = request.get("metrics") or {}
    shown = [(METRICS[name], metrics[name]) for name in _METRICS if metrics.get(name) is not None]
    facts = [f"{one.short} {metric_text(one, value)}{f' {one.unit}' if one.unit else ''}" for one, value in shown]
    if utterance is not None and utterance.get("avg_logprob") is not None:
        facts.append(f"mean log probability {fixed(utterance['avg_logprob'], 2)}")
    return tuple(facts)
