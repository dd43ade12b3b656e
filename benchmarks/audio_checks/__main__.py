"""What the signal checks find, and whether clean speech ever alarms.

    python -m benchmarks.audio_checks                           the bundled voice and the reference recordings
    python -m benchmarks.audio_checks --run reports/runs/RUN    and those of a clean run with output.save_audio=all
    python -m benchmarks.audio_checks --out reports/audio_checks.md

Clean speech is corrupted in every way of ``corruptions.py``; the audio faults of the reference server
are switched on one after another. Everything random follows --seed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile
from tabulate import tabulate

from benchmarks.audio_checks import corruptions
from benchmarks.audio_checks.corruptions import FULL_SCALE, Corruption, Speech, speak
from omni_bench.accuracy.signal.checks import chunk_edges, level_findings, signal_findings
from omni_bench.accuracy.signal.clicks import MEAN_SURPRISE, MEMBER_P, REQUEST_P, edge_evidence
from omni_bench.accuracy.signal.dropouts import FALL_DB, ONSET_RATIO, fall_db, onset_ratios
from omni_bench.accuracy.signal.noise import NOISE_FLATNESS, NOISE_LEVEL_DB, noise_floor
from omni_bench.accuracy.signal.shared_audio import ResponseClip, find_shared_audio
from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.accuracy.signal.trailing import STOPS_DB, end_level_db
from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict

CORRUPTIONS: tuple[tuple[str, str, Corruption], ...] = (
    ("white noise, 10 dB SNR", "noise", corruptions.white_noise(10)),
    ("white noise, 15 dB SNR", "", corruptions.white_noise(15)),
    ("white noise, 20 dB SNR", "", corruptions.white_noise(20)),
    ("80 ms hole, digital silence", "dropout", corruptions.hole(0.080)),
    ("80 ms hole, 1 ms fades", "dropout", corruptions.hole(0.080, fade_s=0.001)),
    ("80 ms hole, 5 ms fades", "dropout", corruptions.hole(0.080, fade_s=0.005)),
    ("80 ms hole, filled with faint noise", "dropout", corruptions.hole(0.080, filled=8)),
    ("20 ms hole, digital silence", "dropout", corruptions.hole(0.020)),
    ("80 ms missing, joined", "", corruptions.cut_frame),
    ("chunk sent twice", "repeated_audio", corruptions.chunk_twice),
    ("80 ms of another clip appended", "trailing_audio", corruptions.appended(0.080)),
    ("300 ms of another clip appended", "trailing_audio", corruptions.appended(0.300)),
    ("steps of 300 at chunk edges", "clicks", corruptions.edge_steps(300)),
    ("steps of 1000 at chunk edges", "clicks", corruptions.edge_steps(1000)),
    ("steps of 3000 at chunk edges", "clicks", corruptions.edge_steps(3000)),
)
HARMLESS: tuple[tuple[str, Corruption], ...] = (
    ("trimmed tightly", corruptions.tightly_trimmed),
    ("two sentences joined by digital silence", corruptions.joined),
    ("8-bit μ-law", corruptions.mu_law),
    ("telephone band", corruptions.telephone_band),
    ("20 dB quieter", corruptions.quieter),
)
SERVER_FAULTS = (
    ("lost_left_context", "clicks"),
    ("padding_tail", "trailing_audio"),
    ("pinned_alias", "shared_audio"),
)
FIRST_CHUNKS = (1920, 3840, 7680)  # of the reference server; then 15360 each


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
    Statistic(
        "dropout", "fall, dB", FALL_DB, "80 ms hole, digital silence", lambda s: float(fall_db(*_values(s)).max())
    ),
    Statistic(
        "dropout, trailing_audio",
        "onset ratio",
        ONSET_RATIO,
        "300 ms of another clip appended",
        lambda s: float(onset_ratios(*_values(s))[1].max(initial=0.0)),
    ),
    Statistic(
        "trailing_audio",
        "level of the last 10 ms, dB",
        STOPS_DB,
        "300 ms of another clip appended",
        lambda s: end_level_db(*_values(s)),
    ),
    Statistic(
        "noise",
        "level of the floor, dB",
        NOISE_LEVEL_DB,
        "white noise, 10 dB SNR",
        lambda s: noise_floor(*_values(s)).level_db,
    ),
    Statistic(
        "noise",
        "flatness of the floor",
        NOISE_FLATNESS,
        "white noise, 10 dB SNR",
        lambda s: noise_floor(*_values(s)).flatness,
    ),
)


def main() -> None:
    """Print the tables, and write them if asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.audio_checks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", type=Path, help="a clean run whose audio was kept")
    parser.add_argument("--clips", type=int, default=32, help="sentences to speak (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="markdown file to write")
    arguments = parser.parse_args()
    texts = bundled_texts(arguments.clips)
    clean = {
        "bundled voice, heart": speak(texts),
        "bundled voice, heart_low": speak(texts[: len(texts) // 2], voice="heart_low"),
        "reference recordings (the teacher)": reference_recordings(),
    }
    if arguments.run is not None:
        clean["recordings of a run"] = recordings_of(arguments.run)
    faulty = {name: speak(texts[: len(texts) // 2], fault=name) for name, _ in SERVER_FAULTS}
    report = render(clean, faulty, np.random.default_rng(arguments.seed))
    print(report)
    if arguments.out is not None:
        arguments.out.write_text(report, encoding="utf-8")


def render(clean: dict[str, list[Speech]], faulty: dict[str, list[Speech]], rng: np.random.Generator) -> str:
    """All tables as markdown."""
    everything = [speech for group in clean.values() for speech in group]
    corrupted = {name: corrupt_all(everything, corruption, rng) for name, _, corruption in CORRUPTIONS}
    alarms = [_clean_row(name, level_faults(group)) for name, group in clean.items()]
    for name, corruption in HARMLESS:
        changed = corrupt_all(everything, corruption, rng)
        alarms.append(_clean_row(f"all, {name}", [_single(speech) for speech in changed]))
    found = [_found_row(name, wanted, [_single(one) for one in corrupted[name]]) for name, wanted, _ in CORRUPTIONS]
    found += [_found_row(f"server fault {name}", wanted, level_faults(faulty[name])) for name, wanted in SERVER_FAULTS]
    parts = [
        "# The signal checks: what they find\n\nWritten by `python -m benchmarks.audio_checks`.",
        f"## Clean speech\n\n{_table(('speech', 'clips', 'alarms', 'names'), alarms)}",
        "## Corrupted speech\n\nfound: of all clips, those with the expected name. No name is expected of what a check "
        "leaves to others on purpose.\n\n" + _table(("corruption", "expected", "found", "names"), found),
        f"## Samples of another request\n\n{_shared(everything, rng)}",
        "## Margins\n\nOf all clean clips the worst, and of all corrupted ones the median and the worst.\n\n"
        + _margins(everything, {**corrupted, **faulty}),
        f"## Cost\n\n{_cost(everything)}",
    ]
    return "\n\n".join(parts) + "\n"


def bundled_texts(count: int) -> list[str]:
    """The first ``count`` texts of the bundled data set."""
    meta = bundled_root() / "seed_tts_mini" / "en" / META_NAME
    return [entry.text for entry in parse_meta(meta.read_bytes(), META_NAME)[:count]]


def reference_recordings() -> list[Speech]:
    """The reference recordings of the bundled data set, as if they had come in the server's chunks."""
    folder = bundled_root() / "seed_tts_mini" / "en" / "prompt-wavs"
    found = []
    for path in sorted(folder.glob("*.wav")):
        samples, rate_hz = soundfile.read(path, dtype="int16")
        found.append(Speech(path.stem, samples, _usual_edges(len(samples)), path.stem, rate_hz))
    return found


def recordings_of(run: Path) -> list[Speech]:
    """What a run kept, with the chunk edges that its client saw."""
    folder = RunFolder.open(run)
    found = []
    for record in folder.read_requests():
        if record.get("audio"):
            samples, rate_hz = soundfile.read(folder.path / record["audio"], dtype="int16")
            edges = tuple(chunk_edges(timeline_from_dict(record)))
            found.append(Speech(record["request_id"], samples, edges, record["text"], rate_hz))
    return found


def corrupt_all(speeches: Sequence[Speech], corruption: Corruption, rng: np.random.Generator) -> list[Speech]:
    """Each speech corrupted once, with one with another text as the other."""
    result = []
    for speech in speeches:
        other = speech
        while other.text == speech.text:
            other = speeches[int(rng.integers(len(speeches)))]
        result.append(corruption(speech, other, rng))
    return result


def level_faults(speeches: Sequence[Speech]) -> list[tuple[str, ...]]:
    """Faults of each, all in flight together."""
    by_name = {speech.name: speech for speech in speeches}
    found, _ = level_findings(
        [_timeline(speech) for speech in speeches],
        [speech.text for speech in speeches],
        lambda name: by_name[name].samples,
    )
    return [found[speech.name].faults for speech in speeches]


def _timeline(speech: Speech) -> Timeline:
    bounds = (0, *speech.edges, len(speech.samples))
    sizes = tuple(2 * (end - start) for start, end in pairwise(bounds))
    return Timeline(
        request_id=speech.name,
        prompt_id=speech.name,
        concurrency=1,
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


def _single(speech: Speech) -> tuple[str, ...]:
    found = signal_findings(speech.samples, speech.sample_rate_hz, speech.edges, speech.text)
    return (*found.faults, *found.broken, *found.repeats)


def _usual_edges(samples: int) -> tuple[int, ...]:
    ends = np.cumsum([*FIRST_CHUNKS, *[15360] * (samples // 15360)])
    return tuple(int(end) for end in ends if end < samples)


def _clean_row(name: str, faults: Sequence[tuple[str, ...]]) -> list[str]:
    return [name, str(len(faults)), str(sum(bool(one) for one in faults)), _names(faults)]


def _found_row(name: str, wanted: str, faults: Sequence[tuple[str, ...]]) -> list[str]:
    hits = sum(wanted in one if wanted else bool(one) for one in faults)
    return [name, wanted or "–", f"{hits}/{len(faults)}", _names(faults)]


def _names(faults: Sequence[tuple[str, ...]]) -> str:
    counts = Counter(name for one in faults for name in one)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "–"


def _shared(speeches: Sequence[Speech], rng: np.random.Generator) -> str:
    rows = []
    for duration_s in (0.080, 0.300, 0.640):
        counts: Counter[str] = Counter()
        for victim in speeches:
            owner = victim
            while owner.text == victim.text:
                owner = speeches[int(rng.integers(len(speeches)))]
            spoilt = corruptions.foreign_piece(duration_s)(victim, owner, rng)
            samples = {"victim": spoilt.samples, "owner": owner.samples}
            clips = [ResponseClip(name, name, None, 0, 1, victim.sample_rate_hz) for name in samples]
            victims = {one.victim for one in find_shared_audio(clips, samples.__getitem__)}
            counts["both" if len(victims) == 2 else next(iter(victims), "missed")] += 1
        named = [str(counts[name]) for name in ("victim", "both", "owner", "missed")]
        rows.append([f"{duration_s * 1e3:.0f} ms of another clip", str(len(speeches)), *named])
    return _table(("in the place of its own", "clips", "victim named", "both named", "owner named", "missed"), rows)


def _margins(clean: Sequence[Speech], corrupted: dict[str, list[Speech]]) -> str:
    rows = []
    for statistic in STATISTICS:
        sign = -1.0 if statistic.low_is_bad else 1.0
        good = max(sign * statistic.of(speech) for speech in clean)
        bad = np.array([sign * statistic.of(speech) for speech in corrupted[statistic.corruption]])
        figures = [good, sign * statistic.limit, np.median(bad), bad.min()]
        rows.append(
            [statistic.check, statistic.what, statistic.corruption, *(f"{sign * figure:.2f}" for figure in figures)]
        )
    headers = ("check", "statistic", "corruption", "clean, worst", "limit", "corrupted, median", "corrupted, worst")
    return _table(headers, rows)


def _cost(speeches: Sequence[Speech]) -> str:
    seconds = sum(len(speech.samples) / speech.sample_rate_hz for speech in speeches)
    started = time.process_time()
    for speech in speeches:
        _single(speech)
    each_ms = (time.process_time() - started) / seconds * 1e3
    rng = np.random.default_rng(0)
    long = [np.resize(speeches[index % len(speeches)].samples, 96_000) for index in range(256)]
    samples = {str(index): clip + rng.integers(-2, 3, len(clip)).astype("<i2") for index, clip in enumerate(long)}
    clips = [ResponseClip(name, name, None, 0, 1, 24_000) for name in samples]
    started = time.process_time()
    find_shared_audio(clips, samples.__getitem__)
    return (
        f"{each_ms:.1f} ms of CPU time a second of audio for the checks of one request. Comparing 256 clips of 4 s "
        f"with each other: {time.process_time() - started:.1f} s."
    )


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tabulate(rows, headers=headers, tablefmt="pipe", disable_numparse=True)


if __name__ == "__main__":
    main()
