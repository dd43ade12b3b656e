"""A run folder with things to hear: a victim of cross-talk, a failure, requests sent alone, and hostile texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import run_factory as runs

from omni_bench.accuracy.wer import alignment, score_utterance
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_to_dict
from omni_bench.run.document import utterance_record

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
VICTIM, SOURCE, FAILED = "c4-0001", "c4-0000", "c4-f0"
METRICS = {"ttfp_ms": 100.0, "rtf": 0.5, "e2el_ms": 900.0, "stalls": 0}
RATE_HZ = 24_000
TEXT = "the small boat sailed home"


def make_heard_run(path: Path, *, judge: bool = True, audio: bool = True, wrong: bool = True) -> RunFolder:
    """The folder, finished. ``wrong``: with the findings; without ``audio`` no recording was kept."""
    folder = RunFolder.create(path)
    timelines = runs.level_timelines(4, 8) + ([runs.failed_timeline(FAILED, concurrency=4)] if wrong else [])
    tone = np.sin(np.arange(5 * RATE_HZ) / 20) * np.linspace(0, 9000, 5 * RATE_HZ)

    def recording(name: str, pcm: np.ndarray = tone) -> str | None:
        return folder.save_audio(name, pcm.astype("<i2").tobytes(), RATE_HZ) if audio else None

    lines, heard = [], []
    for number, timeline in enumerate(timelines):
        name = timeline.request_id
        spoken = f"{HOSTILE} of a neighbour who goes on for longer" if wrong and name == VICTIM else TEXT
        score = score_utterance(name, TEXT, spoken, "en", "failed" if name == FAILED else None)
        kept = recording(name, tone[: 5 * RATE_HZ - 1000 * number]) if timeline.ok else None
        metrics = METRICS | {"ttfp_ms": 100.0 + 10 * number} if timeline.ok else {}
        lines.append(
            {
                **timeline_to_dict(timeline),
                "text": TEXT,
                "language": "en",
                "metrics": metrics,
                "faults": [],
                "audio": kept,
            }
        )
        ops = [list(one) for one in alignment(score)]
        heard.append(utterance_record(score, concurrency=4, prompt_id=timeline.prompt_id, audio=kept, alignment=ops))
    folder.write_lines(folder.requests_jsonl, lines)
    reasons = [invalid(Code.WER, rate="WER", value=0.4, limit=0.15)] if wrong else []
    level = runs.make_level(4, 8, failures=int(wrong), judge=judge)
    run = runs.make_run(levels=[level], own=reasons, provenance=runs.make_provenance(judge=judge), scenario=HOSTILE)
    if wrong:
        run["provenance"]["target"]["description"]["chaos"] = {"name": f"stale {HOSTILE}"}
        folder.server_log.write_text(f"\x1b[2Jstarted {HOSTILE}\n")
        hit = {"victim": VICTIM, "source": SOURCE, "kind": "target", "relation": "in flight", "also": []}
        hit |= {"position": "whole", "heard": HOSTILE, "words": HOSTILE, "score": 20.0, "concurrency": 4}
        folder.write_lines(folder.cross_talk_jsonl, [hit | {"audio": None}])
        solo = f"solo-{VICTIM}"
        folder.write_lines(folder.solo_jsonl, [{**lines[1], "request_id": solo, "audio": recording(solo)}])
        pair = {"request_id": VICTIM, "solo_id": solo, "prompt_id": "p", "seed": 1, "concurrency": 4, "repeat": False}
        pair |= {
            "kind": "pcm",
            "equal": False,
            "at_s": 0.25,
            "first_sample": 6000,
            "heard": HOSTILE,
            "wer_between": 1.0,
            "worse": None,
        }
        pair |= {"heard_alone": HOSTILE, "neighbours": [{"request_id": SOURCE, "prompt_id": "p"}]}
        folder.write_lines(folder.parity_jsonl, [pair])
    if judge:
        folder.write_utterances(heard)
    folder.write_run(run)
    return folder
