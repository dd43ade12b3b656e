"""Order, counts, repeats and the hash of the prompts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omni_bench.datasets.load import list_datasets, load_prompts, prompts_sha256, shuffled_order
from omni_bench.errors import DatasetError
from omni_bench.records.config import DatasetConfig


@pytest.fixture
def config(tmp_path):
    folder = tmp_path / "en"
    folder.mkdir()
    rows = "".join(f"p{i}|ref {i}||text number {i}\n" for i in range(10))
    (folder / "meta.lst").write_text(rows, encoding="utf-8")
    return DatasetConfig(kind="seed_tts", name="mine", root=str(tmp_path), seed=3)


def ids(prompts):
    return [prompt.id for prompt in prompts]


def test_order_is_the_documented_one():
    # The digests are those of coreutils: `printf 0:a | sha256sum` begins 9df3c5fa, and so on
    # (0: d 7d98, a 9df3, c be08, b e021, e e078; 1: d 244b, a 4162, e 69a1, b 6f05, c b8a9).
    assert shuffled_order(["a", "b", "c", "d", "e"], 0) == [3, 0, 2, 1, 4]
    assert shuffled_order(["a", "b", "c", "d", "e"], 1) == [3, 0, 4, 1, 2]


def test_same_seed_same_order_and_a_prefix_property(config):
    ten = ids(load_prompts(config, 10))
    assert sorted(ten) == sorted(f"p{i}" for i in range(10))
    assert ids(load_prompts(config, 4)) == ten[:4]
    assert ids(load_prompts(replace(config, seed=4), 10)) != ten


def test_order_does_not_depend_on_the_order_of_the_rows(config, tmp_path):
    before = ids(load_prompts(config, 10))
    meta = tmp_path / "en/meta.lst"
    meta.write_text("".join(reversed(meta.read_text().splitlines(keepends=True))))
    assert ids(load_prompts(config, 10)) == before


def test_without_shuffle_the_order_is_that_of_the_file(config):
    assert ids(load_prompts(replace(config, shuffle=False), 10)) == [f"p{i}" for i in range(10)]


def test_a_subset_is_chosen_by_the_seed_and_no_other_prompt_is_used(config):
    whole = ids(load_prompts(config, 10))
    four = replace(config, subset=4)
    assert ids(load_prompts(four, 4)) == whole[:4]
    assert ids(load_prompts(replace(four, shuffle=False), 4)) == sorted(whole[:4])
    assert set(ids(load_prompts(replace(four, seed=4), 4))) != set(whole[:4])
    repeated = load_prompts(replace(four, allow_repeats=True), 6)
    assert ids(repeated) == [*whole[:4], f"{whole[0]}#2", f"{whole[1]}#2"]


def test_a_subset_has_a_size(config):
    with pytest.raises(DatasetError, match=r"5 prompts are needed but dataset\.subset=4 of .* has 4"):
        load_prompts(replace(config, subset=4), 5)
    with pytest.raises(DatasetError, match=r"dataset\.subset=11: .* has only 10 prompts"):
        load_prompts(replace(config, subset=11), 1)


def test_too_many_prompts_names_both_numbers(config):
    with pytest.raises(DatasetError, match=r"11 prompts .* has 10"):
        load_prompts(config, 11)


@pytest.mark.parametrize("count", [0, -1])
def test_count_must_be_positive(config, count):
    with pytest.raises(DatasetError, match=str(count)):
        load_prompts(config, count)


def test_repeats_start_again_under_new_ids(config):
    prompts = load_prompts(replace(config, allow_repeats=True), 23)
    first = ids(prompts[:10])
    assert ids(prompts) == first + [f"{name}#2" for name in first] + [f"{name}#3" for name in first[:3]]
    assert prompts[10].text == prompts[0].text


def test_repeats_never_take_an_id_that_is_in_the_set(tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en/meta.lst").write_text("a|||one\na#2|||two\na#2#2|||three\n")
    config = DatasetConfig(kind="seed_tts", name="x", root=str(tmp_path), allow_repeats=True)
    names = ids(load_prompts(config, 12))
    assert len(set(names)) == 12


def test_unknown_kind_and_missing_root():
    with pytest.raises(DatasetError, match="valid: bundled, seed_tts, huggingface, random"):
        load_prompts(DatasetConfig(kind="csv", name="x"), 1)
    with pytest.raises(DatasetError, match=r"dataset\.root is empty"):
        load_prompts(DatasetConfig(kind="seed_tts", name="x"), 1)


def test_hash_sees_order_and_text_but_no_path(config, tmp_path):
    prompts = load_prompts(config, 10)
    assert prompts_sha256(prompts) == prompts_sha256(load_prompts(config, 10))
    assert prompts_sha256(prompts) != prompts_sha256(prompts[::-1])
    assert prompts_sha256(prompts) != prompts_sha256([replace(prompts[0], text="other"), *prompts[1:]])
    recording = tmp_path / "a.wav"
    recording.write_bytes(b"one")
    moved = [replace(prompts[0], ref_audio=recording), *prompts[1:]]
    assert prompts_sha256(prompts) == prompts_sha256(moved)


def test_hash_sees_instructions_and_stays_what_it_was_without_them(config):
    prompt = load_prompts(replace(config, shuffle=False), 1)[0]
    # printf '["p0", "text number 0", "en"]\n' | sha256sum
    assert prompts_sha256([prompt]).startswith("ce4f8dc5fcb25c08")
    designed = replace(prompt, instructions="Sing.")
    assert len({prompts_sha256([one]) for one in (prompt, designed, replace(prompt, instructions="Hum."))}) == 3


def test_hash_with_reference_is_of_its_content(config, tmp_path):
    prompt = load_prompts(config, 1)[0]
    one, same, other = tmp_path / "1.wav", tmp_path / "2.wav", tmp_path / "3.wav"
    one.write_bytes(b"sound")
    same.write_bytes(b"sound")
    other.write_bytes(b"noise")
    hashes = [prompts_sha256([replace(prompt, ref_audio=path)], with_reference=True) for path in (one, same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    with pytest.raises(DatasetError, match="cannot read the recording"):
        prompts_sha256([replace(prompt, ref_audio=tmp_path / "gone.wav")], with_reference=True)


def test_list_names_the_bundled_set_with_its_size():
    info = {(entry.name, entry.kind): entry for entry in list_datasets()}
    assert info["seed_tts_mini", "bundled"].prompts >= 200
    assert {kind for _, kind in info} == {"bundled", "seed_tts", "huggingface", "random"}


def test_a_folder_of_another_name_has_a_language(tmp_path):
    (tmp_path / "my-set").mkdir()
    (tmp_path / "my-set" / "meta.lst").write_text("u1|||你好\n")
    config = DatasetConfig(kind="seed_tts", root=str(tmp_path), locale="my-set", language="zh")
    assert [prompt.language for prompt in load_prompts(config, 1)] == [config.spoken] == ["zh"]
    assert load_prompts(replace(config, language=None), 1)[0].language == "my-set"
