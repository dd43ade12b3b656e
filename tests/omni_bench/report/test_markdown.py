"""report.md: its parts, in which order, and what is said when something is missing."""

from __future__ import annotations

import re

import run_factory as runs
from reasons import because

from omni_bench.records.invalid_reason import Code
from omni_bench.report.markdown import render_report
from omni_bench.report.utterances import Records
from omni_bench.run.document import utterance_record


def sections(report: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", report, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def head(report: str) -> str:
    return report.split("\n## ")[0]


def utterances(count=10):
    scores = runs.scores([f"c4-{i:04d}" for i in range(count)])
    return [utterance_record(score, concurrency=4, prompt_id="p", audio="audio/x.wav") for score in scores]


def test_parts_of_a_good_run():
    report = render_report(runs.make_run(), Records(utterances=utterances()), ["plots/overview.png", "plots/rtf.png"])
    assert list(sections(report)) == [
        "Accuracy",
        "Worst utterances",
        "Cross-talk",
        "Fixed and marginal cost",
        "The client's own error",
        "All figures",
        "Reproduce",
        "Versions",
    ]
    top = head(report)
    for word in [
        "reference (tiny)",
        "Fast CPU 9000, 2 cores",
        "2026-11-27T23:40:00Z",
        "tiny.en",
        "0123456789ab with unc",
    ]:
        assert word in top
    assert "![overview](plots/overview.png)" in top and "[plots/rtf.png](plots/rtf.png)" in top
    assert "no performance claim" not in report
    assert sum(line.startswith("|  ") for line in top.splitlines()) == 4  # one table: header and three levels
    assert report.endswith("\n") and "\n\n\n" not in report


def test_groups_of_the_configuration_that_are_null():
    run = runs.make_run()
    config = run["provenance"]["config"]
    run["provenance"]["config"] = dict.fromkeys([*config, "load", "client", "target", "asr", "slo"])
    assert list(sections(render_report(run, Records(utterances=utterances())))) == list(
        sections(render_report(runs.make_run(), Records(utterances=utterances())))
    )


def test_measured_and_warm_up_prompts_are_told_apart():
    assert "60 measured and 16 warm-up of seed\\_tts\\_mini" in head(render_report(runs.make_run()))
    old = runs.make_provenance()
    for name in ("warmup", "measured"):
        del old["prompts"][name]
        assert "76 of seed\\_tts\\_mini" in head(render_report(runs.make_run(provenance=old)))


def test_percentiles_say_what_supports_them():
    assert "over 12 requests a level. p95 is given from 59 requests on and p99 from 299" in render_report(
        runs.make_run()
    )
    mixed = runs.make_run(levels=[runs.make_level(1, 12), runs.make_level(4, 9)])
    assert "over 9 to 12 requests a level" in render_report(mixed)


def test_invalid_run_says_so_before_its_table():
    run = runs.make_run(levels=[runs.make_level(1), runs.make_level(4, failures=2)])
    top = head(render_report(run))
    assert top.index("makes no performance claim") < top.index("TTFP p50")
    assert "2 of 14 requests failed" in top and "c = 4: connect 2." in top


def test_an_injected_fault_is_named_as_plain_text():
    run = runs.make_run()
    run["provenance"]["target"]["description"]["chaos"] = {"name": "swap_streams"}
    # a backslash within backticks would be shown
    assert "**FAULT INJECTED on purpose**: target.chaos=swap\\_streams. These" in head(render_report(run))


def test_load_and_wire_form_stand_in_the_head_where_they_are_known():
    run = runs.make_run()
    run["provenance"]["config"] = {"load": {"kind": "rate_search"}, "client": {"kind": "openai_speech_ws"}}
    assert "- **load**: rate\\_search, openai\\_speech\\_ws\n" in head(render_report(run))
    run["provenance"]["config"] = {}
    assert "**load**" not in head(render_report(run))


def test_worst_utterances_are_counted():
    body = sections(render_report(runs.make_run(), Records(utterances=utterances())))["Worst utterances"]
    assert "2 of 10 utterances differ" in body and "~~the~~ → **a**" in body
    perfect = utterances(2)
    assert "None: the judge heard every word of 2 utterances" in render_report(
        runs.make_run(), Records(utterances=perfect)
    )
    assert "No utterance is on record" in render_report(runs.make_run())


def test_without_a_judge_nothing_is_said_of_accuracy():
    run = runs.make_run(levels=[runs.make_level(1, judge=False)], provenance=runs.make_provenance(judge=False))
    report = render_report(run)
    assert "**judge**: none, speech was not checked" in report
    assert not {"Accuracy", "Worst utterances"} & set(sections(report))
    assert "n/a |" in head(report)


def test_random_weights_are_the_stated_reason_for_no_judge():
    provenance = runs.make_provenance(judge=False)
    provenance["target"]["description"]["health"]["weights"] = "random weights: nothing is transcribed"
    run = runs.make_run(levels=[runs.make_level(1, judge=False)], provenance=provenance)
    assert "**judge**: none, speech was not checked (random weights: nothing is transcribed)" in render_report(run)


def test_rejected_requests_have_a_section():
    records = [
        {"request_id": f"r{i}", "concurrency": 1, "error": {"kind": "timeout", "message": "late"}} for i in range(30)
    ]
    records.append({"request_id": "ok", "concurrency": 1, "error": None, "faults": []})
    records[20] |= {"error": None, "faults": ["dropout", "trailing_audio"]}
    body = sections(render_report(runs.make_run(), Records(records)))["Rejected requests"]
    assert "30 of 31 requests failed" in body and "the first 20" in body and body.count("timeout: late") == 20
    assert "`dropout`: a hole in the middle of speech. `trailing_audio`: stale audio after the end." in body


def test_run_without_levels():
    report = render_report(runs.make_run(levels=[]))
    assert "No level was measured." in report and "no level was measured" in report
    assert set(sections(report)) == {"Worst utterances", "Reproduce", "Versions"}


def test_command_is_quoted_for_a_shell():
    body = sections(render_report(runs.make_run()))["Reproduce"]
    assert "```sh\nomni-bench run scenario=qwen3_tts 'client.voice=it'\"'\"'s'\n```" in body


def test_hostile_names_do_not_break_the_page():
    evil = "x\n# y | <script>alert(1)</script> ```"
    provenance = runs.make_provenance(health={"model": evil, "device_name": evil})
    provenance["command"] = ["run", evil]
    run = runs.make_run(scenario=evil, provenance=provenance, own=[because(Code.SERVER_BROKE, evil)])
    report = render_report(run)
    without_command = report.replace(sections(report)["Reproduce"], "")
    assert "<script>" not in without_command
    assert [line for line in without_command.splitlines() if line.startswith("# ")] == [report.splitlines()[0]]
    assert report.count("````sh") == 1


def test_missing_provenance_values_read_as_na():
    provenance = runs.make_provenance()
    provenance["hardware"] = {
        "cpu": None,
        "cpu_cores": None,
        "memory_bytes": None,
        "gpus": [{"name": "G"}],
        "cuda": None,
    }
    provenance["judge"]["sha256"] = None
    provenance["harness"].update(commit=None, dirty=None)
    provenance["command"] = []
    report = render_report(runs.make_run(provenance=provenance, duration_s=None))
    assert "None" not in report and "sha256 n/a" in report and "G (driver n/a)" in report


def test_a_text_alone_says_nothing_of_audio():
    run = runs.make_run(levels=[runs.make_level(2, judge=False)])
    run["provenance"]["judge"] = None
    run["provenance"]["config"]["client"] = {"kind": "openai_chat_audio", "modalities": ["text"]}
    report = render_report(run)
    assert "TTFT: time to the first text" in report and "nothing to hear in a text" in report
    for word in ("TTFP:", "RTF:", "stalls:", "## Fixed and marginal cost", "valid audio"):
        assert word not in report


def test_a_chat_says_what_its_audio_is_compared_with():
    run = runs.make_run((1,))
    run["provenance"]["config"]["client"] = {"kind": "openai_chat_audio", "modalities": ["text", "audio"]}
    report = render_report(run)
    assert "TTFT: time to the first text" in report and "compared with the text of the reply" in report
    assert "compared with the text of the reply" not in render_report(runs.make_run((1,)))
