"""Makes runs through the real summaries, as views and as run folders, for the tests of comparisons and studies."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

import run_factory as runs

from omni_bench.accuracy.wer import score_corpus, score_utterance
from omni_bench.compare.load import view_of
from omni_bench.compare.stats.length_guard import UtteranceKey
from omni_bench.compare.views import RequestView
from omni_bench.metrics.level import Warmup
from omni_bench.records.level import is_open_loop, level_name, level_value
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LoopLag
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.document import build_level, build_run, utterance_record
from omni_bench.run.level_result import LevelResult
from omni_bench.run.measure import measure_request
from omni_bench.run.stored_results import write_results
from omni_bench.run.validity import is_excused, level_reasons, run_reasons

STARTED = datetime(2026, 11, 28, tzinfo=UTC)
TEXT = "The cat sat on the mat and looked at the big red dog."
MS = 1_000_000
RECORDED = ("prompts.", "judge.", "hardware.", "harness.", "software.", "target.commit", "target.version")
"""Beginnings of names outside of the configuration."""
WOBBLE = (0.4, -1.0, 0.7, -0.5, 0.9, -0.2, 0.3, -0.8)
"""Run effects of eight runs, in run CVs."""


@cache
def score(corrupted, forced):
    """The score of one utterance (the normaliser is slow)."""
    return score_utterance("any", TEXT, "zero one two" if corrupted else TEXT, "en", forced=forced)


class Factory:
    """Makes runs through the real summaries; folders of runs lie in ``tmp_path``."""

    def __init__(self, tmp_path):
        self.tmp_path = tmp_path

    def level(
        self, concurrency, *, slower=1.0, longer=1.0, requests=14, corrupted=(), failures=0, late_ms=0, pause_ms=0
    ):
        """(LevelResult, scores): chunks arrive ``slower`` times as slowly, and there are ``longer`` times as many.

        Every seventh request begins ``late_ms`` late, and pauses ``pause_ms`` before its third chunk.
        """
        timelines, started_ns = [], 0
        for i in range(requests):
            one = runs.timeline(f"{level_name(concurrency)}-{i:04d}", concurrency=concurrency)
            chunks = round((10 + 2 * (i % 7)) * longer)
            first_ms = 40 + 10 * round(level_value(concurrency)) + 7 * (i % 5)
            odd = i % 7 == 3
            extra_ms = [odd * (late_ms + pause_ms * (n >= 2)) for n in range(chunks)]
            arrived = tuple(started_ns + int(((first_ms + 25 * n) * slower + extra_ms[n]) * MS) for n in range(chunks))
            timelines.append(
                replace(
                    one,
                    seed=i,
                    scheduled_ns=started_ns,
                    started_ns=started_ns,
                    headers_ns=started_ns,
                    first_byte_ns=arrived[0],
                    first_audio_ns=arrived[0],
                    ended_ns=arrived[-1],
                    chunk_arrived_ns=arrived,
                    chunk_bytes=(4800,) * chunks,
                )
            )
            started_ns = arrived[-1]
        timelines += [runs.failed_timeline(f"c{concurrency}-f{i}", concurrency=concurrency) for i in range(failures)]
        results = []
        for timeline in timelines:
            result = measure_request(timeline, Prompt(timeline.prompt_id, TEXT, None, None, "en"), None)
            results.append(replace(result, faults=()))
        scores = [
            replace(score(number in corrupted, one.forced), request_id=one.request_id)
            for number, one in enumerate(results)
        ]
        lag = LoopLag(p50_ms=0.2, p99_ms=1.5, max_ms=3.0, samples=400)
        return LevelResult(concurrency, tuple(results), lag, Warmup(2, 0, {})), scores

    def make(self, levels=(1, 4), *, started=0, judge=True, cross_talk=None, parity=None, config=None, **changes):
        """(run.json, level results, scores): ``config``: {"group.key": value} of the provenance."""
        made = [self.level(level, **changes) for level in levels]
        documents = []
        for result, scores in made:
            summary = result.summary()
            document = build_level(
                summary,
                [one.metrics for one in result.requests if one.timeline.ok],
                score_corpus("tiny.en", scores) if judge else None,
                lag_budget_ms=25.0,
                reasons=level_reasons(summary, lag_budget_ms=25.0),
            )
            if document["accuracy"] is not None:
                document["accuracy"] |= {"cross_talk_hits": cross_talk, "parity_mismatches": parity}
            documents.append(document)
        provenance = runs.make_provenance(judge=judge)
        provenance["config"] = {"load": {"kind": "closed_loop", "concurrency": list(levels)}}
        if is_open_loop(levels):
            provenance["config"] = {"load": {"kind": "open_loop", "rate_hz": [level.hz for level in levels]}}
        for name, value in (config or {}).items():
            place = provenance if name.startswith(RECORDED) else provenance["config"]
            *groups, key = name.split(".")
            for group in groups:
                place = place.setdefault(group, {})
            place[key] = value
        run = build_run(
            scenario="qwen3_tts",
            description="",
            started_utc=STARTED + timedelta(minutes=started),
            duration_s=60.0,
            levels=documents,
            provenance=copy.deepcopy(provenance),
            reasons=run_reasons((), documents, is_excused),
        )
        return run, [result for result, _ in made], [score for _, scores in made for score in scores]

    def view(self, name="run", **arguments):
        """A run as a view, with its requests."""
        run, results, scores = self.make(**arguments)
        heard = {score.request_id: score for score in scores} if arguments.get("judge", True) else {}
        requests = [
            RequestView(
                key=UtteranceKey(level.concurrency, one.timeline.prompt_id, one.timeline.seed),
                audio_s=one.metrics["audio_s"],
                e2el_ms=one.metrics["e2el_ms"],
                corrupted=heard[one.request_id].wer > 0.5 if heard else None,
                edits=heard[one.request_id].edits if heard else None,
                words=heard[one.request_id].reference_words if heard else None,
            )
            for level in results
            for one in level.requests
        ]
        return view_of(run, name, requests)

    def arm(self, name, pairs, *, slower=1.0, run_cv=0.01, start=0, **arguments):
        """``pairs`` runs that differ by a run effect."""
        return [
            self.view(
                f"{name}/{i}",
                slower=slower * (1 + run_cv * WOBBLE[(i + start) % 8]),
                started=2 * i + start,
                **arguments,
            )
            for i in range(pairs)
        ]

    def folder(self, name, **arguments):
        """A run folder on disk: run.json, requests.jsonl, utterances.jsonl."""
        run, results, scores = self.make(**arguments)
        folder = RunFolder(self.tmp_path / name)
        folder.path.mkdir(parents=True)
        write_results(folder, results, {})
        by_id = {one.request_id: one for level in results for one in level.requests}
        folder.write_utterances(
            utterance_record(
                score,
                concurrency=by_id[score.request_id].timeline.concurrency,
                prompt_id=by_id[score.request_id].timeline.prompt_id,
            )
            for score in scores
        )
        folder.write_run(run)
        return folder.path

    def folders(self, name, pairs, *, slower=1.0, run_cv=0.01, start=0, **arguments):
        """A folder of ``pairs`` run folders."""
        for i in range(pairs):
            effect = slower * (1 + run_cv * WOBBLE[(i + start) % 8])
            self.folder(f"{name}/{i}", slower=effect, started=2 * i + start, **arguments)
        return self.tmp_path / name
