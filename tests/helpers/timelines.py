"""Hand-made timelines: times in ms after a base, chunks in samples."""

from omni_bench.records.timeline import RequestError, Timeline

BASE_NS = 5_000_000_000
RATE_HZ = 24_000


def make_timeline(
    request_id="r",
    started=0.0,
    ended=1000.0,
    chunks=(),
    failed=None,
    scheduled=None,
    concurrency=1,
    rate_hz=RATE_HZ,
    extra_bytes=0,
    ends=(),
):
    """A timeline by hand: ``chunks`` are (arrival ms, samples); ``failed``: the kind of error, or None."""

    def ns(milliseconds):
        return BASE_NS + round(milliseconds * 1e6)

    arrived = tuple(ns(at) for at, _ in chunks)
    sizes = [samples * 2 for _, samples in chunks]
    if sizes:
        sizes[-1] += extra_bytes
    return Timeline(
        request_id=request_id,
        prompt_id=f"prompt of {request_id}",
        concurrency=concurrency,
        seed=0,
        scheduled_ns=ns(started if scheduled is None else scheduled),
        started_ns=ns(started),
        headers_ns=arrived[0] if arrived else None,
        first_byte_ns=arrived[0] if arrived else None,
        first_audio_ns=arrived[0] if arrived else None,
        ended_ns=None if failed else ns(ended),
        failed_ns=ns(ended) if failed else None,
        chunk_arrived_ns=arrived,
        chunk_bytes=tuple(sizes),
        sample_rate_hz=rate_hz,
        sample_width_bytes=2,
        http_status=200,
        error=RequestError(failed, "made up") if failed else None,
        chunk_ends=tuple(ends),
    )
