"""Files of weights: several read as one, and checked against their SHA-256."""

import functools
import hashlib
import io
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from omni_bench.accuracy.asr.weights import files
from omni_bench.accuracy.asr.weights.files import ConcatenatedFiles, sha256_of_files, verify_sha256
from omni_bench.errors import AccuracyError


def test_parts_read_as_one_file_with_empty_parts_between(tmp_path):
    paths = []
    for index, data in enumerate((b"abc", b"", b"defg", b"h")):
        paths.append(tmp_path / f"part{index}")
        paths[-1].write_bytes(data)
    with io.BufferedReader(ConcatenatedFiles(paths)) as stream:
        assert stream.read(5) == b"abcde"
        assert stream.read() == b"fgh"
    assert sha256_of_files(paths) == hashlib.sha256(b"abcdefgh").hexdigest()


def test_another_hash_is_refused_with_both_hashes_and_the_advice(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"other")
    found, expected = hashlib.sha256(b"other").hexdigest(), hashlib.sha256(b"expected").hexdigest()
    with pytest.raises(AccuracyError) as caught:
        verify_sha256([path], expected, "Delete it.")
    for part in (str(path), found, expected, "Delete it."):
        assert part in str(caught.value)
    verify_sha256([path], found, "")


def test_a_missing_part_is_an_accuracy_error(tmp_path):
    with pytest.raises(AccuracyError, match="nowhere"):
        sha256_of_files([tmp_path / "nowhere"])


# --- downloads: whole and checked, or not there at all


DATA = b"weights" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Keep the test's output quiet."""


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "tiny.pt").write_bytes(DATA)
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder))) as http_server:
        thread = threading.Thread(target=http_server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join()


def test_a_good_file_arrives_whole(server, tmp_path):
    target = tmp_path / "new" / "cache" / "tiny.pt"
    files.download_weights(f"{server}/tiny.pt", SHA256, target)
    assert target.read_bytes() == DATA
    assert [path.name for path in target.parent.iterdir()] == ["tiny.pt"]


@pytest.mark.parametrize(
    ("path", "sha256", "message"),
    [
        ("tiny.pt", "0" * 64, f"{SHA256}, expected 0000"),
        ("missing.pt", SHA256, "404"),
        ("tiny.pt\x00", SHA256, "cannot"),
    ],
)
def test_a_bad_download_leaves_the_cache_as_it_was(server, tmp_path, path, sha256, message):
    target = tmp_path / "cache" / "tiny.pt"
    target.parent.mkdir()
    target.write_bytes(b"what was there before")
    with pytest.raises(AccuracyError, match=message):
        files.download_weights(f"{server}/{path}", sha256, target)
    assert [(file.name, file.read_bytes()) for file in target.parent.iterdir()] == [
        ("tiny.pt", b"what was there before")
    ]


def test_a_download_without_end_is_stopped(server, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    with pytest.raises(AccuracyError, match="more than 100 bytes"):
        files.download_weights(f"{server}/tiny.pt", SHA256, tmp_path / "tiny.pt")
    assert not list(tmp_path.glob("*tiny.pt*"))


def test_no_network_is_an_accuracy_error(tmp_path):
    with pytest.raises(AccuracyError, match=r"cannot download http://127\.0\.0\.1:9/tiny\.pt: .*refused"):
        files.download_weights("http://127.0.0.1:9/tiny.pt", SHA256, tmp_path / "tiny.pt")


def test_a_cache_that_cannot_be_written_is_an_accuracy_error(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AccuracyError, match="cannot download"):
        files.download_weights(f"{server}/tiny.pt", SHA256, tmp_path / "file" / "tiny.pt")
