"""``omni-bench list``."""

from __future__ import annotations

import re

from omni_bench.commands.cli import main


def test_everything_that_can_be_chosen_is_listed(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for expected in ("external ", "huggingface ", "whisper ", "openai_chat_audio ", "openai_speech_ws "):
        assert expected in out
    assert re.search(r"^  qwen3_tts_c16 +The main job", out, re.MULTILINE)
    prompts = re.search(r"seed_tts_mini/en +(\d+) prompts", out)
    assert prompts is not None and int(prompts.group(1)) >= 200
