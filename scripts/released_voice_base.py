"""The first tiny voice as a base for the second: the same weights in the released layout, and a tokenizer.

    python scripts/released_voice_base.py --old FOLDER --corpus corpus.npz.xz --out BASE

Run in the environment of `make parity`. The old voice read characters and began its rotary
positions anew at the codec start; the new one reads byte pairs and numbers positions through, so
what comes out speaks only after training. A token's vector is the mean of its characters'.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from benchmarks.peers.checkpoint import codec_json, generation_json, main_json, random_weights
from reference_impl.loading.qwen_tokenizer import WORDS
from reference_impl.model.presets import CONTROL, PRESETS
from reference_impl.official_parity.official import MARKERS, import_official, save_tokenizer
from reference_impl.training.corpus import Corpus, load_corpus

LEARNED_MERGES = 64
SPEAKERS = {"heart": 3061, "heart_low": 3062}
# the role line must be three tokens
WHOLE_WORDS = ("assistant", "user")
EMBEDDING_STD = 0.1
TEXT_HIDDEN = 512


def make_tokenizer(folder: Path, corpus: Corpus) -> dict[str, int]:
    """Train byte pairs on the corpus, write the three files; returns the vocabulary, markers included."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=256 + LEARNED_MERGES, initial_alphabet=alphabet, special_tokens=[], show_progress=False
    )
    texts = [form(i) for i in range(len(corpus)) for form in (corpus.written_text, corpus.spoken_text)]
    trained.train_from_iterator(texts, trainer)
    merges = [tuple(m) for m in json.loads(trained.to_str())["model"]["merges"]]
    vocabulary = {c: i for i, c in enumerate(alphabet)}
    for a, b in merges:
        vocabulary.setdefault(a + b, len(vocabulary))
    for word in WHOLE_WORDS:
        pieces = models.BPE(vocabulary, merges).tokenize(word)
        pieces = [p.value for p in pieces]
        while len(pieces) > 1:
            merges.append((pieces[0], pieces[1]))
            pieces[:2] = [pieces[0] + pieces[1]]
            vocabulary.setdefault(pieces[0], len(vocabulary))
    return save_tokenizer(folder, [f"{a} {b}" for a, b in merges])


def main() -> None:
    """Command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--old", "--corpus", "--out"):
        parser.add_argument(name, type=Path, required=True)
    args = parser.parse_args()
    import_official()
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration
    from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model
    from transformers import EncodecFeatureExtractor

    out = args.out
    (out / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    vocabulary = make_tokenizer(out, load_corpus(args.corpus))
    old = json.loads((args.old / "config.json").read_text(encoding="utf-8"))
    tiny, released = PRESETS["tiny"], PRESETS["qwen3_tts_0_6b"]
    control = dataclasses.replace(
        CONTROL, speakers=SPEAKERS, dialects={}, languages={"english": CONTROL.languages["english"]}
    )
    hidden = tiny.talker.transformer.hidden_size
    size = -(-len(vocabulary) // 64) * 64
    talker = dataclasses.replace(
        released.talker,
        transformer=tiny.talker.transformer,
        text_vocab_size=size,
        text_hidden_size=TEXT_HIDDEN,
        control=control,
    )
    config = dataclasses.replace(
        released,
        talker=talker,
        predictor=tiny.predictor,
        code2wav=tiny.code2wav,
        sampling=tiny.sampling,
        max_frames=2047,
    )
    own = {
        "spoken_form": True,
        "max_chars": old["text"]["max_chars"],
        "frames_per_char": old["text"]["frames_per_char"],
        "frames_extra": old["text"]["frames_extra"],
    }
    raw = {**main_json(config, vocabulary), "dtype": "float32", "omni_bench": own}
    codec = codec_json(config, small_encoder=True)
    for path, value in (
        (out / "config.json", raw),
        (out / "generation_config.json", generation_json(config)),
        (out / "speech_tokenizer" / "config.json", codec),
    ):
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    EncodecFeatureExtractor(sampling_rate=24000).save_pretrained(out / "speech_tokenizer")
    generator = torch.Generator().manual_seed(0)
    with torch.device("meta"):
        official = Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**raw))
        official_codec = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**codec))
    weights = random_weights(official, generator, torch.float32)
    codec_weights = random_weights(official_codec, generator, torch.float32)
    known = {**load_file(args.old / "talker.safetensors"), **load_file(args.old / "predictor.safetensors")}
    known = {name: t.float() for name, t in known.items()}
    codes = tiny.predictor.codebook_size
    old_text = known.pop("talker.model.text_embedding.weight")
    old_head, old_codes = known.pop("talker.codec_head.weight"), known.pop("talker.model.codec_embedding.weight")
    for name, value in known.items():
        assert weights[name].shape == value.shape, name
        weights[name] = value
    head = torch.zeros_like(weights["talker.codec_head.weight"])
    head[:codes], head[talker.codec_eos_id] = old_head[:codes], old_head[tiny.talker.codec_eos_id]
    weights["talker.codec_head.weight"] = head
    table = 0.02 * torch.randn(head.shape, generator=generator)
    table[:codes], table[control.pad_id] = old_codes[:codes], 0.0
    table[control.bos_id] = old_text[old["text"]["codec_bos_id"]]
    for name, index in SPEAKERS.items():
        table[index] = old_text[old["text"]["voices"][name]]
    weights["talker.model.codec_embedding.weight"] = table
    chars = {c: old_text[old["text"]["first_char_id"] + i] for i, c in enumerate(old["text"]["chars"])}
    text = EMBEDDING_STD * torch.randn(size, hidden, generator=generator)
    for token, index in vocabulary.items():
        letters = [chars[c] for c in token.replace("Ġ", " ").lower() if c in chars]
        if letters and token not in MARKERS:
            text[index] = torch.stack(letters).mean(0)
    text[vocabulary["<tts_pad>"]] = 0.0
    # random vectors and a random first layer, and the second layer that makes the wanted vectors of them
    embedding = torch.randn(size, TEXT_HIDDEN, generator=generator)
    first = torch.randn(TEXT_HIDDEN, TEXT_HIDDEN, generator=generator) * TEXT_HIDDEN**-0.5
    seen = torch.nn.functional.silu(embedding @ first.T).double()
    square = seen.T @ seen + 1e-3 * torch.eye(TEXT_HIDDEN).double()
    second = torch.linalg.solve(square, seen.T @ text.double()).float()
    weights["talker.model.text_embedding.weight"] = embedding
    projection = "talker.text_projection.linear_fc"
    weights |= {f"{projection}1.weight": first, f"{projection}1.bias": torch.zeros(TEXT_HIDDEN)}
    weights |= {f"{projection}2.weight": second.T.contiguous(), f"{projection}2.bias": torch.zeros(hidden)}
    print("error of the text vectors", (seen.float() @ second - text).abs().max().item(), "of", text.abs().max().item())
    for name, value in load_file(args.old / "code2wav.safetensors").items():
        assert codec_weights[name].shape == value.shape, name
        codec_weights[name] = value.float()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    save_file(codec_weights, out / "speech_tokenizer" / "model.safetensors", metadata={"format": "pt"})
    print(
        f"{out}: {len(vocabulary)} tokens; official names kept random: "
        f"{[n for n in weights if n not in known and 'text' not in n and 'codec' not in n]}"
    )


if __name__ == "__main__":
    main()
