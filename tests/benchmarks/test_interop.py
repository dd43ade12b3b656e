"""The arithmetic of the interoperation table: their formulas over our timelines, agreement, and what a page says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from timelines import make_timeline

from benchmarks.interop import habits, others, page, report, runs, table
from omni_bench.datasets.seed_tts import read_seed_tts
from omni_bench.metrics.request import request_metrics
from omni_bench.records.prompt import Prompt

MS = 10**6


def timeline(number=0, *, start_ms=1000, byte_ms=50, chunks_ms=(55, 85, 115), bytes_each=1200, end_ms=120, rate=24_000):
    """Times are from the start of the request."""
    first_ns = (start_ms + byte_ms) * MS
    at = tuple((start_ms + ms) * MS for ms in chunks_ms)
    times = {"scheduled_ns": (start_ms - 1) * MS, "started_ns": start_ms * MS, "ended_ns": (start_ms + end_ms) * MS}
    times |= {"headers_ns": first_ns, "first_byte_ns": first_ns, "first_audio_ns": at[0], "chunk_arrived_ns": at}
    one = make_timeline(f"c1-{number:04d}", rate_hz=rate)
    return replace(one, prompt_id=str(number), seed=None, chunk_bytes=(bytes_each,) * len(at), **times)


def test_their_formulas():
    first, second = timeline(0), timeline(1, start_ms=1200, byte_ms=60, end_ms=140)
    figures = table.by_their_definitions([first, second])
    assert figures["ttfp_ms"].p50 == 55, "the first byte of any kind, not the first audio"
    assert figures["e2el_ms"].mean == 130
    assert figures["audio_s"].p50 == pytest.approx(0.075)  # 3 reads of 25 ms
    assert figures["rtf"].p50 == pytest.approx((0.12 / 0.075 + 0.14 / 0.075) / 2)
    assert figures["audio_per_s"].mean == pytest.approx(0.15 / 0.34) and figures["requests_per_s"].mean == 2 / 0.34
    # reads come each 30 ms and hold 25: the third is 10 ms late for a player that never stops
    assert figures["prebuffer_s"].p50 == pytest.approx(0.010)


def test_their_underrun_is_our_prebuffer():
    for late in ((0, 30, 60, 90), (0, 10, 20, 200, 205), (0, 0, 0), (0, 24, 51)):
        one = timeline(chunks_ms=[50 + ms for ms in late], end_ms=400)
        assert table.by_their_definitions([one])["prebuffer_s"].p50 == pytest.approx(
            request_metrics(one, None)["prebuffer_s"], abs=1e-9
        )


def test_a_stated_rate_is_ours_alone():
    slow = [timeline(rate=12_000, byte_ms=55)]
    assert table.figures_of(slow, 1)["audio_s"].p50 == 2 * table.by_their_definitions(slow)["audio_s"].p50


def test_their_result():
    result = {"median_audio_ttfp_ms": 55.5, "p50_audio_ttfp_ms": 9, "mean_audio_ttfp_ms": 60, "p99_audio_ttfp_ms": 80.0}
    result |= {"audio_throughput": 3.5, "request_throughput": True}
    figures = table.their_figures(result)
    assert figures["ttfp_ms"] == table.Figures(60.0, 55.5, None, 80.0)
    assert figures["audio_per_s"].headline == 3.5
    assert figures["requests_per_s"].headline is None and figures["rtf"].headline is None


@pytest.mark.parametrize(
    ("theirs", "ours", "unit", "within"),
    (
        (51.9, 50.0, "ms", True),  # 2 ms
        (52.1, 50.0, "ms", False),
        (1029.0, 1000.0, "ms", True),  # 3 %
        (970.0, 1000.0, "ms", True),
        (969.0, 1000.0, "ms", False),
        (0.0369, 0.035, "s", True),
        (0.0371, 0.035, "s", False),
        (1.029, 1.0, "", True),
        (1.031, 1.0, "", False),
        (0.0, 0.0, "", True),
        (None, 1.0, "ms", None),
        (1.0, None, "", None),
    ),
)
def test_agreement(theirs, ours, unit, within):
    assert table.agrees(theirs, ours, unit) is within


def test_rounds():
    assert table.over_rounds([3.0, 1.0, 2.0, 9.0]) == table.Cell(2.5, 1.0, 9.0)
    assert table.over_rounds([1.0, None]) == table.over_rounds([]) == table.Cell(None)
    assert table.paired([10.0, 12.0], [9.0, 9.0]) == table.Cell(2.0, 1.0, 3.0)
    assert table.paired([1.0], [1.0, 2.0]) == table.paired([1.0, None], [1.0, 1.0]) == table.Cell(None)


def test_parts():
    record = {"arrived_ns": 3 * MS, "submitted_ns": 4 * MS, "first_ns": 54 * MS, "body_bytes": 700}
    unfinished = {"arrived_ns": 0, "submitted_ns": 0, "body_bytes": 1}
    parts = table.parts_of({"a": 1 * MS, "b": 0, "c": 0}, {"a": record, "b": unfinished, "stranger": record})
    assert parts == table.Parts(2.0, 1.0, 50.0, 700)
    assert table.parts_of({"a": 1}, {}) == table.Parts()


def client_run(client, *timelines, figures=None):
    raw = list(timelines)
    figures = table.figures_of(raw, 1) if figures is None else figures
    return table.ClientRun(client, 1, True, figures, table.Parts(1.0, 2.0, 50.0, 210_000), raw)


def group_of(slower=1.0):
    """One round of the three clients; theirs is ``slower`` than ours by that many ms."""
    ours = [timeline(number, byte_ms=55, start_ms=1000 + 200 * number) for number in range(3)]
    theirs = [
        timeline(
            number,
            start_ms=1000 + 200 * number,
            byte_ms=55 + slower,
            chunks_ms=(55 + slower, 85, 115),
            end_ms=120 + slower,
        )
        for number in range(3)
    ]
    return report.Group(
        [
            client_run(report.VLLM, figures=table.figures_of(theirs, 1) | {"prebuffer_s": table.Figures()}),
            client_run(report.OURS_LIKE, *ours),
            client_run(report.OURS, *ours),
        ]
    )


def row_of(text, title):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {title}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_says_what_is_within():
    near, far = (report.agreement(group_of(slower)) for slower in (1, 4))
    assert row_of(near, "TTFP") == ["TTFP (ms)", "56.0", "55.0", "55.0", "+1.0", "+1.0 to +1.0", "+1.8 %", "yes"]
    assert row_of(far, "TTFP")[-4:] == ["+4.0", "+4.0 to +4.0", "+7.3 %", "**no**"]
    assert row_of(near, "underrun")[1:] == ["n/a", "0.0100", "0.0100", "n/a", "n/a", "n/a", "n/a"]
    quick = [timeline(number, byte_ms=55, start_ms=1000 + 200 * number, chunks_ms=(55, 80)) for number in range(3)]
    late = table.figures_of(quick, 1) | {"prebuffer_s": table.Figures(0.001, 0.001)}
    none = report.Group([client_run(report.VLLM, figures=late), client_run(report.OURS_LIKE, *quick)])
    assert row_of(report.agreement(none), "underrun")[3:] == [
        "0.0000", "+0.0010", "+0.0010 to +0.0010", "n/a", "yes",
    ]  # fmt: skip


def test_the_page_names_what_is_outside():
    near, far = group_of(1), group_of(4)
    assert "outside: TTFP at c = 4, E2EL" in page.verdict({1: near, 4: far})
    group = {1: near}
    ladder = [client_run(f"habit {number}", *near.of(report.OURS)[0].raw) for number in range(4)]
    steps = {1: report.Group([*ladder, *reversed(ladder)])}
    whole = page.Page("python x", 3, 0, rounds=1, steady=group, plain=group, steps=steps)
    whole.openai, whole.wav = {1: report.Group([])}, {1: [timeline(byte_ms=50)]}
    text = page.write_page(whole)
    assert "from their medians" in text and "| omni-bench, like theirs |" in text
    assert "(`force_close`): +0.0 ms of TTFP" in text and "header 5.0 ms before its audio" in " ".join(text.split())
    assert "bundled voice" not in text, "nothing was run with it"
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))


def test_prompts_as_their_client_reads_them(tmp_path):
    wav = tmp_path / "ref.wav"
    wav.write_bytes(b"RIFF")
    prompts = [Prompt("a", "Say this.", "Said that.", wav, "en"), Prompt("b", "And this.", "More.", wav, "en")]
    copies = runs.write_prompts(tmp_path / "out", prompts)
    source = read_seed_tts(tmp_path / "out", "en")
    assert [source.take(number) for number in range(2)] == copies
    assert [(prompt.id, prompt.text, prompt.ref_text) for prompt in copies] == [
        (prompt.id, prompt.text, prompt.ref_text) for prompt in prompts
    ]
    with pytest.raises(runs.TargetError, match="prompt c has no recording"):
        runs.write_prompts(tmp_path / "out", [Prompt("c", "No.", None, None, "en")])


def test_their_command_line_has_no_path_of_this_machine(tmp_path):
    bench = runs.VllmBench("/opt/secret/bin/python", tmp_path)
    load = runs.Load("steady", [], 8, 4)
    words = bench.arguments("http://127.0.0.1:1", load, "x-")
    assert words[:3] == ["bench", "serve", "--omni"] and not [word for word in words if str(tmp_path) in word]
    assert words[words.index("--max-concurrency") + 1] == "4" and "seed-tts" in words
    assert words[words.index("--backend") + 1] == "openai-audio-speech"
    chat = bench.arguments("http://127.0.0.1:1", runs.Load("steady", [], 8, 4, chat=True), "x-")
    assert chat[chat.index("--endpoint") + 1] == "/v1/chat/completions" and "openai-chat-omni" in chat
    assert "seed-tts-text" in bench.arguments(
        "http://127.0.0.1:1", runs.Load("steady", [], 8, 4, reference=False), "x-"
    )


def test_our_client_sends_what_theirs_sends(tmp_path):
    wav = tmp_path / "ref.wav"
    wav.write_bytes(b"RIFF")
    from omni_bench.load.clients.openai_speech import build_body

    prompt = Prompt("a", "Say this.", "Said that.", wav, "en")
    body = build_body(prompt, runs.Load("steady", [prompt], 1, 1).client(), None)
    assert set(body) == {
        *("model", "input", "stream", "stream_format", "response_format"),
        *("ref_audio", "ref_text", "task_type", "language", "max_new_tokens", "seed"),
    }


def aiperf_record(phase="profiling", error=None, **metrics):
    record = {"metadata": {"benchmark_phase": phase}, "metrics": metrics}
    return record if error is None else record | {"error": error}


def test_aiperf_records():
    def record(ms, **more):
        first = {"value": ms, "unit": "ms"}
        return aiperf_record(
            **more, time_to_first_token=first, inter_chunk_latency={"value": [ms, 2 * ms], "unit": "ms"}
        )

    length = {"output_sequence_length": {"value": 12800, "unit": "tokens"}}
    records = [record(900, phase="warmup"), record(10), record(20), record(40), aiperf_record(**length)]
    figures = others.aiperf_figures(records, 4)
    assert figures == {"time_to_first_token": 20, "inter_chunk_latency": 30}  # of 10, 20, 20, 40, 40, 80
    with pytest.raises(others.TargetError, match="0 of 4 requests failed, 5 were wanted"):
        others.aiperf_figures(records, 5)
    with pytest.raises(others.TargetError, match="1 of 5 requests failed"):
        others.aiperf_figures([*records, aiperf_record(error={"code": 400})], 5)


def guidellm_document(done, failed=()):
    return {"benchmarks": [{"requests": {"successful": done, "errored": list(failed), "incomplete": []}}]}


def test_guidellm_output():
    done = [
        {"time_to_first_token_ms": ms, "inter_token_latency_ms": None if ms == 9 else 5.0, "request_latency": ms / 10}
        for ms in (7, 8, 9)
    ]
    figures = others.guidellm_figures(guidellm_document(done), 3)
    assert figures["time_to_first_token_ms"] == 8 and figures["request_latency_ms"] == pytest.approx(800)
    assert figures["inter_token_latency_ms"] is None, "one request did not say"
    with pytest.raises(others.TargetError, match="3 requests of 4, 1 failed"):
        others.guidellm_figures(guidellm_document(done, ["x"]), 4)


def test_ours_in_their_words():
    audio = others.our_figures([timeline(), timeline(1)])
    assert audio == {"first_ms": 55, "last_ms": 115, "gap_ms": 30, "tpot_ms": None, "end_ms": 120}
    at = tuple((1000 + ms) * MS for ms in (7, 12, 17, 27))
    spoken = replace(timeline(), text_arrived_ns=at, completion_tokens=5)
    text = others.our_figures([spoken])
    assert text == {"first_ms": 7, "last_ms": 27, "gap_ms": 5, "tpot_ms": 5, "end_ms": 120}
    run = others.Compared("chat, text", 4, {"time_to_first_token": 9.5}, text)
    first, *rest = others.compared_table([run], others.CHAT_ROWS).splitlines()[2:]
    assert [cell.strip() for cell in first.strip("|").split("|")][-4:] == ["9.5", "7.0", "+2.5", "**no**"]
    assert all(line.count("n/a") == 3 for line in rest), "what one side lacks is neither a difference nor an agreement"


def test_chat_beside_theirs():
    at = tuple((1000 + ms) * MS for ms in (7, 12, 18))
    spoken = replace(timeline(), text_arrived_ns=at, completion_tokens=3)
    medians = others.metric_medians([spoken, replace(spoken, text_arrived_ns=at[:2])])
    assert medians == {"ttft_ms": 7, "tpot_ms": 4, "itl_ms": 5, "ttfp_ms": 55, "e2el_ms": 120}
    assert others.metric_medians([spoken, timeline()])["ttft_ms"] is None, "one of them wrote no text"
    assert others.metric_medians([timeline()])["itl_ms"] is None


@pytest.mark.slow
def test_our_clients_on_the_real_server(tmp_path):
    """Everything but the programs of others: one server process, the load worker, the habits, the openai package."""
    prompts = [Prompt(str(number), f"Sentence {number}.", None, None, "en") for number in range(3)]
    pace = ("--first-ms=20", "--interval-ms=5", "--chunks=3", "--chunk-ms=40")
    load = runs.Load("steady", prompts, 3, 2, reference=False, voice="tone")
    with runs.Server("steady", tmp_path / "server.log", *pace) as process:
        ours = runs.run_ours(process, load)
        like = runs.run_ours(process, load, habits.THEIRS)
        package = runs.run_openai(process, load)
        strangers = process.records()
    assert strangers and all("arrived_ns" not in record for record in strangers.values()), "the package sends no id"
    for run in (ours, like, package):
        assert run.figures["audio_s"].p50 == pytest.approx(0.12) and run.figures["ttfp_ms"].p50 > 20
    for run in (ours, like):
        assert run.parts.engine_ms >= 20 and run.parts.connect_ms > 0 and run.parts.body_bytes > 100
        assert [timeline.request_id for timeline in sorted(run.raw, key=lambda one: one.request_id)] == [
            "c2-0000", "c2-0001", "c2-0002",
        ]  # fmt: skip
