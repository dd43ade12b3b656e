"""Files of weights: several read as one, and checked against their SHA-256."""

import hashlib
import io

import pytest

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
