"""The language model's training at toy scale, and against the engine that will use the weights."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from repository import ROOT

from omni_bench.errors import DatasetError
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, Finished, SpeechRequest
from reference_impl.loading.checkpoint import load_model
from reference_impl.loading.qwen_tokenizer import QwenTokenizer
from reference_impl.loading.released_config import read_config
from reference_impl.prompt.builder import PromptBuilder
from reference_impl.settings import ServerSettings
from reference_impl.training import lm as lm_module
from reference_impl.training.corpus import Corpus, load_corpus, save_corpus
from reference_impl.training.encode import codes_path
from reference_impl.training.export import UNUSED_LOGIT, export, rarest_code, swap_first_code
from reference_impl.training.lm import LmSettings, train_lm
from reference_impl.training.lm_data import BatchMaker, CodeStore, Utterances, ahead
from reference_impl.training.lm_model import LanguageModel, corrupt, losses, muon_pieces
from reference_impl.training.optimisers import Average, Muon, orthogonalise
from reference_impl.training.released import load_base
from reference_impl.training.synthesise import read_info

CPU = torch.device("cpu")
SMALL = LmSettings(tokens=256, predicted=16, warm_up=2, validate_every=5, validation_batch=4)


def write_codes(toy) -> None:
    for number in range(3):
        name = f"c{number:04d}"
        info = read_info(toy.state / "audio", name)
        codes = np.random.default_rng(number).integers(0, 16, (int(info.frames.sum()), 4)).astype(np.int16)
        with codes_path(toy.state / "audio", name).open("wb") as handle:
            np.save(handle, codes)


def stored_codes(toy) -> tuple[Corpus, CodeStore]:
    write_codes(toy)
    corpus = load_corpus(toy.corpus)
    store = CodeStore(toy.state / "audio", corpus, CPU, 4)
    store.load()
    return corpus, store


def train(toy, steps: int, **kwargs) -> dict:
    forever = float("inf")
    path = train_lm(
        toy.state, toy.corpus, toy.base, forever, settings=SMALL, device=CPU, max_steps=steps, **kwargs
    )  # fmt: skip
    return torch.load(path, weights_only=True)


def test_training_lowers_the_loss(toy):
    write_codes(toy)
    train(toy, 60)
    rows = [json.loads(line) for line in (toy.state / "logs" / "lm.jsonl").read_text().splitlines()]
    steps = [r for r in rows if "code0" in r]
    assert steps[-1]["code0"] < steps[0]["code0"]
    last = next(row for row in rows if row.get("message") == "end of run")
    assert last["hours"] > 0 and last["utterances_seen"] > 0


def test_a_resumed_run_equals_an_uninterrupted_one(toy, monkeypatch):
    write_codes(toy)
    whole = train(toy, 7)
    shutil.rmtree(toy.state / "logs")
    (toy.state / "lm.pt").unlink()
    real = lm_module.Clock.running
    monkeypatch.setattr(lm_module.Clock, "running", property(lambda c: real.fget(c) and c.step < 4))
    assert train(toy, 7)["step"] == 4
    monkeypatch.undo()
    resumed = train(toy, 7)
    assert resumed["step"] == whole["step"] == 7
    assert (resumed["epoch"], resumed["next_batch"]) == (whole["epoch"], whole["next_batch"])
    for name, value in whole["model"].items():
        assert torch.equal(value, resumed["model"][name]), name
    for a, b in zip(whole["average"], resumed["average"], strict=True):
        assert torch.equal(a, b)


def test_audio_that_appears_later_joins_at_the_next_epoch(toy):
    write_codes(toy)
    late = codes_path(toy.state / "audio", "c0002")
    hidden = late.with_suffix(".hidden")
    late.rename(hidden)
    calls = []

    def refresh() -> None:
        calls.append(1)
        if len(calls) == 2:
            hidden.rename(late)

    state = train(toy, 40, refresh=refresh)
    assert len(calls) > 2
    assert state["chunks"] == ["c0000", "c0001", "c0002"]


def test_codes_that_do_not_fit_their_table_are_named(toy):
    write_codes(toy)
    with codes_path(toy.state / "audio", "c0001").open("wb") as handle:
        np.save(handle, np.zeros((3, 4), np.int16))
    with pytest.raises(DatasetError, match="c0001"):
        train(toy, 1)


def test_without_training_chunks_the_error_says_so(toy):
    with pytest.raises(DatasetError, match="no encoded chunk for training"):
        train(toy, 1)


def test_every_utterance_is_in_a_plan_once(toy):
    corpus, store = stored_codes(toy)
    maker = BatchMaker(corpus, toy.config, QwenTokenizer(toy.base), 64, 8, CPU)
    table = store.table()
    plan = maker.plan(table, np.random.default_rng(0))
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(table)))
    lengths = maker.lengths(table)
    assert all(len(b) == 1 or len(b) * (-(-lengths[b].max() // 16) * 16) <= 64 for b in plan)
    again = maker.plan(table, np.random.default_rng(0))
    assert all(np.array_equal(a, b) for a, b in zip(plan, again, strict=True))


@pytest.mark.parametrize("row", range(4))
def test_a_batch_has_the_layout_of_the_prompt_builder(toy, row):
    """Vectors and positions before the first frame are a server's; without rng the language goes by row."""
    corpus, store = stored_codes(toy)
    maker, table = BatchMaker(corpus, toy.config, QwenTokenizer(toy.base), 256, 8, CPU), store.table()
    batch = maker.make(table, np.arange(4), None)
    known = load_model(toy.base, CPU, torch.float32, 512, 257)
    model = LanguageModel(toy.config)
    model.talker.load_state_dict(known.talker.state_dict())
    prompts = PromptBuilder(known)
    voice, frames = prompts.voices[int(table.voice[row])], int(table.frames[row])
    text = corpus.spoken_text(int(table.sentence[row]))
    segment = prompts.segments(SpeechRequest("r", text, voice, 0, language=("auto", "english")[row // 2 % 2]))[0]
    prompt = prompts.build(segment)
    count, length = len(prompt.embeds), batch.shape[1]
    table_of_text = model.talker.embed_text(batch.text[row, :count])
    control = batch.control[row, :count]
    codec = model.talker.codec_embedding(control.clamp(min=0)) * (control >= 0)[:, None]
    assert torch.allclose(table_of_text + codec, prompt.embeds, atol=1e-6)
    assert prompt.positions.tolist() == list(range(count))
    inputs = batch.input_at[batch.input_row == row] - row * length
    assert inputs.tolist() == list(range(count, count + frames))
    targets = (batch.target_at // length) == row
    assert (batch.target_at[targets] - row * length).tolist() == list(range(count - 1, count + frames))
    first = int(table.first[row])
    assert batch.target_frame[targets][:-1].tolist() == list(range(first, first + frames))
    assert batch.target_end[targets].tolist() == [False] * frames + [True]


def test_teacher_forcing_gives_the_codes_that_the_engine_draws(tmp_path):
    """Greedy codes of the engine are the likeliest ones of the training's forward pass: same layout, same weights."""
    base = ROOT / "reference_impl" / "checkpoints" / "tiny"
    settings = ServerSettings(
        checkpoint=str(base), device="cpu", temperature=0.0, predictor_temperature=0.0, max_batch=1, threads=1
    )
    engine = build_engine(settings)
    events: list = []
    done = threading.Event()

    def listen(event) -> None:
        if not isinstance(event, AudioChunk):
            events.append(event)
            done.set()

    text = "my sister plays the violin."
    try:
        engine.submit(SpeechRequest("r", text, "heart_low", seed=1), listen)
        assert done.wait(120)
    finally:
        engine.stop()
    assert isinstance(events[0], Finished)
    codes = torch.from_numpy(np.asarray(events[0].codes, np.int16))
    config, known = read_config(base), load_base(base)
    model = LanguageModel(config)
    model.talker.load_state_dict(known.talker.state_dict())
    model.predictor.load_state_dict(known.predictor.state_dict())
    save_corpus(tmp_path / "c", [(text.encode(), text.encode(), bytes([0, 1, 0]))], {})
    corpus = load_corpus(tmp_path / "c")
    store = CodeStore(tmp_path, corpus, CPU, 16)
    store.codes, store.labels = codes, torch.zeros(len(codes), 2, dtype=torch.uint8)
    table = Utterances(*(np.array([v]) for v in (0, len(codes), 0, 1)))
    batch = BatchMaker(corpus, config, QwenTokenizer(base), 512, len(codes), CPU).make(table, np.array([0]), None)
    with torch.no_grad():
        states = model.hidden(batch, store.codes[batch.input_frame].long(), None)[batch.target_at]
        likeliest = model.talker.codec_head(states).argmax(-1)
        rest = model.predictor_logits(states[:-1], codes.long()).argmax(-1).T
        _, parts = losses(model, batch, store, None)
    assert likeliest[:-1].tolist() == codes[:, 0].tolist()
    assert likeliest[-1] == config.talker.codec_eos_id
    assert torch.equal(rest, codes[:, 1:].long())
    assert parts["accuracy0"] == 1 and parts["end_accuracy"] == 1


def test_corruption_changes_about_the_share_it_is_told(toy):
    codes = torch.zeros(1000, 4, dtype=torch.long)
    changed = corrupt(codes, 0.25, 16, torch.Generator().manual_seed(0)) != 0
    assert 0.15 < changed.float().mean() < 0.30
    assert torch.equal(corrupt(codes, 0.0, 16, torch.Generator().manual_seed(0)), codes)


def test_orthogonalised_matrices_have_singular_values_near_one():
    torch.manual_seed(0)
    for shape in ((3, 8, 20), (3, 20, 8)):
        values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
        assert values.min() > 0.5 and values.max() < 1.5


def test_muon_moves_each_part_of_a_fused_matrix_on_its_own():
    fused = torch.nn.Parameter(torch.zeros(6, 4))
    muon = Muon([(fused, 0, 4), (fused, 4, 6)])
    fused.grad = torch.zeros(6, 4)
    fused.grad[4:] = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    muon.step(0.1)
    assert fused[:4].abs().max() == 0
    assert 0.05 < torch.linalg.svdvals(fused.detach()[4:]).max() < 0.15


def test_every_matrix_of_the_stacks_belongs_to_muon_once(toy):
    model = LanguageModel(toy.config)
    covered: dict[int, int] = {}
    for parameter, first, last in muon_pieces(model):
        covered[id(parameter)] = covered.get(id(parameter), 0) + last - first
    stacks = [p for s in (model.talker.stack, model.predictor.stack) for n, p in s.named_parameters() if p.ndim == 2]
    assert all(covered[id(p)] == p.shape[0] for p in stacks) and len(covered) == len(stacks)


def test_the_average_follows_and_can_be_copied():
    module, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    average = Average(module, decay=0.9)
    with torch.no_grad():
        module.weight.fill_(5.0)
    for step in range(1, 200):
        average.update(step)
    average.copy_to(other)
    assert torch.allclose(other.weight, module.weight, atol=1e-3)


def test_an_error_in_the_batch_thread_is_raised():
    def broken():
        yield 1
        raise ValueError("bad row")

    with pytest.raises(ValueError, match="bad row"):
        list(ahead(broken()))
    assert list(ahead(iter(range(20)))) == list(range(20))


def test_the_export_speaks_in_the_engine(toy, tmp_path):
    write_codes(toy)
    train(toy, 5)
    out = tmp_path / "checkpoint"
    export(toy.state, toy.base, out)
    files = {path.relative_to(toy.base) for path in toy.base.rglob("*") if path.is_file()}
    assert {path.relative_to(out) for path in out.rglob("*") if path.is_file()} == files | {Path("README.md")}
    saved = torch.load(toy.state / "lm.pt", weights_only=True)
    model = LanguageModel(toy.config)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), saved["average"], strict=True):
            parameter.copy_(value)
    written = load_base(out)
    code = rarest_code(toy.state, 16)
    swap_first_code(model.talker, written.code2wav, code)
    silent = torch.arange(3072)[(torch.arange(3072) >= 16) & (torch.arange(3072) != 2150)]
    assert torch.allclose(written.talker.codec_head.weight[silent[0]], UNUSED_LOGIT * saved["direction"], rtol=1e-2)
    with torch.no_grad():
        model.talker.codec_head.weight[silent] = written.talker.codec_head.weight[silent]
    for name, value in written.talker.state_dict().items():
        assert torch.allclose(value, model.talker.state_dict()[name], rtol=1e-3, atol=1e-4), name
    for name, value in written.predictor.named_parameters():
        assert torch.allclose(value, dict(model.predictor.named_parameters())[name], rtol=1e-3, atol=1e-4), name
    engine = build_engine(ServerSettings(checkpoint=str(out), device="cpu", max_batch=1, threads=1))
    try:
        assert engine.voices == ("heart", "heart_low")
    finally:
        engine.stop()
    card = (out / "README.md").read_text()
    assert "n/a" not in card and "5 steps" in card
