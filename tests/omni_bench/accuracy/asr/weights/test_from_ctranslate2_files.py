"""Reading CTranslate2 files: every type, and every kind of damage."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.accuracy.asr.weights.from_ctranslate2 import read_model
from omni_bench.errors import AccuracyError

VARIABLES = {
    "a/weight": np.arange(6, dtype=np.float16).reshape(2, 3),
    "a/bias": np.array([1.5, -2.0], dtype=np.float32),
    "heads": np.int16(6),
    "flag": np.int8(1),
    "empty": np.zeros((0, 4), dtype=np.int32),
}


def read(data: bytes):
    return read_model(io.BytesIO(data), len(data), "model.bin")


def test_reads_every_type_and_shape_and_follows_aliases(ct2_bytes):
    model = read(ct2_bytes(VARIABLES, [("tied", "a/weight"), ("tied again", "tied")]))
    assert (model.spec_name, model.revision) == ("WhisperSpec", 3)
    for name, array in VARIABLES.items():
        np.testing.assert_array_equal(model.variables[name], array)
        assert model.variables[name].dtype == np.asarray(array).dtype
    assert model.variables["tied"] is model.variables["a/weight"]
    assert model.variables["tied again"] is model.variables["a/weight"]


def test_every_truncation_is_refused(ct2_bytes):
    data = ct2_bytes(VARIABLES, [("tied", "a/weight")])
    for length in range(len(data)):
        with pytest.raises(AccuracyError, match=r"model\.bin"):
            read(data[:length])


def test_a_file_shorter_than_it_was_said_to_be_is_refused(ct2_bytes):
    data = ct2_bytes(VARIABLES)
    with pytest.raises(AccuracyError, match="the file ended after"):
        read_model(io.BytesIO(data[:-30]), len(data), "model.bin")


def test_bytes_after_the_end_are_refused(ct2_bytes):
    with pytest.raises(AccuracyError, match="1 bytes are left"):
        read(ct2_bytes(VARIABLES) + b"\0")


def test_other_versions_are_refused_by_number(ct2_bytes):
    with pytest.raises(AccuracyError, match=r"binary version 5.*only version 6"):
        read(ct2_bytes(VARIABLES, version=5))


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ([("tied", "nothing")], "'nothing', which is not in the file"),
        ([("flag", "heads")], "has the name of another variable"),
    ],
)
def test_bad_aliases_are_refused(ct2_bytes, aliases, message):
    with pytest.raises(AccuracyError, match=message):
        read(ct2_bytes(VARIABLES, aliases))


def test_a_repeated_variable_is_refused(ct2_bytes):
    data = ct2_bytes({"twice": np.int8(1), "other": np.int8(1)}).replace(b"other\0", b"twice\0")
    with pytest.raises(AccuracyError, match="'twice' appears twice"):
        read(data)


def corrupted_single(ct2_bytes, offset_from_type: int, replacement: bytes) -> bytes:
    """One float32 vector of two, with bytes replaced relative to its data type byte."""
    data = bytearray(ct2_bytes({"x": np.zeros(2, dtype=np.float32)}))
    at = data.index(b"x\0") + 2 + 1 + 4 + offset_from_type
    data[at : at + len(replacement)] = replacement
    return bytes(data)


@pytest.mark.parametrize(
    ("offset", "replacement", "message"),
    [
        (0, b"\x05", r"data type 5, valid are \[0, 1, 2, 3, 4\]"),
        (1, struct.pack("<I", 7), "needs 8 bytes, the file says 7"),
        (-4, struct.pack("<I", 0xFFFFFFFF), "needs 17179869180 bytes, the file says 8"),
        (-5, b"\xff", "rank 255"),
    ],
)
def test_corrupt_fields_are_named(ct2_bytes, offset, replacement, message):
    with pytest.raises(AccuracyError, match=message):
        read(corrupted_single(ct2_bytes, offset, replacement))


def test_a_count_beyond_reason_is_refused_before_anything_is_read():
    head = struct.pack("<IH", 6, 2) + b"s\0" + struct.pack("<II", 1, 0xFFFFFFFF)
    with pytest.raises(AccuracyError, match="4294967295 variables"):
        read(head)


@pytest.mark.parametrize("name", [b"no end", b"\xff\0", b"in\0side\0"])
def test_strings_that_are_none_are_refused(name):
    with pytest.raises(AccuracyError, match="ASCII string"):
        read(struct.pack("<IH", 6, len(name)) + name)


@settings(max_examples=300)
@given(st.data())
def test_no_corruption_raises_anything_else(data):
    whole = bytearray(
        struct.pack("<IH", 6, 2) + b"s\0" + struct.pack("<II", 1, 1) + struct.pack("<H", 2) + b"x\0"
        b"\x01" + struct.pack("<IBI", 2, 0, 8) + bytes(8) + struct.pack("<IH", 1, 2) + b"y\0\x02\0x\0"
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        model = read(bytes(whole))
    except AccuracyError:
        return
    assert all(array.size <= 8 for array in model.variables.values())
