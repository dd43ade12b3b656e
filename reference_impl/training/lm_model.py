"""The teacher-forced forward pass of talker and code predictor, and their losses."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impl.model.code_predictor import CodePredictor
from reference_impl.model.config import ModelConfig
from reference_impl.model.kv_cache import Attended
from reference_impl.model.talker import Talker
from reference_impl.training.lm_data import Batch, CodeStore
from reference_impl.training.teacher import LABELS_PER_FRAME, PHONEMES

PREDICTOR_WEIGHT, PHONEME_WEIGHT = 1.5, 0.3
MOST_WRONG_CODES, MOST_DROPPED_FRAMES, WRONG_PREDICTOR_CODES = 0.08, 0.20, 0.02


class CausalView:
    """A cache view without a cache: every position sees itself and the earlier ones of the same call."""

    def append(self, layer: int, keys: Tensor, values: Tensor) -> Attended:
        """See :class:`reference_impl.model.kv_cache.CacheView`."""
        return Attended(keys, values, None, causal=True)


class LanguageModel(nn.Module):
    """Talker, code predictor, and a training-only head that names the next frame's phonemes."""

    def __init__(self, config: ModelConfig, max_positions: int = 512):
        super().__init__()
        self.config = config
        hidden = config.talker.transformer.hidden_size
        self.talker = Talker(config.talker, max_positions)
        self.predictor = CodePredictor(config.predictor, hidden)
        self.phonemes = nn.Linear(hidden, LABELS_PER_FRAME * PHONEMES)
        nn.init.normal_(self.phonemes.weight, std=0.02)
        nn.init.zeros_(self.phonemes.bias)

    def tables(self) -> Tensor:
        """The embeddings of all codes, [groups × V, hidden]: codebook 0's first."""
        size = self.config.predictor.codebook_size
        return torch.cat([self.talker.codec_embedding.weight[:size], self.predictor.embeddings.flatten(0, 1)])

    def hidden(self, batch: Batch, codes: Tensor, keep: Tensor | None) -> Tensor:
        """Talker states [B × L, hidden]. codes [n, groups] of the input frames; ``keep`` [n, 1]: 0 hides a frame."""
        rows, length = batch.shape
        groups, size = codes.shape[1], self.config.predictor.codebook_size
        offsets = torch.arange(groups, device=codes.device) * size
        frames = F.embedding_bag(codes + offsets, self.tables(), mode="sum")
        if keep is not None:
            frames = frames * keep
        # the table of projected text vectors is far smaller than a batch
        text = F.embedding(batch.text, self.talker.text_projection(self.talker.text_embedding.weight))
        control = F.embedding(batch.control.clamp(min=0), self.talker.codec_embedding.weight)
        x = (
            (text + control * (batch.control >= 0)[..., None])
            .flatten(0, 1)
            .index_add(0, batch.input_at, frames.float())
            .view(rows, length, -1)
        )
        return self.talker.stack(x, torch.arange(length, device=x.device)[None], CausalView()).flatten(0, 1)

    def predictor_logits(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """hidden [K, H], codes [K, groups] -> logits of codes 1..groups-1: [groups - 1, K, V]."""
        groups, size = codes.shape[1], self.config.predictor.codebook_size
        project = self.predictor.input_projection
        table = project(self.tables()[: (groups - 1) * size])
        offsets = torch.arange(groups - 1, device=codes.device) * size
        inputs = torch.cat([project(hidden)[:, None], F.embedding(codes[:, :-1] + offsets, table)], dim=1)
        positions = torch.arange(groups, device=codes.device)[None]
        states = self.predictor.stack(inputs, positions, CausalView())[:, 1:]
        return torch.bmm(states.transpose(0, 1), self.predictor.heads.to(states.dtype).transpose(1, 2))


def corrupt(codes: Tensor, share: Tensor | float, size: int, gen: torch.Generator) -> Tensor:
    """Replace about ``share`` of the codes by random ones."""
    wrong = torch.rand(codes.shape, device=codes.device, generator=gen) < share
    return torch.where(wrong, torch.randint(0, size, codes.shape, device=codes.device, generator=gen), codes)


def losses(
    model: LanguageModel, batch: Batch, store: CodeStore, gen: torch.Generator | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The training loss and its parts. With ``gen`` the inputs are corrupted, so that the model learns to go on
    from its own mistakes; without, accuracies are added (validation)."""
    size, end_id = model.config.predictor.codebook_size, model.config.talker.codec_eos_id
    codes = store.codes[batch.input_frame].long()
    keep = None
    if gen is not None:
        rows, device = batch.shape[0], codes.device
        share = torch.rand(rows, 1, device=device, generator=gen) * MOST_WRONG_CODES
        codes = corrupt(codes, share[batch.input_row], size, gen)
        hide = torch.rand(rows, device=device, generator=gen) * MOST_DROPPED_FRAMES
        keep = (torch.rand(len(codes), device=device, generator=gen) >= hide[batch.input_row]).float()[:, None]
    states = model.hidden(batch, codes, keep)[batch.target_at]
    target = store.codes[batch.target_frame].long()
    want0 = torch.where(batch.target_end, end_id, target[:, 0])
    logits0 = model.talker.codec_head(states).float()
    loss0 = F.cross_entropy(logits0, want0)
    labels = torch.where(batch.target_end[:, None], 0, store.labels[batch.target_frame].long())
    sounds = model.phonemes(states).float().view(-1, PHONEMES)
    loss_phoneme = F.cross_entropy(sounds, labels.flatten())
    chosen = target[batch.predicted]
    seen = corrupt(chosen, WRONG_PREDICTOR_CODES, size, gen) if gen is not None else chosen
    logits = model.predictor_logits(states[batch.predicted], seen).float()
    loss_codes = F.cross_entropy(logits.flatten(0, 1), chosen[:, 1:].T.reshape(-1))
    parts = {"code0": loss0, "codes": loss_codes, "phoneme": loss_phoneme}
    if gen is None:
        parts["accuracy0"] = (logits0.argmax(-1) == want0).float().mean()
        parts["accuracy1"] = (logits[0].argmax(-1) == chosen[:, 1]).float().mean()
        parts["phoneme_accuracy"] = (sounds.argmax(-1) == labels.flatten()).float().mean()
        parts["end_accuracy"] = (logits0.argmax(-1) == end_id)[batch.target_end].float().mean()
    return loss0 + PREDICTOR_WEIGHT * loss_codes + PHONEME_WEIGHT * loss_phoneme, parts


def muon_pieces(model: LanguageModel) -> list[tuple[nn.Parameter, int, int]]:
    """The matrices of both stacks; fused ones in their parts."""
    pieces: list[tuple[nn.Parameter, int, int]] = []
    for stack in (model.talker.stack, model.predictor.stack):
        shape = stack.config
        query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        for layer in stack.layers:
            edges = {
                layer.qkv_proj.weight: (0, query, query + key, query + 2 * key),
                layer.gate_up_proj.weight: (0, shape.intermediate_size, 2 * shape.intermediate_size),
                layer.o_proj.weight: (0, layer.o_proj.weight.shape[0]),
                layer.down_proj.weight: (0, layer.down_proj.weight.shape[0]),
            }
            pieces += [(p, a, b) for p, cuts in edges.items() for a, b in pairwise(cuts)]
    return pieces
