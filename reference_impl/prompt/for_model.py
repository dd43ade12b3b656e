"""The prompt builder that a loaded model asks for."""

from __future__ import annotations

from reference_impl.loading.checkpoint import Model
from reference_impl.model.config import TextConfig
from reference_impl.prompt.builder import PromptBuilder
from reference_impl.prompt.characters import CharPrompts
from reference_impl.prompt.released import ReleasedPrompts


def prompt_builder(model: Model) -> PromptBuilder:
    """The text side that a checkpoint's configuration asks for."""
    if isinstance(model.config.text, TextConfig):
        return CharPrompts(model.config.text, model.talker, model.device)
    return ReleasedPrompts(model)
