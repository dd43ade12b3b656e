"""Recordings that are no speech of their texts, in every place that reads them."""

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.recordings import NoSpeech, no_speech, speech_of
from omni_bench.errors import DatasetError
from omni_bench.metrics.pace import letters
from omni_bench.records.prompt import Prompt
from omni_bench.run.expected_pace import reference_paces
from omni_bench.run.prepare import check_recordings
from omni_bench.run.signal_checks import expected_voices

TEXT = "It takes a person about three seconds to say this."
SPEECH = np.sin(np.arange(3 * 16_000) / 20) / 2


def recorded(path, samples, **form):
    soundfile.write(path, samples, 16_000, **form)
    return Prompt(path.stem, "said", TEXT, path, "en")


@pytest.fixture
def prompts(tmp_path):
    return [
        recorded(tmp_path / "nan.wav", np.full(48_000, np.nan), subtype="FLOAT"),
        recorded(tmp_path / "silent.flac", np.zeros(48_000)),
        recorded(tmp_path / "short.wav", SPEECH[:5000]),
        recorded(tmp_path / "padded.wav", np.concatenate([SPEECH[:5000], np.zeros(43_000)])),
        recorded(tmp_path / "good.wav", np.stack([SPEECH, -SPEECH], axis=1)),
    ]


def test_what_is_no_speech_is_sent_to_no_server(prompts):
    with pytest.raises(DatasetError, match=r"client\.send_reference=true: the data set mine has 4 bad") as caught:
        check_recordings(prompts, "mine")
    listed = str(caught.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in listed] == ["nan.wav", "silent.flac", "short.wav", "padded.wav"]
    for line, why in zip(listed, ["not finite", "silent", "0.31 s of speech", "0.32 s of speech"], strict=True):
        assert why in line
    check_recordings(prompts[-1:], "mine")


def test_it_tells_neither_a_pace_nor_a_voice(prompts):
    assert reference_paces(prompts) == [pytest.approx(letters(TEXT) / 3, rel=0.01)]
    assert len(expected_voices({prompt.id: prompt for prompt in prompts}, with_reference=True).references) == 1
    assert set(expected_voices({prompt.id: prompt for prompt in prompts}, with_reference=True).own) == {"good"}


def test_what_cannot_be_read_here_is_the_servers_to_read(tmp_path):
    (tmp_path / "other.m4a").write_bytes(b"ftyp")
    assert no_speech(tmp_path / "other.m4a", TEXT, "en") is None
    with pytest.raises(NoSpeech):
        speech_of(recorded(tmp_path / "silent.wav", np.zeros(16_000)).ref_audio, None, "en")
