"""Steps at chunk edges are found by their rank, and edges that are places like any other never are."""

import numpy as np
import pytest
from scipy import stats
from voices import RATE, floats, speech

from omni_bench.accuracy.signal.clicks import EdgeEvidence, clicks_by_level, edge_evidence, has_clicks

EDGES = list(range(7680, 3 * RATE - 480, 7680))


def broken(samples, edges=EDGES, size=8000):
    samples = samples.astype(np.int32)
    for sign, edge in enumerate(edges):
        samples[edge:] += size if sign % 2 else -size
    return np.clip(samples, -32768, 32767).astype("<i2")


def test_clean_edges_are_no_clicks():
    evidence = edge_evidence(floats(speech()), EDGES, RATE)
    assert evidence.edges == len(EDGES)
    assert not has_clicks(evidence)


def test_a_step_at_every_edge_is_found_at_any_level():
    for gain in (1.0, 0.05):
        samples = floats(broken(speech())) * np.float32(gain)
        evidence = edge_evidence(samples, EDGES, RATE)
        assert has_clicks(evidence)
        assert evidence.p_value < 1e-9


def test_steps_elsewhere_do_not_count():
    away = [edge + 2000 for edge in EDGES]
    assert not has_clicks(edge_evidence(floats(broken(speech(), away)), EDGES, RATE))


def test_inaudible_steps_do_not_count():
    samples = np.zeros(3 * RATE, np.float32)
    samples[EDGES[0] :: 15360] = 5e-4
    assert edge_evidence(samples, EDGES, RATE).surprise == 0


def test_the_ranks_are_fair_on_noise():
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(300):
        samples = (rng.laplace(size=20_000) * 0.05).astype(np.float32)
        p_values.append(edge_evidence(samples, range(1000, 19_000, 3000), RATE).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_tiny_reads_are_thinned():
    samples = floats(speech(1.0))
    assert edge_evidence(samples, range(1, len(samples)), RATE).edges <= 1.0 / 0.020
    assert edge_evidence(samples, [], RATE) == EdgeEvidence()
    assert edge_evidence(samples[:0], [0, 5], RATE).p_value == 1.0


def test_a_level_proves_what_its_short_requests_cannot():
    weak = EdgeEvidence(edges=4, surprise=12.0)
    clean = EdgeEvidence(edges=4, surprise=2.0)
    assert not has_clicks(weak)
    assert clicks_by_level([weak] * 12 + [clean]) == [True] * 12 + [False]
    assert clicks_by_level([weak, clean, clean]) == [False] * 3
    assert clicks_by_level([]) == []


def test_a_slight_roughness_of_many_edges_is_no_click():
    evidence = EdgeEvidence(edges=4000, surprise=6000.0)
    assert evidence.p_value < 1e-12
    assert not has_clicks(evidence)


def test_p_value_is_fisher_s():
    assert EdgeEvidence(5, 9.0).p_value == pytest.approx(stats.chi2.sf(18.0, 10))
