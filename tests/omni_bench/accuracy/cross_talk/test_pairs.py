"""Who can be heard in whose output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omni_bench.accuracy.cross_talk.pairs import EARLIER, IN_FLIGHT, REFERENCE, TARGET, Neighbours, Request


def request(name, started, finished, text=None, *, reference="", concurrency=2):
    target = tuple((name if text is None else text).split())
    return Request(name, concurrency, started, finished, target, tuple(reference.split()))


def names(requests):
    return [one.request_id for one in requests]


def test_overlap_is_in_flight_and_touching_is_not():
    a, b, c, d = request("a", 0, 10), request("b", 9, 20), request("c", 10, 12), request("d", 30, 40)
    found = Neighbours([d, c, b, a])
    assert names(found.in_flight_with(a)) == ["b"]
    assert names(found.in_flight_with(b)) == ["a", "c"]
    assert names(found.in_flight_with(d)) == []


def test_as_many_earlier_ones_as_there_are_slots():
    requests = [request(name, 10 * i, 10 * i + 10, concurrency=1) for i, name in enumerate("abc")]
    assert names(Neighbours(requests).earlier_than(requests[2])) == ["b"]
    two = [request(name, 10 * i, 10 * i + 10) for i, name in enumerate("abc")]
    assert names(Neighbours(two).earlier_than(two[2])) == ["b", "a"]
    assert names(Neighbours(two).earlier_than(two[0])) == []


def test_requests_that_were_never_sent_are_no_sources():
    a, never = request("a", 0, 10), request("never", 5, 5)
    assert Neighbours([a, never]).sources_of(a) == []


def test_sources_have_kind_and_relation():
    old, a, b = request("old", 0, 5), request("a", 10, 20, reference="own ref"), request("b", 15, 30, reference="b ref")
    found = {(s.request_id, s.kind, s.relation) for s in Neighbours([old, a, b]).sources_of(a)}
    assert found == {
        ("b", TARGET, IN_FLIGHT),
        ("b", REFERENCE, IN_FLIGHT),
        ("a", REFERENCE, IN_FLIGHT),
        ("old", TARGET, EARLIER),
    }


def test_a_text_is_compared_once_and_all_its_requests_are_named():
    requests = [request("a", 0, 10, "one"), *(request(name, 1, 9, "two") for name in "bcd")]
    (source,) = Neighbours(requests).sources_of(requests[0])
    assert source.request_id == "b" and source.also == ("c", "d")


def test_the_own_reference_goes_before_the_same_of_another():
    a, b = request("a", 0, 10, reference="shared"), request("b", 0, 10, reference="shared")
    source = next(s for s in Neighbours([a, b]).sources_of(b) if s.kind == REFERENCE)
    assert source.request_id == "b" and source.also == ("a",)


def test_a_neighbour_with_the_same_text_is_no_source():
    a, b = request("a", 0, 10, "same text"), request("b", 0, 10, "same text")
    assert Neighbours([a, b]).sources_of(a) == []


times = st.tuples(st.integers(0, 50), st.integers(0, 30)).map(lambda pair: (pair[0], sum(pair)))


@given(st.lists(times, min_size=1, max_size=12))
def test_in_flight_is_what_overlaps(intervals):
    requests = [request(f"r{i}", *interval) for i, interval in enumerate(intervals)]
    found = Neighbours(requests)
    sent = [one for one in requests if one.finished_ns > one.started_ns]
    for one in sent:
        expected = {
            o.request_id
            for o in sent
            if o is not one and o.started_ns < one.finished_ns and one.started_ns < o.finished_ns
        }
        assert set(names(found.in_flight_with(one))) == expected
        assert expected.isdisjoint(names(found.earlier_than(one)))
