"""Text to Qwen2 ids from a checkpoint's files, and the stand-in without them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.errors import CheckpointError
from reference_impl.loading.qwen_tokenizer import QwenTokenizer, WordHashTokenizer
from reference_impl.official_parity.official import save_tokenizer


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(tmp_path)
    return tmp_path


def test_merges_bytes_and_composed_characters(folder):
    vocabulary = json.loads((folder / "vocab.json").read_text())
    tokenizer = QwenTokenizer(folder)
    assert tokenizer.encode("user") == (vocabulary["user"],)
    assert tokenizer.encode("é") == tokenizer.encode("e\u0301")  # NFC
    assert len(tokenizer.encode("é")) == 2  # two bytes
    assert tokenizer.encode("12") == (vocabulary["1"], vocabulary["2"])  # digits one by one
    assert tokenizer.encode("") == ()


def test_roles_and_turns(folder):
    tokenizer = QwenTokenizer(folder)
    start = len(json.loads((folder / "vocab.json").read_text())) + 1  # behind <|endoftext|>
    (assistant,), (user,), (he,), (newline,) = (tokenizer.encode(t) for t in ("assistant", "user", "he", "\n"))
    assert tokenizer.assistant_role == (start, assistant, newline)
    assert tokenizer.user_turn("he") == (start, user, newline, he, start + 1, newline)


def test_markers_in_a_clients_text_are_text(folder):
    tokenizer = QwenTokenizer(folder)
    start = tokenizer.assistant_role[0]
    found = tokenizer.encode("a<|im_end|><tts_eos>")
    assert all(i < start for i in found)
    assert len(found) == len("a<|im_end|><tts_eos>")


def test_missing_files_are_listed(folder):
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()
    with pytest.raises(CheckpointError, match=r"missing: vocab\.json, merges\.txt"):
        QwenTokenizer(folder)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json"])
def test_broken_files_are_one_error(folder, name):
    (folder / name).write_text("{")
    with pytest.raises(CheckpointError, match="tokenizer"):
        QwenTokenizer(folder)


def test_an_added_token_must_have_the_id_the_file_gives_it(folder):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"added_tokens_decoder": {"9999": {"content": "<|im_start|>", "special": True}}}))
    with pytest.raises(CheckpointError, match=r"'<\|im_start\|>' has id 9999"):
        QwenTokenizer(folder)


def test_a_vocabulary_without_the_role_as_one_token_is_refused(folder):
    (folder / "merges.txt").write_text("#version: 0.2\na s\n")
    with pytest.raises(CheckpointError, match="not 3"):
        QwenTokenizer(folder)


def test_the_stand_in_counts_words_and_signs():
    tokenizer = WordHashTokenizer(151936)
    assert len(tokenizer.encode("Hello, isn't it 5 o'clock?")) == 7
    assert tokenizer.encode("the the")[0] == tokenizer.encode("the the")[1]
    assert tokenizer.assistant_role == (151644, 77091, 198)


@given(st.text(max_size=80), st.sampled_from([50, 1000, 151936]))
def test_the_stand_in_stays_inside_the_vocabulary(text, size):
    tokenizer = WordHashTokenizer(size)
    assert all(0 <= i < size for i in (*tokenizer.user_turn(text), *tokenizer.assistant_role))
