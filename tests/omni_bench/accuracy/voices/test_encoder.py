"""The speaker encoder: features, pieces, embeddings."""

import numpy as np
import pytest
import torch

from omni_bench.accuracy.voices import encoder
from omni_bench.accuracy.voices.encoder import (
    SpeakerEncoder,
    describe_encoder,
    find_encoder_weights,
    load_speaker_encoder,
    pieces_of,
    why_no_encoder,
)
from omni_bench.datasets.bundled import read_bundled
from omni_bench.errors import AccuracyError


@pytest.fixture(scope="module")
def random_encoder():
    torch.manual_seed(0)
    return SpeakerEncoder().eval()


def noise(seconds, seed=0, level=0.1):
    return (level * np.random.default_rng(seed).normal(size=round(seconds * 16000))).astype(np.float32)


def test_the_filters_are_triangles_of_equal_area(random_encoder):
    filters = random_encoder.filters.numpy()
    assert filters.shape == (40, 201) and filters.min() == 0
    # the published values of the first and the last band, from librosa 0.11 (Slaney's scale and norm)
    peaks_hz = filters.argmax(axis=1) * 40
    assert peaks_hz[0] == 80 and np.all(np.diff(peaks_hz) > 0) and 7000 < peaks_hz[-1] < 8000
    wide = filters[20:].sum(axis=1) * 40
    assert np.allclose(wide, 1.0, atol=0.06)


def test_long_speech_is_cut_into_overlapping_pieces_that_reach_the_end():
    assert [piece.size for piece in pieces_of(noise(1.0))] == [16000]
    samples = noise(3.0)
    pieces = pieces_of(samples)
    assert {piece.size for piece in pieces} == {25600}
    assert np.array_equal(pieces[0], samples[:25600]) and np.array_equal(pieces[-1], samples[-25600:])


def test_embeddings_are_unit_vectors_and_do_not_depend_on_the_batch(random_encoder):
    speech = [noise(1.0), noise(2.5, 1), noise(0.3), np.zeros(32000, np.float32), noise(1.6, 2)]
    found = random_encoder.embed(speech)
    assert [one is None for one in found] == [False, False, True, True, False]
    assert all(np.linalg.norm(one) == pytest.approx(1) for one in found if one is not None)
    alone = random_encoder.embed([speech[1]])[0]
    assert np.allclose(found[1], alone, atol=1e-5)
    assert random_encoder.embed([]) == []


def test_quiet_speech_is_raised(random_encoder):
    loud, quiet = random_encoder.embed([noise(1.0, level=0.03), noise(1.0, level=0.003)])
    assert np.allclose(loud, quiet, atol=1e-3)


def test_a_package_that_is_not_there_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(encoder, "PACKAGE", "no-such-package-at-all")
    assert find_encoder_weights() is None
    assert "pip install --no-deps resemblyzer==0.1.4" in why_no_encoder()
    for attempt in (describe_encoder, load_speaker_encoder):
        with pytest.raises(AccuracyError, match="pip install --no-deps resemblyzer"):
            attempt()


def test_another_file_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "pretrained.pt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(AccuracyError, match="does not hold the speaker encoder's weights"):
        load_speaker_encoder(path)
    monkeypatch.setattr(encoder, "find_encoder_weights", lambda: path)
    with pytest.raises(AccuracyError, match=r"refused.*Reinstall it"):
        load_speaker_encoder()
    torch.save({"model_state": {"lstm.weight_ih_l0": torch.zeros(3)}}, path)
    with pytest.raises(AccuracyError, match="does not hold"):
        load_speaker_encoder(path)


def test_weights_of_the_right_shape_are_loaded(random_encoder, tmp_path):
    path = tmp_path / "own.pt"
    state = {**random_encoder.state_dict(), "similarity_weight": torch.ones(1)}
    torch.save({"step": 1, "model_state": state}, path)
    speech = [noise(1.0)]
    assert np.allclose(load_speaker_encoder(path).embed(speech)[0], random_encoder.embed(speech)[0])


def test_the_package_tells_one_voice_from_itself_made_deeper():
    if find_encoder_weights() is None:
        pytest.skip("resemblyzer is not installed")
    from scipy.signal import resample_poly

    from omni_bench.accuracy.asr.clips import AsrClip, load_samples_16k
    from omni_bench.accuracy.voices.similarity import without_outer_silence

    source = read_bundled("seed_tts_mini", "en")
    paths = sorted({source.take(index).ref_audio for index in range(len(source.ids))})[:4]
    voice = [without_outer_silence(load_samples_16k(AsrClip(path.name, path, 24000))) for path in paths]
    deeper = [resample_poly(one, 6, 5).astype(np.float32) for one in voice]
    found = load_speaker_encoder().embed([*voice, *deeper])
    within = [found[a] @ found[b] for a in range(4) for b in range(a)]
    across = [found[a] @ found[4 + b] for a in range(4) for b in range(4)]
    assert min(within) > max(across)
