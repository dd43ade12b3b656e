"""Faults that show in many answers together, tried on recordings of the clean server instead of a run of their own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from omni_bench.accuracy.judge_error import Reference
from omni_bench.accuracy.signal.checks import reference_traits, signal_findings
from omni_bench.accuracy.signal.level_audio import level_audio
from omni_bench.run.validity import audio_reasons
from omni_bench.selftest.cases import CLEAN, SelftestCase
from omni_bench.selftest.evidence import ALONE, StoredAnswer
from omni_bench.selftest.matrix import CaseRun, DetectorAlarm
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.chaos_proxy.damages import DAMAGES


def damaged_case(case: SelftestCase, clean: Sequence[StoredAnswer], references: Sequence[Reference]) -> CaseRun:
    """Damage ``clean`` answers as the proxy would, and judge them as one level.

    The reference recordings, which are of the same voice, are damaged too, and as they are they are the yardstick of
    pitch and pace. Each answer counts once, however often it was spoken.
    """
    started = time.monotonic()
    fault = WIRE_FAULTS[case.name]
    spoken = {answer.key: answer for answer in clean if answer.sound and answer.concurrency != ALONE}
    sources = [(answer.request_id, answer.recording, answer.text) for answer in spoken.values()]
    sources += [(one.clip.request_id, one.clip.pcm16, one.text) for one in references]
    traits, recordings, rates = {}, [], set()
    for number, (name, source, text) in enumerate(sources, start=1):
        assert isinstance(source, Path)
        samples, rate_hz = soundfile.read(source, dtype="int16")
        if number > len(spoken):
            recordings.append(reference_traits(samples / np.float32(32768), rate_hz, text))
        sent = DAMAGES[case.name](samples, rate_hz) if fault.hits(number) else samples
        traits[name] = signal_findings(sent, rate_hz, (), text).traits
        rates.add(rate_hz)
    rate_hz = rates.pop() if len(rates) == 1 else None
    found = level_audio(
        {name: one for name, one in traits.items() if one is not None},
        rate_hz,
        references=[one for one in recordings if one is not None],
    )
    concurrency = max((answer.concurrency for answer in spoken.values()), default=ALONE)
    alarms = tuple(DetectorAlarm(reason.code, concurrency, str(reason)) for reason in audio_reasons(found, rate_hz))
    problem = None if spoken else "the clean server has no answer to damage"
    return CaseRun(case, 0, CLEAN, alarms, time.monotonic() - started, problem)
