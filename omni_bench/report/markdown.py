"""report.md: what was measured, the table to paste, why it may be trusted, and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omni_bench.accuracy.signal.audio_faults import FAULTS
from omni_bench.foreign_text import escape_markdown, one_field, page_of
from omni_bench.metrics.definitions import in_order
from omni_bench.metrics.metric import Scope
from omni_bench.records.invalid_reason import client_last, own_reasons, reasons_of
from omni_bench.records.level import is_open_loop, level_of, short_title
from omni_bench.records.profile import RunProfile
from omni_bench.records.recording import bias_target_ms
from omni_bench.report.audio import audio_section
from omni_bench.report.cross_talk import cross_talk_section, source_name
from omni_bench.report.format import (
    NA,
    UNKNOWN_CPU,
    fixed,
    hardware_name,
    has_audio,
    has_text,
    injected_faults,
    prompt_counts,
    server_says,
    target_name,
)
from omni_bench.report.judge import own_error_line, voices_line, voices_section
from omni_bench.report.next_step import next_steps_of
from omni_bench.report.open_loop import open_loop_section, rate_search_section, slo_line
from omni_bench.report.parity import parity_section
from omni_bench.report.profile import profile_section
from omni_bench.report.reproduce import reproduce_section
from omni_bench.report.server import accounts_section, server_section, server_warning_lines
from omni_bench.report.table import (
    accuracy_table,
    by_characters,
    error_rate,
    fit_table,
    lag_table,
    level_table,
    percentile_table,
    shown_metrics,
    standstill_lines,
)
from omni_bench.report.utterances import MARKS, Records, by_damage, is_rejected, rejected_table, utterance_table

NO_RECORDS = Records()
WORST_UTTERANCES = 10
REJECTED_REQUESTS = 20
OVERVIEW = "overview.png"
EVIDENCE = "wer_evidence.md"
WORST = "Worst utterances"
LEFT_OUT = "Some of it is left out here, as it is too long for a pull request; report.html has it."


def render_report(
    run: Mapping[str, Any],
    records: Records = NO_RECORDS,
    plots: Sequence[str] = (),
    profile: RunProfile | None = None,
) -> str:
    """The report of a run as markdown.

    ``run``: run.json, valid by its schema. ``plots``: paths of images relative to the report; the overview is shown,
    the others linked. No longer than a pull request takes. Raises StoreError for a line of utterances that lacks a
    field.
    """
    sections = report_sections(run, records, plots, profile)
    parts = [
        f"# omni-bench: {escape_markdown(run['scenario'])}",
        "\n".join(f"- **{name}**: {value}" for name, value in facts_of(run).items()),
        _injected(run),
        _verdict(run),
        server_warning_lines(run),
        level_table(run) if run["levels"] else "No level was measured.",
        legend(run),
        _images(plots),
        *(f"## {title}\n\n{body}" for title, body in sections.items()),
    ]
    return page_of(parts, LEFT_OUT)


def report_sections(
    run: Mapping[str, Any], records: Records, plots: Sequence[str], profile: RunProfile | None
) -> dict[str, str]:
    """The sections of the report that have something to say, as markdown by title, in order."""
    sections = {
        "Two accounts: the server's and ours": accounts_section(run),
        "Rate search": rate_search_section(run),
        "Open loop: offered and achieved": open_loop_section(run),
        "Rejected requests": _rejected(records.requests),
        "Accuracy": accuracy_table(run) if run["provenance"]["judge"] and run["levels"] else None,
        WORST: _worst(run, records),
        "The audio of all answers together": audio_section(run),
        "Voices": voices_section(run, records.utterances),
        "Cross-talk": cross_talk_section(run, records.hits, plots),
        "Parity: alone and in company": parity_section(run, records.parity),
        "Fixed and marginal cost": _fit(run),
        "The client's own error": _lag(run),
        "The server's own account": server_section(run),
        "Profile: where the time goes": profile_section(profile),
        "All figures": _percentiles(run),
        "Reproduce": reproduce_section(run),
        "Versions": _versions(run),
    }
    return {title: body for title, body in sections.items() if body}


def facts_of(run: Mapping[str, Any]) -> dict[str, str]:
    """What was measured, by name, as markdown."""
    provenance = run["provenance"]
    prompts, judge = provenance["prompts"], provenance["judge"]
    duration = f", {fixed(run['duration_s'], 0)} s" if run["duration_s"] is not None else ""
    if not duration and not own_reasons(run):  # nothing cut it short in the end
        duration = f", in parts (`--resume`), which took {NA} s together"
    # a server with random weights says that there is nothing to hear, and why
    why = server_says(run, "weights")
    unheard = f"none, speech was not checked{f' ({escape_markdown(why)})' if why else ''}"
    if not has_audio(run):
        unheard = "none, there is nothing to hear in a text"
    heard = f"{escape_markdown(judge['name'])}, {_short(judge['sha256'])}" if judge else unheard
    facts = {
        "scenario": escape_markdown(run.get("description") or run["scenario"]),
        "load": _load(provenance.get("config") or {}),
        "target": escape_markdown(_with_commit(target_name(run), provenance["target"])),
        "hardware": escape_markdown(hardware_name(run)),
        "date": f"{escape_markdown(run['started_utc'])}{duration}",
        "prompts": f"{prompt_counts(prompts)} of {escape_markdown(prompts['dataset'])} "
        f"({escape_markdown(prompts['locale'])}), {_short(prompts['sha256'])}",
        "judge": heard,
        "omni-bench": escape_markdown(_with_commit(provenance["harness"]["version"], provenance["harness"])),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _load(config: Mapping[str, Any]) -> str | None:
    """``closed_loop, openai_speech_ws``: what the scenario's own words do not tell once a key of it was changed."""
    kinds = [config[group]["kind"] for group in ("load", "client") if (config.get(group) or {}).get("kind")]
    return escape_markdown(", ".join(kinds)) or None


def _injected(run: Mapping[str, Any]) -> str | None:
    faults = ", ".join(escape_markdown(fault) for fault in injected_faults(run))
    return f"> **FAULT INJECTED on purpose**: {faults}. These figures say nothing about the server." if faults else None


def _verdict(run: Mapping[str, Any]) -> str | None:
    if run["valid"]:
        return None
    reasons = client_last(reasons_of(run))
    listed = "\n".join(f"> - {escape_markdown(str(reason))}" for reason in reasons)
    steps = " ".join(map(escape_markdown, next_steps_of(run)))
    return f"> **This run makes no performance claim.**\n>\n{listed}" + (f"\n>\n> Next: {steps}" if steps else "")


def legend(run: Mapping[str, Any]) -> str:
    """How the figures of the level table are to be read, and what broke in its levels, as markdown."""
    open_loop = is_open_loop(map(level_of, run["levels"]))
    axis = "rate (and c): requests scheduled a second" if open_loop else "c: requests in flight"
    notes = [f"{axis}. {_legend_of_columns(run)}"]
    counts = [level["metrics"]["e2el_ms"]["n"] for level in run["levels"] if "e2el_ms" in level["metrics"]]
    if counts:
        span = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        notes.append(
            f"Percentiles by linear interpolation over {span} requests a level. p95 is given from 59 requests on and "
            "p99 from 299: below that no distribution-free 95 % upper bound on them exists."
        )
    if run["provenance"]["judge"]:
        if by_characters(run):
            rates = "CER is of the whole level (edits over reference characters, as words are not written apart); "
        else:
            rates = "WER and CER are of the whole level (edits over reference words or characters); "
        notes.append(f"{rates}failed, empty and silent requests count as 100 %.")
        notes += [escape_markdown(line) for line in (own_error_line(run), voices_line(run)) if line]
    if (line := slo_line(run)) is not None:
        notes.append(escape_markdown(line))
    if bounds := [bound for level in run["levels"] if (bound := _bias_bound(level))]:
        notes.append(f"The client's own part of TTFP, not subtracted, p99 in ms: {', '.join(bounds)}.")
    checks = (metric for metric in shown_metrics(run) if metric.scope is Scope.CHECK)
    notes += [f"{metric.short}: {metric.legend}." for metric in checks if metric.legend]
    for level in run["levels"]:
        broken = {**level["errors"], **level["invalid"]}
        if broken:
            listed = ", ".join(f"{escape_markdown(name)} {number}" for name, number in broken.items())
            notes.append(f"{short_title(level_of(level))}: {listed}.")
    return "\n\n".join(notes)


def _bias_bound(level: Mapping[str, Any]) -> str | None:
    client = level["client"] or {}
    bias, nodes = client.get("ttfp_bias"), client.get("nodes", ())
    clocks = ""
    if nodes:
        error_ms = max(node["error_ms"] for node in nodes)
        clocks = f"clocks of {len(nodes)} node{'s' * (len(nodes) != 1)} known within {fixed(error_ms, 2)}"
    if not bias:
        return f"{NA} at {short_title(level_of(level))} ({clocks})" if clocks else None
    target_ms = bias_target_ms(bias["concurrency"])
    missed = target_ms is not None and bias["p99_ms"] > target_ms
    more = f" (more than the {target_ms:g} ms that an idle machine keeps)" if missed else ""
    more += f" ({clocks})" if clocks else ""
    return f"{fixed(bias['p99_ms'], 2)} at {short_title(level_of(level))}{more}"


def _legend_of_columns(run: Mapping[str, Any]) -> str:
    if has_audio(run):
        words = [
            "ok: requests that ended cleanly with valid audio; all figures but "
            f"{'CER' if by_characters(run) else 'WER and CER'} are of these."
        ]
    else:
        words = ["ok: requests that ended cleanly with a text; all figures are of these. E2EL: end-to-end latency."]
    measured = (
        metric for metric in in_order(audio=has_audio(run), text=has_text(run)) if metric.scope is not Scope.CHECK
    )
    words += [f"{metric.short}: {metric.legend}." for metric in measured if metric.legend]
    if has_audio(run) and has_text(run):
        words.append("What is heard is compared with the text of the reply.")
    return " ".join(words)


def _images(plots: Sequence[str]) -> str | None:
    if not plots:
        return None
    overview = [f"![overview]({path})" for path in plots if path.endswith(OVERVIEW)]
    others = [f"[{path}]({path})" for path in plots if not path.endswith(OVERVIEW)]
    return "\n\n".join([*overview, *([" · ".join(others)] if others else [])])


def _rejected(requests: Sequence[Mapping[str, Any]]) -> str | None:
    rejected = [record for record in requests if is_rejected(record)]
    if not rejected:
        return None
    shown = min(len(rejected), REJECTED_REQUESTS)
    intro = f"{len(rejected)} of {len(requests)} requests failed or gave invalid audio; the first {shown}."
    return f"{intro}\n\n{rejected_table(rejected, shown)}\n\n{_meanings(rejected)}".rstrip()


def _meanings(rejected: Sequence[Mapping[str, Any]]) -> str:
    """What the faults of these requests are called for, one sentence each."""
    found = {fault for record in rejected for fault in record.get("faults") or ()}
    return " ".join(f"`{name}`: {meaning}." for name, meaning in FAULTS.items() if name in found)


def _worst(run: Mapping[str, Any], records: Records) -> str | None:
    if not run["provenance"]["judge"]:
        return None
    utterances, damaged = records.utterances, by_damage(records.utterances)
    unit = "character" if by_characters(run) else "word"
    if not utterances:
        body = "No utterance is on record."
    elif not damaged:
        body = f"None: the judge heard every {unit} of {len(utterances)} utterances."
    else:
        shown = min(len(damaged), WORST_UTTERANCES)
        sources = {hit["victim"]: source_name(hit) for hit in records.hits}
        intro = (
            f"{len(damaged)} of {len(utterances)} utterances differ from their text; the worst {shown}. "
            f"{MARKS}; S / D / I: {unit}s changed, missing and added. "
            f"All of them: [{EVIDENCE}]({EVIDENCE})."
        )
        body = f"{intro}\n\n{utterance_table(damaged, shown, sources, error_rate(run))}"
    return body


def _fit(run: Mapping[str, Any]) -> str | None:
    if not run["levels"] or not has_audio(run):
        return None
    note = (
        "E2EL = intercept + slope × audio length (Theil–Sen): comparable between runs with different audio lengths. "
        f"{NA}: too few requests, or lengths that hardly differ."
    )
    return f"{fit_table(run)}\n\n{note}"


def _lag(run: Mapping[str, Any]) -> str | None:
    if not run["levels"]:
        return None
    note = (
        "How late the client's event loop ran while it measured; no time in this report is more exact than that. "
        "First bytes: how long the first audio or text of a request may have waited in the client before it was "
        "read, at most. TTFP bias: what the client adds to a TTFP, from a server's write on, as `omni-bench calibrate` "
        f"measured it on that machine; {NA}: it did not. Clock error: by how much stamps of other nodes of a Ray "
        "cluster may be wrong on this machine's clock (half of the shortest round trip, and drift)."
    )
    return "\n\n".join([lag_table(run), *(f"**{line}**" for line in standstill_lines(run)), note])


def _percentiles(run: Mapping[str, Any]) -> str | None:
    if not any(summary["n"] for level in run["levels"] for summary in level["metrics"].values()):
        return None
    return (
        f"<details><summary>mean, standard deviation and percentiles</summary>\n\n{percentile_table(run)}\n\n</details>"
    )


def _versions(run: Mapping[str, Any]) -> str:
    software, hardware = run["provenance"]["software"], run["provenance"]["hardware"]
    packages = [f"{name} {version}" for name, version in software["packages"].items() if version]
    gpus = [f"{gpu['name']} (driver {gpu.get('driver') or NA})" for gpu in hardware["gpus"]]
    cuda = [f"CUDA {hardware['cuda']}"] if hardware["cuda"] else []
    memory = hardware["memory_bytes"]
    machine = [
        hardware["cpu"] or UNKNOWN_CPU,
        f"{hardware['cpu_cores'] or NA} cores{_pinned(run)}",
        f"{memory / 2**30:.0f} GiB" if memory else NA,
    ]
    lines = [
        f"- Python {escape_markdown(software['python'])}, {escape_markdown(software['platform'])}",
        f"- {escape_markdown(', '.join(packages)) or NA}",
        f"- client machine: {escape_markdown(', '.join([*machine, *gpus, *cuda]))}",
    ]
    return "\n".join(lines)


def _pinned(run: Mapping[str, Any]) -> str:
    """How many cores the server had for itself; nothing where there were too few."""
    provenance = run["provenance"]
    cores = (provenance["config"].get("target") or {}).get("cores")
    usable = provenance["hardware"]["cpu_cores"] or 0
    return f" ({cores} for the server, {usable - cores} for the client)" if cores and cores < usable else ""


def _with_commit(name: str, source: Mapping[str, Any]) -> str:
    """``name``, with version and commit where they are known, and whether there were uncommitted changes."""
    words = [name]
    version = source.get("version")
    if version and version != name:
        words.append(one_field(version))
    if source.get("commit"):
        words.append(f"commit {source['commit'][:12]}" + (" with uncommitted changes" if source.get("dirty") else ""))
    return ", ".join(words)


def _short(sha256: str | None) -> str:
    return f"sha256 {escape_markdown(sha256[:12])}" if sha256 else f"sha256 {NA}"
