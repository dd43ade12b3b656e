"""``omni-bench voice``: the folder it writes is one that the loader of released checkpoints takes."""

from __future__ import annotations

import json

import pytest
import torch

from omni_bench.commands.cli import main
from reference_impl.engine_api import SpeechRequest
from reference_impl.loading.checkpoint import load_model
from reference_impl.prompt.builder import PromptBuilder
from reference_impl.settings import BUNDLED
from reference_impl.training.lm_model import CausalView


def test_the_folder_loads_as_a_released_checkpoint(tmp_path, capsys):
    folder = tmp_path / "voice"
    assert main(["voice", str(folder)]) == 0
    assert f"reference.checkpoint={folder}" in capsys.readouterr().out
    model = load_model(folder, torch.device("cpu"), torch.float32, 512, 257)
    assert model.config.talker.codec_vocab_size == 3072 and model.config.talker.codec_eos_id == 2150
    prompts = PromptBuilder(model)
    assert prompts.voices == ("heart", "heart_low")
    text = "It costs $5. " + "He went on and on about the weather, " * 6
    pieces = prompts.segments(SpeechRequest("r", text, "heart", seed=0, language="english"))
    assert len(pieces) > 1 and all(piece.max_frames < 300 for piece in pieces)
    assert pieces[0].text_ids == model.tokenizer.encode("It costs five dollars.")


def test_the_tokenizer_names_no_end_token_that_is_also_a_code():
    """vLLM ends a request at the tokenizer's end token as well as at the model's."""
    assert json.loads((BUNDLED["tiny"] / "tokenizer_config.json").read_text(encoding="utf-8"))["eos_token"] is None


def test_ids_that_are_no_codes_are_never_near_the_codes():
    """The 1,536 ids between the codes and the control ids, which released servers do not mask."""
    model = load_model(BUNDLED["tiny"], torch.device("cpu"), torch.float32, 512, 257)
    prompts = PromptBuilder(model)
    segment = prompts.segments(SpeechRequest("r", "The train leaves at nine.", "heart", seed=0))[0]
    prompt = prompts.build(segment)
    with torch.inference_mode():
        state = model.talker.stack(prompt.embeds[None], prompt.positions[None], CausalView())[0, -1]
        logits = model.talker.codec_head(state)
    assert logits[512:2048].max() < logits[:512].topk(50).values[-1] - 20


@pytest.mark.parametrize("kind", ["full folder", "file", "below a file"])
def test_what_is_there_is_never_written_over(tmp_path, capsys, kind):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    target = {"full folder": tmp_path / "there", "file": tmp_path / "there" / "mine.txt"}.get(
        kind, tmp_path / "there" / "mine.txt" / "voice"
    )
    assert main(["voice", str(target)]) == 2
    assert str(target) in capsys.readouterr().err
    assert (tmp_path / "there" / "mine.txt").read_text() == "mine"


def test_a_disk_that_fills_up_is_named(tmp_path, monkeypatch, capsys):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full)
    assert main(["voice", str(tmp_path / "voice")]) == 2
    assert "cannot be written: No space left on device; name another folder" in capsys.readouterr().err
