"""Train talker and code predictor on the encoded corpus, within a time budget.

Starts from the checkpoint's weights, since the codec keeps its code space. Muon for the matrices of the stacks,
AdamW for the rest, cosine schedule over the budget, averaged weights. Every step depends on the seed, the epoch and
its number only: a run that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from reference_impl.loading.qwen_tokenizer import QwenTokenizer
from reference_impl.loading.released_config import read_config
from reference_impl.training.codec_trainer import autocast
from reference_impl.training.corpus import load_corpus
from reference_impl.training.lm_data import Batch, BatchMaker, CodeStore, Utterances, ahead
from reference_impl.training.lm_model import LanguageModel, losses, muon_pieces
from reference_impl.training.optimisers import Average, Muon
from reference_impl.training.released import load_base
from reference_impl.training.state import Clock, Log, cosine, generator, load_state, pick_device, save_state

SAVE_EVERY_S = 90.0
LM_KEY = 7  # keeps the random numbers apart from those of the codec


@dataclass(frozen=True)
class LmSettings:
    """Sizes and rates. ``tokens``: padded positions a step; ``predicted``: frames a step for the code predictor."""

    tokens: int = 24_576
    predicted: int = 6144
    muon_rate: float = 0.009
    adam_rate: float = 0.9e-3
    embedding_factor: float = 1.5
    warm_up: int = 200
    clip: float = 1.0
    average: float = 0.999
    validate_every: int = 2000
    validation_batch: int = 40


class LmTrainer:
    """Model, optimisers and averages of one run."""

    def __init__(self, model: LanguageModel, settings: LmSettings, device: torch.device, seed: int):
        self.model, self.settings, self.device, self.seed = model, settings, device, seed
        pieces = muon_pieces(model)
        self.muon = Muon(pieces)
        in_muon = {id(p) for p, _, _ in pieces}
        embeddings = [p for n, p in model.named_parameters() if "embedding" in n]
        known = in_muon | {id(p) for p in embeddings}
        rest = [p for p in model.parameters() if id(p) not in known]
        self.adam = torch.optim.AdamW(
            [
                {"params": embeddings, "lr": settings.adam_rate * settings.embedding_factor, "weight_decay": 0.0},
                {"params": rest, "lr": settings.adam_rate, "weight_decay": 0.01},
            ],
            betas=(0.9, 0.98),
            eps=1e-9,
            fused=device.type == "cuda",
        )
        self._rates = [group["lr"] for group in self.adam.param_groups]
        self.average = Average(model, settings.average)

    def step(self, batch: Batch, store: CodeStore, clock: Clock) -> dict[str, torch.Tensor]:
        """One step of both optimisers; returns the loss parts as tensors."""
        gen = generator(self.device, self.seed, LM_KEY, clock.step)
        factor = cosine(clock.fraction, clock.step, self.settings.warm_up)
        for group, rate in zip(self.adam.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        with autocast(self.device):
            total, parts = losses(self.model, batch, store, gen)
        self.model.zero_grad(set_to_none=True)
        total.backward()
        parts["grad"] = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.adam.step()
        self.muon.step(self.settings.muon_rate * factor)
        clock.step += 1
        self.average.update(clock.step)
        return parts

    def averaged(self) -> LanguageModel:
        """A copy with the averaged weights."""
        model = copy.deepcopy(self.model)
        self.average.copy_to(model)
        return model

    @torch.no_grad()
    def validate(self, maker: BatchMaker, store: CodeStore) -> dict[str, float]:
        """Loss parts and accuracies of the averaged weights on the validation chunk."""
        model, table = self.averaged().eval(), store.table(validation=True)
        rows = np.argsort(table.frames, kind="stable")
        sums: dict[str, float] = {}
        count = 0
        for i in range(0, len(rows), self.settings.validation_batch):
            part = rows[i : i + self.settings.validation_batch]
            with autocast(self.device):
                _, parts = losses(model, maker.make(table, part, None), store, None)
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(part)
            count += len(part)
        return {f"val_{name}": value / count for name, value in sums.items()}

    @torch.no_grad()
    def direction(self, maker: BatchMaker, store: CodeStore) -> tuple[torch.Tensor, torch.Tensor]:
        """A vector [H] whose scalar product with every hidden state is about 1 (least squares over the validation
        chunk), and the least of these products: above 0 a head row along it can switch an id off."""
        model, table = self.averaged().eval(), store.table(validation=True)
        parts = []
        for i in range(0, len(table), self.settings.validation_batch):
            batch = maker.make(table, np.arange(i, min(len(table), i + self.settings.validation_batch)), None)
            parts.append(model.hidden(batch, store.codes[batch.input_frame].long(), None)[batch.target_at].float())
        states = torch.cat(parts)
        square = states.T @ states + 1e-3 * len(states) * torch.eye(states.shape[1], device=states.device)
        found = torch.linalg.solve(square, states.sum(0))
        return found, (states @ found).min()


def _epoch(
    maker: BatchMaker, table: Utterances, plan: list[np.ndarray], first: int, seed: int, epoch: int
) -> Iterator[Batch]:
    """The batches of an epoch from its ``first`` on."""
    for index in range(first, len(plan)):
        yield maker.make(table, plan[index], np.random.default_rng((seed, LM_KEY, epoch, index)))


def train_lm(
    state: Path,
    corpus_path: Path,
    base: Path,
    budget_s: float,
    deadline: float = math.inf,
    settings: LmSettings | None = None,
    device: torch.device | None = None,
    max_steps: int | None = None,
    remaining_s: float | None = None,
    refresh: Callable[[], None] | None = None,
    seed: int = 0,
) -> Path:
    """Train until the budget, ``max_steps`` or the ``deadline``; returns the state file ``lm.pt``.

    ``budget_s`` counts earlier runs too; ``remaining_s``, if given, is what is still to come
    (this run and later ones) and takes its place.
    ``refresh`` is called before every epoch: it may encode audio that has appeared since.
    """
    settings, device = settings or LmSettings(), device or pick_device("auto")
    log = Log(state / "logs" / "lm.jsonl", "lm")
    config = read_config(base)
    corpus = load_corpus(corpus_path)
    torch.manual_seed(seed)
    model = LanguageModel(config)
    known = load_base(base)
    model.talker.load_state_dict(known.talker.state_dict())
    model.predictor.load_state_dict(known.predictor.state_dict())
    trainer = LmTrainer(model.to(device), settings, device, seed)
    store = CodeStore(state / "audio", corpus, device, config.predictor.num_code_groups)
    maker = BatchMaker(corpus, config, QwenTokenizer(base), settings.tokens, settings.predicted, device)
    clock = Clock(budget_s, max_steps, deadline)
    path, epoch, first, spoken = state / "lm.pt", 0, 0, 0
    saved = load_state(path, device)
    if saved:
        trainer.model.load_state_dict(saved["model"])
        trainer.adam.load_state_dict(saved["adam"])
        trainer.muon.load_state_dict(saved["muon"])
        for value, old in zip(trainer.average.values, saved["average"], strict=True):
            value.copy_(old)
        epoch, first, spoken = saved["epoch"], saved["next_batch"], saved["utterances"]
        store.load(only=saved["chunks"])
        clock.resume(saved["step"], saved["elapsed_s"])
    if remaining_s is not None:
        clock.budget_s = clock.elapsed_s + remaining_s
    parameters = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in model.phonemes.parameters())
    log.write(
        message="start", device=str(device), parameters=parameters, resumed_at=clock.step, budget_s=clock.budget_s
    )

    def snapshot() -> None:
        direction, least = trainer.direction(maker, store)
        log.write(step=clock.step, least_along_direction=least)
        save_state(
            path,
            {
                "direction": direction.cpu(),
                "model": trainer.model.state_dict(),
                "average": trainer.average.values,
                "adam": trainer.adam.state_dict(),
                "muon": trainer.muon.state_dict(),
                "step": clock.step,
                "elapsed_s": clock.elapsed_s,
                "epoch": epoch,
                "next_batch": first,
                "utterances": spoken,
                "chunks": store.chunks,
            },
        )

    last_save = last_log = time.monotonic()
    last_step = clock.step
    while clock.running:
        if first == 0:
            if refresh:
                refresh()
            store.load()
        table = store.table()
        plan = maker.plan(table, np.random.default_rng((seed, LM_KEY, epoch)))
        log.write(message="epoch", epoch=epoch, hours=store.hours, utterances=len(table), batches=len(plan))
        for batch in ahead(_epoch(maker, table, plan, first, seed, epoch)):
            parts = trainer.step(batch, store, clock)
            first += 1
            spoken += batch.shape[0]
            if clock.step in (1, 10, 50) or clock.step % 200 == 0:
                values, now = {k: float(v.detach()) for k, v in parts.items()}, time.monotonic()
                ms = 1000 * (now - last_log) / max(1, clock.step - last_step)
                log.write(
                    step=clock.step, ms=ms, fraction=clock.fraction, epoch=epoch, hours=store.hours,
                    utterances_seen=spoken, **values,
                )  # fmt: skip
                if not math.isfinite(values["code0"]):
                    raise FloatingPointError(f"loss {values} at step {clock.step}; the last saved state is {path}")
                last_log, last_step = time.monotonic(), clock.step
            if clock.step % settings.validate_every == 0:
                log.write(step=clock.step, **trainer.validate(maker, store))
                last_log, last_step = time.monotonic(), clock.step
            if time.monotonic() - last_save > SAVE_EVERY_S:
                snapshot()
                last_save = time.monotonic()
            if not clock.running:
                break
        if first >= len(plan):
            epoch, first = epoch + 1, 0
    log.write(message="end of run", step=clock.step, fraction=clock.fraction, epoch=epoch, hours=store.hours,
              utterances_seen=spoken, **trainer.validate(maker, store))  # fmt: skip
    snapshot()
    log.close()
    return path
