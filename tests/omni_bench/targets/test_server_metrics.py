"""The server's own counters: read, and what moved between two readings."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from omni_bench.targets import probe, server_metrics
from omni_bench.targets.server_metrics import MAX_SERIES, Scrape, differences, observed, parse, preemptions, scrape

BEFORE = """\
# HELP vllm:num_preemptions_total Cumulative number of preemptions.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="m"} 1.7e9
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running 0
# TYPE vllm_omni:audio_ttfp_s histogram
vllm_omni:audio_ttfp_s_bucket{le="0.1",stage="2"} 1
vllm_omni:audio_ttfp_s_bucket{le="+Inf",stage="2"} 2
vllm_omni:audio_ttfp_s_count{stage="2"} 2
vllm_omni:audio_ttfp_s_sum{stage="2"} 0.5
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 5
"""
AFTER = """\
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 5.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="m"} 1.8e9
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc 0.25
# TYPE vllm_omni:audio_ttfp_s histogram
vllm_omni:audio_ttfp_s_bucket{le="0.1",stage="2"} 5
vllm_omni:audio_ttfp_s_bucket{le="+Inf",stage="2"} 6
vllm_omni:audio_ttfp_s_count{stage="2"} 6
vllm_omni:audio_ttfp_s_sum{stage="2"} 1.5
# TYPE vllm_omni:frames_total counter
vllm_omni:frames_total 0
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 9
"""


def of(before, after):
    return differences(Scrape(parse(before)), Scrape(parse(after)))


def test_what_moved_by_kind():
    found = of(BEFORE, AFTER)
    assert found == {
        "problem": None,
        "series": {
            'vllm:num_preemptions{engine="0",model_name="m"}': {"increase": 3.0},
            "vllm:kv_cache_usage_perc": {"before": None, "after": 0.25},
            'vllm_omni:audio_ttfp_s{stage="2"}': {"count": 4.0, "sum": 1.0, "mean": 0.25},
        },
        "left_out": 0,
        "cut": None,
    }
    assert preemptions(found) == 3


def test_what_speaks_of_speech_is_kept_first():
    many = "".join(f'many{{n="{number:05d}"}} 1\n' for number in range(MAX_SERIES))
    names = list(of(BEFORE, AFTER + many)["series"])
    assert names[0] == 'vllm_omni:audio_ttfp_s{stage="2"}' and len(names) == MAX_SERIES


def test_what_a_histogram_observed_in_between():
    two = 'x_s_count{stage="0"} 1\nx_s_sum{stage="0"} 2\nx_s_count{stage="1"} 3\nx_s_sum{stage="1"} 4\n'
    before, after = (Scrape(parse(text)) for text in (BEFORE, AFTER + "# TYPE x_s histogram\n" + two))
    assert observed(before, after, "vllm_omni:audio_ttfp_s") == (4, 0.25)
    assert observed(before, after, "x_s") == (4, 1.5), "all labels together"
    assert observed(before, after, "vllm_omni:audio_rtf") is None
    assert observed(after, before, "vllm_omni:audio_ttfp_s") is None, "started anew"
    assert observed(after, after, "vllm_omni:audio_ttfp_s") is None, "nothing was"
    assert observed(Scrape({}, "HTTP 500"), after, "vllm_omni:audio_ttfp_s") is None, "not known how much before"


def test_nothing_moved():
    assert of(BEFORE, BEFORE)["series"] == {}
    assert preemptions(of(BEFORE, BEFORE)) == 0


def test_a_server_that_was_started_anew_has_no_increase():
    found = of(AFTER, BEFORE)["series"]
    assert found['vllm:num_preemptions{engine="0",model_name="m"}'] == {"increase": None}
    assert found['vllm_omni:audio_ttfp_s{stage="2"}'] == {"count": None, "sum": None, "mean": None}
    assert preemptions(of(AFTER, BEFORE)) == 0


def test_numbers_that_json_does_not_have_are_left_out():
    found = of("", 'a NaN\nb +Inf\nc 1\n# TYPE q summary\nq{quantile="0.5"} 3\nq_sum 4\nq_count 2\n')
    assert found["series"] == {"c": {"before": None, "after": 1.0}, "q": {"count": 2.0, "sum": 4.0, "mean": 2.0}}
    json.dumps(found, allow_nan=False)


HUGE = [str(2**64 - 1), str(2**63), "-1e300", "9" * 400, "9" * 5000, "1e400", "NaN"]


@pytest.mark.parametrize("huge", HUGE, ids=lambda text: text[:20])
def test_a_number_that_run_json_cannot_hold_costs_its_own_series_alone(huge):
    kinds = "# TYPE g gauge\n# TYPE n_total counter\n# TYPE h histogram\n"
    small = f"{kinds}g 1\nn_total 1\nh_count 1\nh_sum 1\nok_total 1\nlarge_total {2**60}\n"
    large = f"{kinds}g {huge}\nn_total {huge}\nh_count {huge}\nh_sum 1\nok_total 3\nlarge_total {2**60 + 1024}\n"
    kept = {"ok_total": {"increase": 2.0}, "large_total": {"increase": 1024.0}}
    for before, after in ((small, large), (large, small.replace("ok_total 1", "ok_total 5"))):
        found = of(before, after)["series"]
        assert found.keys() == kept.keys() and json.dumps(found, allow_nan=False)
    assert of(small, large)["series"] == kept
    assert observed(Scrape(parse(small)), Scrape(parse(large)), "h") is None


def test_an_untyped_counter_is_known_by_its_ending():
    assert of("x_total 1\n", "x_total 4\n")["series"] == {"x_total": {"increase": 3.0}}


def test_too_many_series_are_counted_and_long_labels_cut():
    text = "".join(f'many{{n="{number:05d}"}} 1\n' for number in range(MAX_SERIES + 7))
    found = of("", text)
    assert len(found["series"]) == MAX_SERIES and found["left_out"] == 7
    (name,) = of("", f'long{{path="{"x" * 1000}"}} 1\n')["series"]
    assert len(name) < 150


def test_one_scrape_that_failed_is_told():
    found = differences(Scrape({}), Scrape({}, "HTTP 404"))
    assert found == {"problem": "HTTP 404", "series": {}, "left_out": 0, "cut": None}
    assert differences(Scrape({}, "no"), Scrape({}))["problem"] == "no"


@pytest.fixture
def serve():
    servers = []

    def start(body, status=200):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status if self.path == "/metrics" else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_server_is_scraped(serve):
    assert scrape(serve(AFTER.encode())).series == parse(AFTER)


@pytest.mark.parametrize(
    "body", [b"<html><body>hello</body></html>", b"a{b 1\n", b"\xff\xfe{} x y z\n", b'a{b="c} 1\n']
)
def test_what_is_no_exposition_is_told(serve, body):
    found = scrape(serve(body))
    assert found.series == {} and found.problem.startswith("not in Prometheus' text form")


def test_no_metrics_at_all(serve):
    assert scrape(serve(b"", 404)).problem == "HTTP 404"
    assert scrape("http://127.0.0.1:1").problem


@pytest.fixture
def bound(monkeypatch):
    """``bound(n)``: no more than ``n`` bytes of an answer are read."""

    def set_to(limit_bytes):
        monkeypatch.setattr(probe, "MAX_BODY_BYTES", limit_bytes)
        monkeypatch.setattr(server_metrics, "MAX_BODY_BYTES", limit_bytes)

    return set_to


def test_a_huge_exposition_is_read_to_its_bound_and_that_is_told(serve, bound):
    assert server_metrics.MAX_BODY_BYTES == probe.MAX_BODY_BYTES == 1 << 20
    bound(2000)
    line = b'huge{n="%06d"} 1\n'
    found = scrape(serve(b"".join(line % number for number in range(500))))
    assert found.problem is None and found.is_cut and len(found.series) == 2000 // len(line % 0)
    whole = scrape(serve(line % 0))
    assert not whole.is_cut
    told = "only the first 2000 bytes of /metrics were read"
    assert differences(whole, found)["cut"] == f"{told} after the levels"
    assert differences(found, whole)["cut"] == f"{told} before the levels"
    assert differences(found, found)["cut"] == f"{told} before and after the levels"
    assert differences(whole, whole)["cut"] is None
    assert json.dumps(differences(found, found))


def test_half_a_line_is_no_number(serve, bound):
    """Wherever the bound falls, even where what is left of a number is a number."""
    first, last = b"a_total 1\n", b'x_total{a="b"} 1234567890\n'
    url = serve(first + last)
    for cut_at in range(len(last)):
        bound(len(first) + cut_at)
        found = scrape(url)
        assert found.is_cut and set(found.series) == {"a_total"} and found.problem is None, cut_at


def test_half_a_distribution_is_none(serve, bound):
    whole = b"# TYPE a histogram\na_count 3\na_sum 1\n# TYPE x histogram\nx_count 6\n"
    bound(len(whole))
    found = scrape(serve(whole + b"x_sum 1.5\n"))
    assert found.is_cut and set(found.series) == {"a"}


def test_a_series_that_may_have_been_cut_off_has_no_difference():
    before, after = Scrape(parse(BEFORE)), Scrape(parse(AFTER))
    first_lines = Scrape(parse(BEFORE.partition("# TYPE vllm_omni:")[0]), is_cut=True)
    found = differences(first_lines, after)
    assert set(found["series"]) == {'vllm:num_preemptions{engine="0",model_name="m"}'}
    assert preemptions(found) == 3
    found = differences(before, first_lines)
    assert found["series"] == {} and found["cut"]


@pytest.mark.parametrize(
    "bad",
    [
        'gauge_x{job-id="b-1",sender="me",} 0.5 1566410129000',
        "broken_value ARRAY(0x55)",
        "# TYPE good_total counter\n# TYPE good_total counter\n# HELP good_total again",
        'lonely{a="b"}',
        'x{a="b"c"} 1',
        'h_bucket{le="1"} 3 # {trace_id="x"} 0.5 1566410129.0',
    ],
)
def test_one_bad_line_keeps_the_rest(serve, bad):
    """A label name that Prometheus does not allow, an array, an exemplar (benchmark-ai issue 759)."""
    preempted = "# TYPE vllm_num_preemptions_total counter\nvllm_num_preemptions_total %d\n"
    text = f"# TYPE good_total counter\ngood_total %d\n{bad}\n{preempted}"
    before, after = scrape(serve((text % (1, 0)).encode())), scrape(serve((text % (4, 2)).encode()))
    found = differences(before, after)
    assert found["problem"] is None and preemptions(found) == 2
    (good,) = [one for name, one in found["series"].items() if name.startswith("good")]
    assert good["increase"] == 3
    assert not after.bad_lines or "cannot be read, such as" in found["cut"]
