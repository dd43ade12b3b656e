"""The meta.lst reader: what it accepts, what it refuses, and how it says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.datasets.seed_tts import MetaRow, parse_meta, read_seed_tts
from omni_bench.datasets.source import bad_text, id_key
from omni_bench.errors import DatasetError

FIELD = (
    st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="|#\u2028\u2029"), max_size=30)
    .map(str.strip)
    .filter(lambda text: bad_text(text, "text") is None)
)


def make_set(root: Path, meta: str | bytes, wavs: tuple[str, ...] = (), locale: str = "en") -> Path:
    folder = root / locale
    (folder / "prompt-wavs").mkdir(parents=True)
    for name in wavs:
        (folder / name).write_bytes(b"RIFF")
    (folder / "meta.lst").write_bytes(meta.encode() if isinstance(meta, str) else meta)
    return root


def take_all(source):
    return [source.take(i) for i in range(len(source.ids))]


def test_reads_rows_comments_blank_lines_and_extra_fields(tmp_path):
    meta = "# a comment\n\na1|Ref one.|prompt-wavs/r.wav|Say this.|truth.wav\r\n  \n b2 | |  | Then that. \n"
    root = make_set(tmp_path, meta, ("prompt-wavs/r.wav",))
    first, second = take_all(read_seed_tts(root, "en"))
    assert (first.id, first.text, first.ref_text, first.language) == ("a1", "Say this.", "Ref one.", "en")
    assert first.ref_audio == (root / "en/prompt-wavs/r.wav").resolve()
    assert (second.id, second.text, second.ref_text, second.ref_audio) == ("b2", "Then that.", None, None)


def test_the_fifth_field_of_the_design_variant_is_the_instruction(tmp_path):
    root = make_set(tmp_path, "a1|||Say this.|An old man, slowly.\nb2|Ref.|../no.wav|Then that.|Low.\n")
    first, second = take_all(read_seed_tts(root, "en", design=True))
    assert (first.text, first.instructions) == ("Say this.", "An old man, slowly.")
    # there are no recordings in this variant, whatever stands in the field
    assert (second.ref_text, second.ref_audio, second.instructions) == (None, None, "Low.")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x|||text", ["line 1", "4 field(s), needs 5 (id|ref_text|wav|text|instructions)"]),
        ("x|||text| ", ["line 1", "instructions is empty"]),
        ("x|||a|b|slowly", ["line 1", "6 field(s), needs 5"]),
        ("x|||text|a\x07b", ["line 1", "instructions holds the control character"]),
    ],
)
def test_a_row_without_an_instruction_is_bad_in_the_design_variant(tmp_path, line, words):
    with pytest.raises(DatasetError) as caught:
        read_seed_tts(make_set(tmp_path, f"{line}\n"), "en", design=True)
    for word in words:
        assert word in str(caught.value)


def test_a_chinese_set_is_a_locale_of_its_own(tmp_path):
    root = make_set(tmp_path, "a1|参考文本。|prompt-wavs/r.wav|今天天气很好。\n", ("prompt-wavs/r.wav",), locale="zh")
    (prompt,) = take_all(read_seed_tts(root, "zh"))
    assert (prompt.text, prompt.ref_text, prompt.language) == ("今天天气很好。", "参考文本。", "zh")
    assert prompt.ref_audio == (root / "zh/prompt-wavs/r.wav").resolve() and prompt.instructions is None


def test_byte_order_mark_and_unicode_line_separators(tmp_path):
    meta = b"\xef\xbb\xbf" + "x|r||one\u2028two\x85three\n".encode()
    (row,) = parse_meta(meta, "m")
    assert row == MetaRow(1, "x", "r", None, "one\u2028two\x85three")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("one", ["line 2", "1 field(s)", "'one'"]),
        ("x|one|two", ["line 2", "3 field(s)", "id|text|wav"]),
        ("x|r||text|a.wav|more", ["line 2", "6 fields, of which the text cannot be told"]),
        ("x|r | e||text|a.wav", ["line 2", "6 fields, of which"]),
        ("#x|r||text", ["line 2", "a comment begins with '# '"]),
        ("|r||text", ["line 2", "id is empty"]),
        ("x|r|| ", ["line 2", "text is empty"]),
        ("x|r||\u200b \u00ad\ufeff", ["line 2", "text is empty"]),
        *((f"x|r||{text}", ["line 2", "text is empty", "U+"]) for text in "\u3164\u115f\ufe0f\u0301\u2800"),
        ("x|r||\u3164 \u0301", ["line 2", "text is empty: U+3164, U+0301 cannot be seen"]),
        ("\ufeffx|r||text", ["line 2", "id", "U+FEFF"]),
        ("o\u200bk|r||text", ["line 2", "id", "U+200B"]),
        ("o\u3164k|r||text", ["line 2", "id", "U+3164"]),
        ("ok\u200c|r||again", ["line 2", "already used on line 1"]),
        ("ok\ufe0f|r||again", ["line 2", "already used on line 1"]),
        ("e\u0301|r||a\n\u00e9|r||b", ["line 3", "already used on line 2"]),
        ("ok|r||again", ["line 2", "'ok'", "line 1"]),
        ("x|r|nowhere.wav|text", ["line 2", "no file 'nowhere.wav'"]),
        ("x|r|../outside.wav|text", ["line 2", "leaves the data folder"]),
        ("x|r|/etc/hostname|text", ["line 2", "leaves the data folder"]),
        ("x|r|prompt-wavs|text", ["line 2", "no file"]),
        ("x|r|a\0b.wav|text", ["line 2", "NUL"]),
        ("x|r|" + "n" * 5000 + ".wav|text", ["line 2", "cannot be read"]),
        ("x|r||te\x07xt", ["line 2", "control character", "\\x07"]),
        ("x|r||te\x9bxt", ["line 2", "control character", "\\x9b"]),
        pytest.param(f"x|r||{'a' * 100_001}", ["line 2", "text has 100001 characters"], id="long"),
        ("x|r\x1bq||text", ["line 2", "ref_text", "control character"]),
    ],
)
def test_bad_row_is_named_with_its_line(tmp_path, line, words):
    (tmp_path / "outside.wav").write_bytes(b"RIFF")
    root = make_set(tmp_path / "set", f"ok|r||fine\n{line}\n")
    (tmp_path / "set/outside.wav").write_bytes(b"RIFF")
    with pytest.raises(DatasetError) as caught:
        read_seed_tts(root, "en")
    for word in [*words, "meta.lst"]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("x|Say this.", ("x", None, None, "Say this.")),
        ("x.wav|Say this.|a.wav", ("x.wav", None, "a.wav", "Say this.")),
        ("x|Ref.|a.wav|Say this.|b.flac", ("x", "Ref.", "a.wav", "Say this.")),
        ("x|Ref.|a.wav|Choose A | B | C.", ("x", "Ref.", "a.wav", "Choose A | B | C.")),
        ("x|Ref.|a.wav|Choose A | B", ("x", "Ref.", "a.wav", "Choose A | B")),
        ("#001|Ref.|a.wav|Say this.", ("#001", "Ref.", "a.wav", "Say this.")),
    ],
)
def test_the_forms_of_public_lists_are_read_whole(line, row):
    (found,) = parse_meta(f"# id|text\n#note\n{line}\n".encode(), "list")
    assert (found.id, found.ref_text, found.wav, found.text) == row


def test_a_list_may_have_another_name(tmp_path):
    root = make_set(tmp_path, "a|One.\n")
    (root / "en/meta.lst").rename(root / "en/hardcase.lst")
    assert read_seed_tts(root, "en").ids == read_seed_tts(root / "en/hardcase.lst", "zh").ids == ("a",)
    (root / "en/other.lst").write_text("b|Two.\n")
    with pytest.raises(DatasetError, match=r"there are hardcase.lst, other.lst: set dataset.root to one of them"):
        read_seed_tts(root, "en")


@pytest.mark.parametrize("root", ["", "en/meta.lst"])
def test_a_pipe_is_no_list_and_is_not_waited_for(tmp_path, root):
    (tmp_path / "en").mkdir()
    os.mkfifo(tmp_path / "en" / "meta.lst")
    with pytest.raises(DatasetError, match="no file"):
        read_seed_tts(tmp_path / root, "en")


def test_bad_utf8_is_a_bad_row(tmp_path):
    root = make_set(tmp_path, b"ok|r||fine\nx|r||caf\xe9\n")
    with pytest.raises(DatasetError, match=r"line 2: not UTF-8 \(byte 9"):
        read_seed_tts(root, "en")


def test_lists_ten_bad_rows_and_counts_the_others(tmp_path):
    root = make_set(tmp_path, "".join(f"row{i}\n" for i in range(14)))
    with pytest.raises(DatasetError) as caught:
        read_seed_tts(root, "en")
    message = str(caught.value)
    assert "14 bad row(s)" in message and "and 4 more" in message
    assert "line 10:" in message and "line 11:" not in message


def test_an_empty_design_set_says_what_a_row_is(tmp_path):
    with pytest.raises(DatasetError, match=r"has no rows; a row is id\|ref_text\|wav\|text\|instructions"):
        read_seed_tts(make_set(tmp_path, "# nothing\n"), "en", design=True)


def test_link_that_leaves_the_folder_is_refused(tmp_path):
    secret = tmp_path / "secret.wav"
    secret.write_bytes(b"RIFF")
    root = make_set(tmp_path / "set", "x|r|prompt-wavs/link.wav|text\n")
    os.symlink(secret, root / "en/prompt-wavs/link.wav")
    with pytest.raises(DatasetError, match="leaves the data folder"):
        read_seed_tts(root, "en")


def test_loop_of_links_is_a_bad_row(tmp_path):
    root = make_set(tmp_path, "x|r|loop.wav|text\n")
    os.symlink("loop.wav", root / "en/loop.wav")
    with pytest.raises(DatasetError, match="line 1: wav"):
        read_seed_tts(root, "en")


def test_link_inside_the_folder_is_fine(tmp_path):
    root = make_set(tmp_path, "x|r|alias.wav|text\n", ("prompt-wavs/real.wav",))
    os.symlink("prompt-wavs/real.wav", root / "en/alias.wav")
    assert read_seed_tts(root, "en").take(0).ref_audio.name == "real.wav"


def test_missing_folder_locale_and_rows(tmp_path):
    for none in (tmp_path / "none", "~nobody-of-that-name/x"):
        with pytest.raises(DatasetError, match="no file or folder"):
            read_seed_tts(none, "en")
    root = make_set(tmp_path, "# nothing\n")
    with pytest.raises(DatasetError, match="has no rows"):
        read_seed_tts(root, "en")
    with pytest.raises(DatasetError, match=r"locales in .*: en"):
        read_seed_tts(root, "zh")


@pytest.mark.parametrize("locale", ["..", "en/../..", "", "/etc", "a b"])
def test_locale_is_a_name_not_a_path(tmp_path, locale):
    make_set(tmp_path, "x|r||text\n")
    with pytest.raises(DatasetError, match=r"dataset\.locale"):
        read_seed_tts(tmp_path, locale)


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_any_bytes_give_rows_or_a_dataset_error(data):
    try:
        rows = parse_meta(data, "fuzz")
    except DatasetError:
        return
    assert rows and all(row.id and row.text for row in rows)


@given(st.lists(st.lists(st.sampled_from(["a", "|", "\n", "#", " ", "\r", "\0", "é", ".."]), max_size=12), max_size=8))
@settings(max_examples=200)
def test_any_rows_never_crash(lines):
    try:
        parse_meta("\n".join("".join(line) for line in lines).encode(), "fuzz")
    except DatasetError as error:
        assert "fuzz" in str(error)


@given(
    st.lists(
        st.tuples(FIELD.filter(lambda field: bad_text(field, "id") is None), FIELD, FIELD, FIELD),
        min_size=1,
        max_size=8,
        unique_by=lambda row: id_key(row[0]),
    )
)
@settings(max_examples=100)
def test_round_trip(rows):
    data = "".join(f"{'|'.join(row)}\n" for row in rows).encode()
    parsed = parse_meta(data, "round trip")
    assert [(row.id, row.ref_text, row.wav, row.text) for row in parsed] == rows


@pytest.mark.parametrize("locale", ["my-set 1", "en.v2", "../en", "_x", "é"])
def test_a_folder_that_cannot_be_a_locale_is_reached_by_its_list(tmp_path, locale):
    root = make_set(tmp_path, "a|One.\n")
    (root / "en").rename(root / "en.v2")
    with pytest.raises(DatasetError, match=r"letters, digits, '-' and '_' only.*dataset.root.*dataset.language.*en.v2"):
        read_seed_tts(root, locale)
    assert read_seed_tts(root / "en.v2/meta.lst", "en").ids == ("a",)
