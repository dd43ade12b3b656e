"""What the checks say of one voice: of its clean clips, and of each kind of damage. Kept beside the clips as JSON."""

from __future__ import annotations

import ast
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

import omni_bench
from benchmarks.audio_checks import corruptions
from benchmarks.audio_checks.corruptions import FULL_SCALE, Corruption, Speech
from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ
from omni_bench.accuracy.signal.audio_faults import audio_faults
from omni_bench.accuracy.signal.checks import (
    ExpectedVoices,
    clip_traits,
    level_findings,
    reference_traits,
    signal_findings,
)
from omni_bench.accuracy.signal.dead_air import Quiet, level_quiet, quiet_of
from omni_bench.accuracy.signal.level_audio import ClipTraits, LevelAudio, level_audio, wrong_rate
from omni_bench.accuracy.signal.shared_audio import ResponseClip, find_shared_audio
from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.accuracy.signal.voice_traits import VoiceTraits, typical_shape
from omni_bench.metrics.pace import ExpectedPace, language_pace, level_pace, references_pace
from omni_bench.records.invalid_reason import Code
from omni_bench.records.timeline import Timeline
from omni_bench.run.validity import audio_reasons
from omni_bench.targets.chaos_proxy.damages import DAMAGES

LEVEL = 32  # requests of a level, at c = 8
ONE_IN = 8  # answers in another voice
MADE_AT_HZ, PLAYED_AT_HZ = 22_050, 24_000
REFERENCES = 12  # recordings of a voice, as many as the bundled data set has

CORRUPTIONS: dict[str, tuple[str, Corruption]] = {
    "white noise, 10 dB SNR": ("noise", corruptions.white_noise(10)),
    "80 ms hole, digital silence": ("dropout", corruptions.hole(0.080)),
    "80 ms hole, 1 ms fades": ("dropout", corruptions.hole(0.080, fade_s=0.001)),
    "80 ms hole, 5 ms fades": ("dropout", corruptions.hole(0.080, fade_s=0.005)),
    "80 ms hole, faint noise": ("dropout", corruptions.hole(0.080, filled=8)),
    "20 ms hole, digital silence": ("dropout", corruptions.hole(0.020)),
    "chunk sent twice": ("repeated_audio", corruptions.chunk_twice),
    "80 ms of another appended": ("trailing_audio", corruptions.appended(0.080)),
    "300 ms of another appended": ("trailing_audio", corruptions.appended(0.300)),
    "steps of 300 at chunk edges": ("clicks", corruptions.edge_steps(300)),
    "steps of 1000 at chunk edges": ("clicks", corruptions.edge_steps(1000)),
    "steps of 3000 at chunk edges": ("clicks", corruptions.edge_steps(3000)),
}
PIECES_S = {"80 ms of another within": 0.080, "300 ms of another within": 0.300, "640 ms of another within": 0.640}
NOT_CLAIMED: dict[str, Corruption] = {
    "white noise, 15 dB SNR": corruptions.white_noise(15),
    "white noise, 20 dB SNR": corruptions.white_noise(20),
    "80 ms missing in one answer": corruptions.cut_frame,
}
DAMAGED = ("too_fast", "cut_tail", "lost_samples", "other_voice")  # of the proxy, (a) to (d)
QUIET: dict[str, tuple[str, float, float | None]] = {
    f"{seconds:g} s of {kind} {where}": (where, seconds, dbfs)
    for where in ("before", "inside", "after")
    for kind, dbfs in (("silence", None), ("hiss", -60.0))
    for seconds in (0.3, 0.5, 0.7, 1.0, 2.0)
}
HARMLESS: dict[str, Corruption] = {
    "trimmed tightly": corruptions.tightly_trimmed,
    "two sentences joined": corruptions.joined,
    "8-bit μ-law": corruptions.mu_law,
    "telephone band": corruptions.telephone_band,
    "20 dB quieter": corruptions.quieter,
}


@dataclass(frozen=True)
class Judged:
    """A level as a run judges it.

    ``codes``: why it is invalid. ``p``: of each test. ``cut``: share of answers that stop at full level. ``named``,
    ``wrongly``: of the ``damaged`` and of the sound answers, how many are named.
    """

    codes: Sequence[str]
    p: Mapping[str, float | None]
    cut: float
    damaged: int
    named: int
    wrongly: int


@dataclass(frozen=True)
class Quieted:
    """What silence or hiss does: ``dead_air`` of ``answers``, and of ``levels`` how many are invalid with it in
    ``every`` answer, and in ``some`` (one of eight): an answer of theirs is dead air, or all have long pauses."""

    dead_air: int
    answers: int
    every: int
    some: int
    levels: int


@dataclass(frozen=True)
class Outcome:
    """Of one voice. ``faults``: of each clean clip; ``not_held``: levels in which a check claims nothing.

    ``quiet``: by what was added, clean (""). ``levels``: judged clean (""), and by damage. ``found``: of ``tried``
    clips, by corruption; ``alarms`` by what is harmless: names, and codes of the level. ``pieces``: who is named, by
    length. ``typical``: medians of pitch (Hz), pace and shape, of a level and of recordings.
    """

    rate_hz: int
    clips: int
    sizes: tuple[int, ...]
    faults: tuple[tuple[str, ...], ...]
    not_held: Mapping[str, int]
    levels: Mapping[str, tuple[Judged, ...]]
    tried: int
    found: Mapping[str, int]
    other_names: Mapping[str, Mapping[str, int]]
    alarms: Mapping[str, Mapping[str, int]]
    pieces: Mapping[str, Mapping[str, int]]
    quiet: Mapping[str, Quieted]
    typical: tuple[float, float, tuple[float, ...]]
    typical_reference: tuple[float, float, tuple[float, ...]]


def measured(label: str, speeches: Sequence[Speech], kept: Path, seed: int) -> Outcome:
    """Measure a voice, or take what is kept of the same clips, code and seed."""
    known = hashlib.sha256(str(seed).encode())
    for speech in speeches:
        known.update(speech.samples.tobytes() + repr((speech.edges, speech.text)).encode())
    for source in _sources():
        known.update(_code(source).encode())
    if kept.exists() and (stored := json.loads(kept.read_text(encoding="utf-8")))["key"] == known.hexdigest():
        levels = {name: tuple(Judged(**one) for one in judged) for name, judged in stored["levels"].items()}
        quiet = {name: Quieted(**one) for name, one in stored["quiet"].items()}
        return Outcome(**{name: stored[name] for name in stored if name != "key"} | {"levels": levels, "quiet": quiet})
    outcome = measure(speeches, np.random.default_rng([seed, zlib.crc32(label.encode())]))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"key": known.hexdigest(), **asdict(outcome)}), encoding="utf-8")
    return outcome


def _sources() -> list[Path]:
    package = Path(omni_bench.__file__).parent
    signal = sorted((package / "accuracy" / "signal").glob("*.py"))
    others = (package / "metrics" / "pace.py", package / "targets" / "chaos_proxy" / "damages.py")
    return [*signal, *others, *sorted(Path(__file__).parent.glob("[cm]*.py"))]


def _code(source: Path) -> str:
    """The syntax tree without docstrings: a changed comment measures nothing anew."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    return ast.dump(tree)


def measure(speeches: Sequence[Speech], rng: np.random.Generator) -> Outcome:
    """Everything, of one voice."""
    groups = [speeches[start : start + LEVEL] for start in range(0, len(speeches), LEVEL)]
    whole = [group for group in groups if len(group) == LEVEL] or groups[:1]
    faults, not_held, levels = [], Counter(), {name: [] for name in ("", *DAMAGED)}
    for number, group in enumerate(groups):
        recordings = _recordings(groups[number - 1][:REFERENCES])
        found, audio = judge(group, recordings)
        faults += found
        not_held.update(audio.not_held.keys())
        if group in whole:
            levels[""].append(_judged(audio, _recordings(group, None), recordings, group[0].sample_rate_hz))
            for name in DAMAGED:
                levels[name].append(damaged_level(name, group, recordings))
    first = whole[0]
    void = judge(first, ())[1].not_held
    pieces = {name: _pieces(first, length_s, rng) for name, length_s in PIECES_S.items()}
    names = {
        name: _counted(alone(speech, void) for speech in corrupt_all(first, corruption, rng))
        for name, corruption in {**{name: one for name, (_, one) in CORRUPTIONS.items()}, **NOT_CLAIMED}.items()
    }
    found = {name: names[name].get(wanted, 0) for name, (wanted, _) in CORRUPTIONS.items()}
    for name, counts in pieces.items():
        found[name] = 0 if "shared_audio" in void else counts.get("victim", 0) + counts.get("both", 0)
    return Outcome(
        rate_hz=speeches[0].sample_rate_hz,
        clips=len(speeches),
        sizes=tuple(map(len, whole)),
        faults=tuple(faults),
        not_held=dict(not_held),
        levels=levels,
        tried=len(first),
        found=found,
        other_names=names,
        alarms={name: _harmless(corrupt_all(first, one, rng), void) for name, one in HARMLESS.items()},
        pieces=pieces,
        quiet=quieted(whole),
        typical=_typical(_recordings(first)),
        typical_reference=_typical(_recordings(groups[-1][:REFERENCES])),
    )


def quieted(groups: Sequence[Sequence[Speech]]) -> dict[str, Quieted]:
    """Clean levels, and those with each kind of quiet added."""
    rng = np.random.default_rng(0)
    clean = [[_quiet(speech) for speech in group] for group in groups]
    found = {"": _quieted(clean, clean)}
    for name, (where, seconds, dbfs) in QUIET.items():
        added = [
            [_quiet(corruptions.quiet_added(speech, where, seconds, dbfs, rng)) for speech in group] for group in groups
        ]
        found[name] = _quieted(added, clean)
    return found


def _quiet(speech: Speech) -> tuple[Quiet, str, bool]:
    """With the text, and whether the answer alone is called dead air."""
    values = speech.samples.astype(np.float32) / FULL_SCALE
    quiet = quiet_of(values, active_rms(values, speech.sample_rate_hz), speech.sample_rate_hz)
    dead = quiet.is_dead_air or "dead_air" in audio_faults(speech.samples, speech.sample_rate_hz, None, "en")
    return quiet, speech.text, dead


def _quieted(
    added: Sequence[Sequence[tuple[Quiet, str, bool]]], clean: Sequence[Sequence[tuple[Quiet, str, bool]]]
) -> Quieted:
    mixed = [
        [one if number % ONE_IN == 0 else other for number, (one, other) in enumerate(zip(*pair, strict=True))]
        for pair in zip(added, clean, strict=True)
    ]
    every, some = (
        sum(any(dead for *_, dead in level) or level_quiet([one[:2] for one in level]).is_proven for level in levels)
        for levels in (added, mixed)
    )
    answers = [dead for level in added for *_, dead in level]
    return Quieted(sum(answers), len(answers), every, some, len(added))


def judge(speeches: Sequence[Speech], references: Sequence[ClipTraits]) -> tuple[list[tuple[str, ...]], LevelAudio]:
    """The faults of each answer, all in flight together, and what they show together."""
    found, together = level_findings(
        [_timeline(speech) for speech in speeches],
        [speech.text for speech in speeches],
        {speech.name: speech.samples for speech in speeches},
        ExpectedVoices(references=references),
    )
    return [found[speech.name].faults for speech in speeches], together


def damaged_level(name: str, speeches: Sequence[Speech], references: Sequence[ClipTraits]) -> Judged:
    """A level that the proxy damaged; of other voices, one answer in eight."""
    every = ONE_IN if name == "other_voice" else 1
    hit = {speech.name for number, speech in enumerate(speeches) if number % every == 0}
    clips, rate_hz = {}, speeches[0].sample_rate_hz
    for speech in speeches:
        samples = speech.samples
        if name == "too_fast":  # whatever the voice's own rate: else 20,258 Hz of espeak-ng, which nobody uses
            samples, rate_hz = resampled(samples, speech.sample_rate_hz, MADE_AT_HZ), PLAYED_AT_HZ
        elif speech.name in hit:
            samples = DAMAGES[name](samples, rate_hz)
        traits = _traits(samples, rate_hz, speech.text, splices=name == "lost_samples")
        if traits is not None:
            clips[speech.name] = traits
    return _judged(level_audio(clips, rate_hz, references=references), list(clips.values()), references, rate_hz, hit)


def _traits(samples: np.ndarray, rate_hz: int, text: str, *, splices: bool) -> ClipTraits | None:
    """What an answer, int16 [n], adds to its level."""
    values = samples.astype(np.float32) / np.float32(FULL_SCALE)
    active = active_rms(values, rate_hz)
    return None if active is None else clip_traits(values, active, rate_hz, text, splices=splices)


def resampled(samples: np.ndarray, from_hz: int, to_hz: int) -> np.ndarray:
    """int16 [n] at another rate."""
    common = np.gcd(from_hz, to_hz)
    changed = resample_poly(samples.astype(np.float64), to_hz // common, from_hz // common)
    return np.clip(np.round(changed), -FULL_SCALE, FULL_SCALE - 1).astype("<i2")


def _judged(
    audio: LevelAudio,
    clips: Sequence[ClipTraits],
    references: Sequence[ClipTraits],
    rate_hz: int,
    hit: Collection[str] = (),
) -> Judged:
    codes = [str(reason.code) for reason in audio_reasons(audio, rate_hz)]
    recorded = references_pace([one.letters_per_s for one in references if one.letters_per_s])
    for source, expected in (("references", recorded), ("language", language_pace("en"))):
        if _in_doubt(clips, expected, rate_hz):
            codes.append(f"{Code.RATE_IN_DOUBT} by the {source}")
    named = {name for found in audio.suspects.values() for name in found}
    p = {"cut_off": audio.cut_p, "spliced": audio.splice_p, "other_voice": audio.other_p, "long_pauses": audio.pause_p}
    return Judged(tuple(codes), p, audio.cut / audio.answers, len(hit), len(named & set(hit)), len(named - set(hit)))


def _in_doubt(traits: Sequence[ClipTraits], expected: ExpectedPace | None, rate_hz: int) -> bool:
    found = None if expected is None else level_pace([one.letters_per_s for one in traits], expected, rate_hz)
    return found is not None and found.in_doubt


def _recordings(speeches: Sequence[Speech], rate_hz: int | None = WHISPER_RATE_HZ) -> list[ClipTraits]:
    """Traits without splices, as of reference recordings, which a run reads at 16 kHz. None: each at its own rate."""
    found = []
    for speech in speeches:
        at_hz = rate_hz or speech.sample_rate_hz
        values = resampled(speech.samples, speech.sample_rate_hz, at_hz).astype(np.float32) / FULL_SCALE
        found.append(reference_traits(values, at_hz, speech.text))
    return [one for one in found if one is not None]


def _typical(clips: Sequence[ClipTraits]) -> tuple[float, float, tuple[float, ...]]:
    return (
        float(np.median([clip.voice.f0_hz for clip in clips if clip.voice.f0_hz])),
        float(np.median([clip.letters_per_s for clip in clips if clip.letters_per_s])),
        tuple(map(float, typical_shape([clip.voice.shape_db for clip in clips]))),
    )


def mistaken_for_a_rate(level: Outcome, recordings: Outcome) -> bool:
    """Whether recordings of another voice would make a level's sample rate wrong. By their medians."""

    def clips(typical: tuple[float, float, Sequence[float]]) -> list[ClipTraits]:
        return [ClipTraits(VoiceTraits(typical[0], np.array(typical[2])), typical[1])] * REFERENCES

    return wrong_rate(clips(level.typical), clips(recordings.typical_reference), level.rate_hz) is not None


def alone(speech: Speech, not_held: Mapping[str, int]) -> set[str]:
    """The faults of one answer in a level in which these checks claim nothing."""
    found = signal_findings(speech.samples, speech.sample_rate_hz, speech.edges, speech.text, splices=False)
    return {
        *found.faults,
        *(() if "dropout" in not_held else found.broken),
        *(() if "shared_audio" in not_held else found.repeats),
    }


def corrupt_all(speeches: Sequence[Speech], corruption: Corruption, rng: np.random.Generator) -> list[Speech]:
    """Each speech corrupted once, with one with another text as the other."""
    return [corruption(speech, _another(speech, speeches, rng), rng) for speech in speeches]


def _another(speech: Speech, speeches: Sequence[Speech], rng: np.random.Generator) -> Speech:
    others = [one for one in speeches if one.text != speech.text]
    return others[int(rng.integers(len(others)))]


def _harmless(speeches: Sequence[Speech], void: Mapping[str, int]) -> dict[str, int]:
    """Names and codes of alarms."""
    names = _counted(alone(speech, void) for speech in speeches)
    rate_hz = speeches[0].sample_rate_hz
    clips = {one.name: _traits(one.samples, rate_hz, one.text, splices=True) for one in speeches}
    traits = {name: found for name, found in clips.items() if found is not None}
    return names | {str(one.code): 1 for one in audio_reasons(level_audio(traits, rate_hz), rate_hz)}


def _counted(found: Iterable[Iterable[str]]) -> dict[str, int]:
    return dict(Counter(name for names in found for name in names))


def _pieces(speeches: Sequence[Speech], length_s: float, rng: np.random.Generator) -> dict[str, int]:
    """Who is named where a piece of another answer is in the place of one's own."""
    counts: Counter[str] = Counter()
    for victim in speeches:
        owner = _another(victim, speeches, rng)
        samples = {
            "victim": corruptions.foreign_piece(length_s)(victim, owner, rng).samples,
            "owner": owner.samples,
        }
        clips = [ResponseClip(name, name, None, 0, 1, victim.sample_rate_hz) for name in samples]
        victims = {one.victim for one in find_shared_audio(clips, samples)}
        counts["both" if len(victims) == 2 else next(iter(victims), "missed")] += 1
    return dict(counts)


def _timeline(speech: Speech) -> Timeline:
    bounds = (0, *speech.edges, len(speech.samples))
    sizes = tuple(2 * (end - start) for start, end in pairwise(bounds))
    return Timeline(
        request_id=speech.name,
        prompt_id=speech.name,
        concurrency=8,
        seed=None,
        scheduled_ns=0,
        started_ns=0,
        headers_ns=0,
        first_byte_ns=0,
        first_audio_ns=0,
        ended_ns=1,
        failed_ns=None,
        chunk_arrived_ns=(0,) * len(sizes),
        chunk_bytes=sizes,
        sample_rate_hz=speech.sample_rate_hz,
        sample_width_bytes=2,
        http_status=200,
        error=None,
    )
