"""What the signal checks find, and whether clean speech ever alarms: of many voices, by each kind of damage.

    python -m benchmarks.audio_checks.voices                        speak, with the synthesizers that are installed
    python -m benchmarks.audio_checks --out reports/audio_checks.md

Takes half a minute a voice. What is measured is kept beside the clips until the clips or the checks change, so that it
can be stopped and gone on with. Everything random follows --seed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import soundfile
from scipy.stats import binomtest

from benchmarks.audio_checks.corruptions import FULL_SCALE, Speech, speak
from benchmarks.audio_checks.measure import (
    CORRUPTIONS,
    HARMLESS,
    LEVEL,
    NOT_CLAIMED,
    ONE_IN,
    PIECES_S,
    QUIET,
    REFERENCES,
    Judged,
    Outcome,
    alone,
    corrupt_all,
    judge,
    measured,
    mistaken_for_a_rate,
)
from benchmarks.audio_checks.voices import (
    CHOSEN_ON,
    STAGES,
    VOICES,
    bundled_texts,
    default_cache,
    held_out_texts,
    load,
    usual_edges,
    versions,
)
from omni_bench.accuracy.signal.clicks import MEAN_SURPRISE, MEMBER_P, REQUEST_P, edge_evidence
from omni_bench.accuracy.signal.dropouts import FALL_DB, ONSET_RATIO, fall_db, onset_ratios
from omni_bench.accuracy.signal.level_p import LEVEL_P
from omni_bench.accuracy.signal.noise import NOISE_FLATNESS, NOISE_LEVEL_DB, noise_floor
from omni_bench.accuracy.signal.shared_audio import ResponseClip, find_shared_audio
from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.accuracy.signal.trailing import STOPS_DB, end_level_db
from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.report.table import markdown_table
from omni_bench.run.validity import LOST_AUDIO_S
from omni_bench.targets.chaos_proxy.damages import CUT_S, LOST_S
from omni_bench.terminal import say

RECORDINGS = "reference recordings"
DAMAGE_CODES = (  # damage of the proxy, code, heading
    ("too_fast", "wrong_rate", "(a) wrong_rate"),
    ("too_fast", "rate_in_doubt by the references", "(a) in doubt, references"),
    ("too_fast", "rate_in_doubt by the language", "(a) in doubt, language"),
    ("cut_tail", "cut_off", "(b) cut_off"),
    ("lost_samples", "spliced", "(c) spliced"),
    ("other_voice", "other_voice", "(d) other_voice"),
)
SERVER_FAULTS = (
    ("lost_left_context", "clicks"),
    ("padding_tail", "trailing_audio"),
    ("pinned_alias", "shared_audio"),
)
TESTS = ("cut_off", "spliced", "other_voice", "long_pauses")
SPLICES_CHOSEN_ON = 96  # of the sentences spoken here
FAULTY_TEXTS = 16
COLUMNS = 5


@dataclass(frozen=True)
class Statistic:
    """A number that a check compares with its limit, in clean speech and in speech corrupted for it."""

    check: str
    what: str
    limit: float
    corruption: str
    of: Callable[[Speech], float]
    low_is_bad: bool = False


def _values(speech: Speech) -> tuple[np.ndarray, float, int]:
    values = speech.samples.astype(np.float32) / FULL_SCALE
    return values, active_rms(values, speech.sample_rate_hz), speech.sample_rate_hz


def _edges(speech: Speech):
    return edge_evidence(speech.samples.astype(np.float32) / FULL_SCALE, speech.edges, speech.sample_rate_hz)


HOLE, APPENDED, NOISE = "80 ms hole, digital silence", "300 ms of another appended", "white noise, 10 dB SNR"
STATISTICS = (
    Statistic(
        "clicks",
        "log10 p, one request",
        np.log10(REQUEST_P),
        "lost_left_context",
        lambda s: np.log10(_edges(s).p_value),
        True,
    ),
    Statistic(
        "clicks",
        "log10 p, member of a proven level",
        np.log10(MEMBER_P),
        "lost_left_context",
        lambda s: np.log10(_edges(s).p_value),
        True,
    ),
    Statistic("clicks", "surprise per edge", MEAN_SURPRISE, "lost_left_context", lambda s: _edges(s).mean),
    Statistic("dropout", "fall, dB", FALL_DB, HOLE, lambda s: float(fall_db(*_values(s)).max())),
    Statistic(
        "dropout, trailing_audio",
        "onset ratio",
        ONSET_RATIO,
        APPENDED,
        lambda s: float(onset_ratios(*_values(s))[1].max(initial=0.0)),
    ),
    Statistic("trailing_audio", "level of the last 10 ms, dB", STOPS_DB, APPENDED, lambda s: end_level_db(*_values(s))),
    Statistic("noise", "level of the floor, dB", NOISE_LEVEL_DB, NOISE, lambda s: noise_floor(*_values(s)).level_db),
    Statistic("noise", "flatness of the floor", NOISE_FLATNESS, NOISE, lambda s: noise_floor(*_values(s)).flatness),
)


def main() -> None:
    """Print the tables, and write them if asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.audio_checks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of the clips (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="markdown file to write")
    arguments = parser.parse_args()
    clean = {RECORDINGS: reference_recordings()}
    clean |= {voice.label: found for voice in VOICES if (found := load(voice, arguments.cache))}
    outcomes = {}
    for label, speeches in clean.items():
        kept = arguments.cache / f"{label.replace(':', '_')}.json"
        outcomes[label] = measured(label, speeches, kept, arguments.seed)
    texts = bundled_texts()[:FAULTY_TEXTS]
    faulty = {name: speak(texts, fault=name) for name, _ in SERVER_FAULTS}
    report = "\n\n".join(
        [
            introduction(outcomes, arguments.cache),
            f"## All answers of a level together\n\n{levels(outcomes)}",
            f"## Silence\n\n{silences(outcomes)}",
            f"## Each answer by itself: clean\n\n{clean_clips(outcomes)}",
            f"## Each answer by itself: corrupted\n\n{corrupted_clips(outcomes, faulty)}",
            f"## Margins and cost\n\n{margins(clean, faulty, arguments.seed)}",
        ]
    )
    say(report)
    if arguments.out is not None:
        arguments.out.write_text(report + "\n", encoding="utf-8")


def reference_recordings() -> list[Speech]:
    """The reference recordings of the bundled data set, as if they had come in the server's chunks."""
    root = bundled_root() / "seed_tts_mini" / "en"
    entries = parse_meta((root / META_NAME).read_bytes(), META_NAME)
    found = []
    for wav, text in {entry.wav: entry.ref_text for entry in entries if entry.wav}.items():
        samples, rate_hz = soundfile.read(root / wav, dtype="int16")
        found.append(Speech(wav, samples, usual_edges(len(samples), rate_hz), text, rate_hz))
    return found


def introduction(outcomes: Mapping[str, Outcome], cache: Path) -> str:
    """What was done, with what, and what was not there."""
    missing = [voice.label for voice in VOICES if voice.label not in outcomes]
    made = ", ".join(f"{name} {version}" for name, version in versions(cache).items())
    return (
        "# The signal checks: what they find, and in whose clean speech they find nothing\n\n"
        "Written by `python -m benchmarks.audio_checks`, of clips that `python -m benchmarks.audio_checks.voices` made "
        f"with {made}; the reference recordings (12) are those of the bundled data set. "
        f"Without clips on that machine: {', '.join(missing) or 'none of the voices in voices.py'}.\n\n"
        f"The limits were chosen on the first {CHOSEN_ON} sentences of the bundled data set, of the voices "
        "marked “chosen” and of the recordings; here all voices speak the other sentences (at most "
        f"{len(held_out_texts())}). With its first `ONSET_RATIO` clean answers of Kokoro's af_bella had a `dropout`; "
        "so it was set anew with all voices but those marked “held out”. The score and `OWN_JUMPS` of `spliced` were "
        f"chosen on the first {SPLICES_CHOSEN_ON} of the sentences here, of the voices that are not held out. The "
        "limits of silence were set on all sentences of those voices. No limit was "
        "set on the voices marked “held out”. Intervals are exact ones of 95 % (Clopper–Pearson)."
    )


def levels(outcomes: Mapping[str, Outcome]) -> str:
    """Clean levels, levels with the damages (a) to (d), and pairs of voices."""
    alarms, found = [], []
    for label, one in [*_by_stage(outcomes)]:
        sizes = sorted(set(one.sizes))
        size = "" if sizes == [LEVEL] else f" of {sizes[0]}"
        clean = one.levels[""]
        lowest = [f"{_lowest(clean, name):.1g}" for name in TESTS]
        false = sum(bool(level.codes) for level in clean)
        alarms.append([label, _stage(label), f"{len(clean)}{size}", _rate(false, len(clean)), _codes(clean), *lowest])
        cells = [_rate(*_hits(one.levels[damage], code)) for damage, code, _ in DAMAGE_CODES]
        found.append([label, *cells])
    groups = [(f"**all, {stage}**" if stage else "**all**", stage, 0) for stage in (None, *STAGES)]
    chosen_on = SPLICES_CHOSEN_ON // LEVEL
    groups += [(f"**all, {stage}, from the {SPLICES_CHOSEN_ON + 1}th**", stage, chosen_on) for stage in STAGES[:-1]]
    for name, stage, first in groups:
        chosen = [one for label, one in outcomes.items() if _is_of(label, stage)]
        clean = [level for one in chosen for level in one.levels[""][first:]]
        if clean:
            false = sum(bool(level.codes) for level in clean)
            lowest = [f"{_lowest(clean, name):.1g}" for name in TESTS]
            alarms.append([name, "", str(len(clean)), _rate(false, len(clean)), _codes(clean), *lowest])
            cells = []
            for damage, code, _ in DAMAGE_CODES:
                cells.append(_rate(*_hits([level for one in chosen for level in one.levels[damage][first:]], code)))
            found.append([name, *cells])
    pairs = list(permutations(outcomes, 2))
    wrong = [pair for pair in pairs if mistaken_for_a_rate(outcomes[pair[0]], outcomes[pair[1]])]
    named = {name: _named(outcomes, name) for name in ("cut_tail", "lost_samples", "other_voice")}
    return (
        f"Groups of {LEVEL} answers, in flight at c = 8, judged as a run judges them: `cut_off`, `spliced`, "
        f"`other_voice` and `long_pauses` at p ≤ {LEVEL_P:g}, `wrong_rate` against {REFERENCES} recordings of the same "
        "voice (other sentences, read at 16 kHz), and `rate_in_doubt`, which a level makes no claim of speed with, by "
        "the pace of those recordings (where a server states no rate) and by that of the language.\n\n"
        "Clean levels, with the smallest p of all:\n\n"
        + markdown_table(("voice", "", "levels", "false alarms", "codes", *(f"p {name}" for name in TESTS)), alarms)
        + "\n\nDamage, by the functions that the proxy damages streams with (`target.chaos`). (a): made at 22,050 Hz, "
        f"played at 24,000 Hz, which is 8.8 % too fast; (b): the last {CUT_S * 1e3:.0f} ms of voice are missing in "
        f"every answer; (c): {LOST_S * 1e3:.0f} ms are missing within every answer, at its loudest; (d): one answer "
        f"in {ONE_IN} is in another voice (pitch and formants × 1.22). Found of tried levels:\n\n"
        + markdown_table(("voice", *(heading for _, _, heading in DAMAGE_CODES)), found)
        + "\n\nWhere the server counts its own audio (frames), (c) needs no statistic: "
        f"`audio_lost` says so where the means differ by more than {LOST_AUDIO_S * 1e3:.0f} ms, and here they "
        f"differ by {LOST_S * 1e3:.0f} ms.\n\nIn levels that are proven to be damaged, named of the damaged "
        f"answers: (b) {named['cut_tail']}; (c) {named['lost_samples']}; (d) {named['other_voice']}.\n\n"
        f"`wrong_rate` with recordings of another voice: {_rate(len(wrong), len(pairs))} pairs of voices are mistaken "
        f"for a rate{': ' if wrong else ''}{'; '.join(f'{level} with recordings of {by}' for level, by in wrong)}."
    )


def silences(outcomes: Mapping[str, Outcome]) -> str:
    """What is found of silence and hiss, by answer and by level."""
    held_out = [one for label, one in outcomes.items() if _is_of(label, STAGES[-1])]
    rows = []
    for name in ("", *QUIET):
        cells = []
        for group in (list(outcomes.values()), held_out):
            some = [one.quiet[name] for one in group]
            answers, levels_ = sum(one.answers for one in some), sum(one.levels for one in some)
            cells.append(_rate(sum(one.dead_air for one in some), answers))
            cells += [_rate(sum(getattr(one, which) for one in some), levels_) for which in ("every", "some")]
        rows.append([name or "**nothing**", *(cells[index] for index in (0, 3, 1, 4, 2, 5))])
    headings = (
        "added",
        "`dead_air`, by answer",
        "held out",
        "levels, in every answer",
        "held out",
        f"levels, in one of {ONE_IN}",
        "held out",
    )
    return (
        "Digital silence, or white noise at −60 dBFS, put before the speech, inside (in the quietest 50 ms of the "
        "middle half) or after it; found of tried, of all voices and of those held out. A level is found if it is "
        "invalid: an answer of it is `dead_air`, or all together have `long_pauses`. The first row is clean speech: "
        "its counts are false alarms. The limits of these two were set on the clips of the voices that are not held "
        "out. Silence after the speech in every answer alike is found where it is longer than what some voices end "
        "with (Kokoro: up to 0.9 s).\n\n" + markdown_table(headings, rows)
    )


def clean_clips(outcomes: Mapping[str, Outcome]) -> str:
    """False alarms of single answers, of clean and of harmlessly changed speech."""
    rows, total, clips = [], 0, 0
    for label, one in _by_stage(outcomes):
        false = sum(bool(found) for found in one.faults)
        total, clips = total + false, clips + one.clips
        names = _names(Counter(name for found in one.faults for name in found))
        rows.append([label, _stage(label), str(one.clips), _rate(false, one.clips), names, _names(one.not_held)])
    rows.append(["**all**", "", str(clips), _rate(total, clips), "", ""])
    harmless = []
    for name in HARMLESS:
        tried = sum(one.tried for one in outcomes.values())
        found = {label: one.alarms[name] for label, one in outcomes.items() if one.alarms[name]}
        text = "; ".join(f"{label}: {_names(names)}" for label, names in found.items())
        harmless.append([name, str(tried), f"{len(found)}/{len(outcomes)}", text or "–"])
    return (
        "All answers of a level in flight together. “Claims nothing”: levels in which a check is void because the "
        "voice itself does what the check looks for: it falls silent, or begins, within a sample (formant and "
        "diphone voices), or speaks equal samples. The report of a run says so.\n\n"
        + markdown_table(("voice", "", "clips", "invalid", "names", "claims nothing (levels)"), rows)
        + "\n\nHarmless changes to one level of each voice, of which the checks claim nothing that they do not "
        "claim of the clean level. Codes of the level count too: a voice that ends "
        "abruptly by itself cannot be told from one that is cut off if every answer is trimmed to its last loud 20 "
        "ms.\n\n" + markdown_table(("change", "clips", "voices with alarms", "which"), harmless)
    )


def corrupted_clips(outcomes: Mapping[str, Outcome], faulty: Mapping[str, list[Speech]]) -> str:
    """Found of tried, by voice and corruption."""
    names = [*CORRUPTIONS, *PIECES_S]
    wanted = {name: wanted for name, (wanted, _) in CORRUPTIONS.items()} | dict.fromkeys(PIECES_S, "shared_audio")
    parts = [
        "One level of each voice, each answer corrupted once and judged beside sound ones; found: those with the "
        "expected name. 0 is also the count where the check claims nothing of the voice (the table above)."
    ]
    for start in range(0, len(names), COLUMNS):
        some = names[start : start + COLUMNS]
        rows = [[label, *(_rate(one.found[name], one.tried) for name in some)] for label, one in _by_stage(outcomes)]
        for stage in (None, *STAGES):
            of = [one for label, one in outcomes.items() if _is_of(label, stage)]
            tried = sum(one.tried for one in of)
            name = f"**all, {stage}**" if stage else "**all**"
            rows.append([name, *(_rate(sum(one.found[each] for one in of), tried) for each in some)] if of else [])
        headings = [f"{name} ({wanted[name]})" for name in some]
        parts.append(markdown_table(("voice", *headings), [row for row in rows if row]))
    tried = sum(one.tried for one in outcomes.values())
    left = [
        [name, f"{tried}", _names(sum((Counter(one.other_names[name]) for one in outcomes.values()), Counter()))]
        for name in NOT_CLAIMED
    ]
    parts.append(
        "What no check of single answers claims to find, and what they call it:\n\n"
        + markdown_table(("corruption", "clips", "names"), left)
    )
    who = ("victim", "both", "owner", "missed")
    held = [one for one in outcomes.values() if "shared_audio" not in one.not_held]
    pieces = [[name, *(str(sum(one.pieces[name].get(which, 0) for one in held)) for which in who)] for name in PIECES_S]
    parts.append(
        f"Who is named where {len(held)} voices that speak no equal samples have a piece of another answer in the "
        "place of their own:\n\n"
        + markdown_table(("piece", *(f"{which} named" for which in who[:3]), "missed"), pieces)
    )
    rows = []
    for name, expected in SERVER_FAULTS:
        found = judge(faulty[name], ())[0]
        hits = sum(expected in one for one in found)
        rows.append([name, expected, _rate(hits, len(found)), _names(Counter(each for one in found for each in one))])
    parts.append(
        "Faults of the reference server (the bundled voice, 16 answers, 8 at a time):\n\n"
        + markdown_table(("fault", "expected", "found", "names"), rows)
    )
    return "\n\n".join(parts)


def margins(clean: Mapping[str, list[Speech]], faulty: Mapping[str, list[Speech]], seed: int) -> str:
    """How far clean and corrupted speech of the bundled voice and the recordings are from the limits, and the cost."""
    rng = np.random.default_rng(seed)
    sound = [one for label, group in clean.items() if label == RECORDINGS or "bundled" in label for one in group]
    few = sound[:: max(1, len(sound) // 100)]
    corrupted = {name: corrupt_all(few, CORRUPTIONS[name][1], rng) for name in (HOLE, APPENDED, NOISE)} | dict(faulty)
    rows = []
    for statistic in STATISTICS:
        sign = -1.0 if statistic.low_is_bad else 1.0
        good = max(sign * statistic.of(speech) for speech in sound)
        bad = np.array([sign * statistic.of(speech) for speech in corrupted[statistic.corruption]])
        figures = (f"{sign * figure:.2f}" for figure in (good, sign * statistic.limit, np.median(bad), bad.min()))
        rows.append([statistic.check, statistic.what, statistic.corruption, *figures])
    headers = ("check", "statistic", "corruption", "clean, worst", "limit", "corrupted, median", "corrupted, worst")
    return (
        f"Of {len(sound)} clean clips of the bundled voice and the reference recordings the worst, and of the "
        f"corrupted ones the median and the worst.\n\n{markdown_table(headers, rows)}\n\n{_cost(sound)}"
    )


def _cost(speeches: Sequence[Speech]) -> str:
    seconds = sum(len(speech.samples) / speech.sample_rate_hz for speech in speeches)
    started = time.process_time()
    for speech in speeches:
        alone(speech, {})
    each_ms = (time.process_time() - started) / seconds * 1e3
    rng = np.random.default_rng(0)
    long = [np.resize(speeches[index % len(speeches)].samples, 96_000) for index in range(256)]
    samples = {str(index): clip + rng.integers(-2, 3, len(clip)).astype("<i2") for index, clip in enumerate(long)}
    clips = [ResponseClip(name, name, None, 0, 1, 24_000) for name in samples]
    started = time.process_time()
    find_shared_audio(clips, samples)
    return (
        f"{each_ms:.1f} ms of CPU time a second of audio for the checks of one request, without splices. Comparing 256 "
        f"clips of 4 s with each other: {time.process_time() - started:.1f} s."
    )


def _by_stage(outcomes: Mapping[str, Outcome]) -> Iterable[tuple[str, Outcome]]:
    order = [RECORDINGS, *(voice.label for voice in VOICES)]
    return [(label, outcomes[label]) for label in order if label in outcomes]


def _stage(label: str) -> str:
    return next((voice.stage for voice in VOICES if voice.label == label), "chosen")


def _is_of(label: str, stage: str | None) -> bool:
    return stage is None or _stage(label) == stage


def _hits(judged: Sequence[Judged], code: str) -> tuple[int, int]:
    return sum(code in level.codes for level in judged), len(judged)


def _lowest(judged: Sequence[Judged], name: str) -> float:
    return min((p for level in judged if (p := level.p[name]) is not None), default=1.0)


def _codes(judged: Sequence[Judged]) -> str:
    return _names(Counter(code for level in judged for code in level.codes))


def _named(outcomes: Mapping[str, Outcome], damage: str) -> str:
    proven = [level for one in outcomes.values() for level in one.levels[damage] if level.named or level.wrongly]
    wrongly, sound = sum(level.wrongly for level in proven), LEVEL * len(proven) - sum(one.damaged for one in proven)
    text = _rate(sum(level.named for level in proven), sum(level.damaged for level in proven))
    return text + (f", and of the sound ones {_rate(wrongly, sound)}" if sound else "")


def _rate(count: int, of: int) -> str:
    if not of:
        return "n/a"
    low, high = binomtest(count, of).proportion_ci(method="exact")
    return f"{count}/{of} ({low:.1%} to {high:.1%})" if of >= 100 else f"{count}/{of} ({low:.0%} to {high:.0%})"


def _names(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(counts).most_common()) or "–"


if __name__ == "__main__":
    main()
