"""What can be the address of a server, and the endpoints under it."""

from __future__ import annotations

import pytest

from omni_bench.load.clients.urls import server_root, speech_url, url_problem


@pytest.mark.parametrize("base", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1//v1"])
@pytest.mark.parametrize("endpoint", ["", "/audio/speech", "/audio/speech/stream/", "/chat/completions"])
def test_an_address_is_taken_with_or_without_v1_and_an_endpoint(base, endpoint):
    base = base.rstrip("/") + endpoint if base.rstrip("/").endswith("/v1") else base
    assert server_root(base) == "http://h:1"
    assert speech_url(base) == "http://h:1/v1/audio/speech"


def test_a_path_before_v1_stays():
    assert speech_url("https://h/tts/v1/") == "https://h/tts/v1/audio/speech"
    assert server_root("https://h/tts-v1") == "https://h/tts-v1"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8091", "https://h/tts/v1/", "http://[::1]:80", "http://h/a@b"])
def test_addresses_of_servers(url):
    assert url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "not an http or https URL"),
        ("127.0.0.1:8091", "not an http or https URL"),
        ("ftp://h", "not an http or https URL"),
        ("http://", "not an http or https URL"),
        ("http://h:0", "not an http or https URL"),
        ("http://h:x", "not an http or https URL"),
        ("http://h :1", "not an http or https URL"),
        ("http://h:1\n", "not an http or https URL"),
        ("http://h?x=1", "without '?' or '#'"),
        ("http://h#x", "without '?' or '#'"),
    ],
)
def test_what_is_wrong_is_said(url, problem):
    assert problem in url_problem(url)


@pytest.mark.parametrize(
    "url", ["http://me:secret@h:1", "https://secret@h", "http://me:secret@h:x", "ftp://me:secret@h", "http://@h"]
)
def test_a_password_is_refused_and_not_repeated(url):
    problem = url_problem(url)
    assert problem is not None and "secret" not in problem


def test_where_a_key_belongs_is_said():
    assert "client.api_key_env" in url_problem("http://me:secret@h:1")


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("http://::1:8191", "http://[::1]:8191"),
        ("http://::1", "http://[::1]"),
        ("https://2001:db8::7:8000/v1", "https://[2001:db8::7]:8000/v1"),
        ("localhost:8091", "http://localhost:8091"),
        ("[::1]:8091/v1", "http://[::1]:8091/v1"),
        ("http://a:b:c", None),
        ("me:secret@h:1", None),
    ],
)
def test_an_address_without_scheme_or_brackets_gets_them(url, meant):
    assert url_problem(url).partition("; did you mean ")[2] == (f"{meant}?" if meant else "")
