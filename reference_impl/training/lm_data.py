"""Batches of the language model: utterances by length, all index arithmetic on the CPU, ahead of the device.

A sequence is the released prompt with all the text at once (:mod:`reference_impl.prompt.builder`)
and the frames after it, with one language tag or without, at random.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omni_bench.errors import DatasetError
from reference_impl.loading.qwen_tokenizer import QwenTokenizer
from reference_impl.model.config import ModelConfig
from reference_impl.prompt.builder import codec_ids
from reference_impl.training.audio_pool import VALIDATION_CHUNK
from reference_impl.training.corpus import Corpus
from reference_impl.training.encode import codes_path
from reference_impl.training.synthesise import finished_chunks, read_info

PREFIX = 9  # positions before the text with a language tag; one less without
LENGTH_STEP = 16  # sequence lengths are padded to a multiple of it
BUCKET_UTTERANCES = 8192
PREFETCHED = 4
FRAMES_PER_HOUR = 45_000


@dataclass(frozen=True)
class Utterances:
    """A table of utterances: int64 arrays of equal length.

    ``first`` and ``frames``: where the codes are; ``sentence``: which text; ``voice``.
    """

    first: np.ndarray
    frames: np.ndarray
    sentence: np.ndarray
    voice: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Batch:
    """Indices of one step, on the device.

    ``text`` [B, L]: text ids, that of the pad where there is no text. ``control`` [B, L]: codec
    control ids, -1 where there is none.
    ``input_at``, ``input_frame``, ``input_row`` [n]: flat positions that hold a frame, which
    frame, of which utterance. ``target_at``, ``target_frame``, ``target_end`` [m]: flat
    positions that predict, the frame they predict, and whether it is the end instead.
    ``predicted`` [K]: entries of the target list that the code predictor trains on.
    """

    text: Tensor
    control: Tensor
    input_at: Tensor
    input_frame: Tensor
    input_row: Tensor
    target_at: Tensor
    target_frame: Tensor
    target_end: Tensor
    predicted: Tensor
    real_tokens: int

    @property
    def shape(self) -> tuple[int, int]:
        """Utterances and padded length."""
        return self.text.shape[0], self.text.shape[1]


class CodeStore:
    """Codes and labels of all encoded chunks in device memory, with the utterances they belong to."""

    def __init__(self, folder: Path, corpus: Corpus, device: torch.device, groups: int):
        self._folder, self._corpus, self._device, self._groups = folder, corpus, device, groups
        self._seen: list[str] = []
        self._parts: dict[bool, list[Utterances]] = {True: [], False: []}
        self.codes = torch.zeros(0, groups, dtype=torch.int16, device=device)
        self.labels = torch.zeros(0, 2, dtype=torch.uint8, device=device)

    @property
    def chunks(self) -> list[str]:
        """Names of the loaded chunks, in the order of loading."""
        return list(self._seen)

    @property
    def hours(self) -> float:
        """Hours of speech loaded."""
        return len(self.codes) / FRAMES_PER_HOUR

    def load(self, only: list[str] | None = None) -> int:
        """Load encoded chunks that are new (``only``: exactly these, in this order); returns how many.

        Raises DatasetError for a chunk whose codes do not fit its table.
        """
        known = set(self._seen)
        names = only if only is not None else finished_chunks(self._folder)
        codes, labels, start = [self.codes], [self.labels], len(self.codes)
        new = [n for n in names if n not in known and codes_path(self._folder, n).exists()]
        for name in new:
            info = read_info(self._folder, name)
            with codes_path(self._folder, name).open("rb") as handle:
                part = np.load(handle, allow_pickle=False)
            if part.shape != (int(info.frames.sum()), self._groups):
                raise DatasetError(f"{codes_path(self._folder, name)}: shape {part.shape} does not fit its table")
            frames = info.frames.astype(np.int64)
            table = Utterances(
                start + np.cumsum(frames) - frames,
                frames,
                info.sentences.astype(np.int64),
                info.voices.astype(np.int64),
            )
            self._parts[name == VALIDATION_CHUNK].append(table)
            codes.append(torch.from_numpy(part).to(self._device))
            labels.append(torch.from_numpy(info.labels).to(self._device))
            start += len(part)
            self._seen.append(name)
        if new:
            self.codes, self.labels = torch.cat(codes), torch.cat(labels)
        return len(new)

    def table(self, validation: bool = False) -> Utterances:
        """All utterances for training, or those for validation. Raises DatasetError if there are none."""
        parts = self._parts[validation]
        if not parts:
            kind = "validation" if validation else "training"
            raise DatasetError(f"{self._folder}: no encoded chunk for {kind}")
        return Utterances(
            *(np.concatenate([getattr(p, f) for p in parts]) for f in ("first", "frames", "sentence", "voice"))
        )


class SpokenTexts:
    """The token ids of every sentence in three forms: as written, as spoken, as spoken without the last full stop.

    ``starts`` and ``lengths`` int64 [3, sentences] say where in ``ids``.
    """

    SHARES = (0.45, 0.45, 0.10)

    def __init__(self, corpus: Corpus, tokenizer: QwenTokenizer):
        forms = [
            [corpus.written_text(i) for i in range(len(corpus))],
            [corpus.spoken_text(i) for i in range(len(corpus))],
        ]
        forms.append([text.removesuffix(".") for text in forms[1]])
        encoded = tokenizer.encode_all([text for form in forms for text in form])
        lengths = np.array([len(ids) for ids in encoded], np.int64)
        self.ids = np.concatenate([np.array(ids, np.int64) for ids in encoded])
        self.lengths = lengths.reshape(len(forms), -1)
        self.starts = (np.cumsum(lengths) - lengths).reshape(len(forms), -1)


class BatchMaker:
    """Makes batches of about ``tokens`` padded positions; ``predicted`` frames go to the code predictor."""

    def __init__(
        self,
        corpus: Corpus,
        config: ModelConfig,
        tokenizer: QwenTokenizer,
        tokens: int,
        predicted: int,
        device: torch.device,
    ):
        self._texts = SpokenTexts(corpus, tokenizer)
        self._text, self._control, self._role = config.text, config.talker.control, tokenizer.assistant_role
        self._tokens, self._predicted, self._device = tokens, predicted, device
        self._speakers = np.array(list(config.talker.control.speakers.values()), np.int64)
        self._longest = self._texts.lengths.max(axis=0)
        self._prefixes = self._make_prefixes()

    def _make_prefixes(self) -> tuple[np.ndarray, np.ndarray]:
        """Text and codec ids before the text, int64 [2, 9]: without a language, and with it. -2: the speaker."""
        texts = np.full((2, PREFIX), self._text.tts_pad_id, np.int64)
        codes = np.full((2, PREFIX), -1, np.int64)
        role = len(self._role)
        for row, language in enumerate((None, self._control.languages["english"])):
            tags = codec_ids(language, -2, self._control)[:-1]  # the codec start comes after the text
            texts[row, :role], texts[row, role + len(tags) - 1] = self._role, self._text.tts_bos_id
            codes[row, role : role + len(tags)] = tags
        return texts, codes

    def lengths(self, table: Utterances) -> np.ndarray:
        """The most positions of every utterance: prefix, text and its end, codec start, frames."""
        return PREFIX + 2 + self._longest[table.sentence] + table.frames

    def plan(self, table: Utterances, rng: np.random.Generator) -> list[np.ndarray]:
        """All utterances once, in random batches of similar length."""
        lengths = self.lengths(table)
        order = rng.permutation(len(table))
        batches: list[np.ndarray] = []
        for block in range(0, len(order), BUCKET_UTTERANCES):
            part = order[block : block + BUCKET_UTTERANCES]
            part = part[np.argsort(lengths[part], kind="stable")]
            start = 0
            while start < len(part):
                # lengths rise: shrink until the longest, padded, fits
                count = max(1, self._tokens // _padded(int(lengths[part[start]])))
                count = min(count, len(part) - start)
                while count > 1 and _padded(int(lengths[part[start + count - 1]])) * count > self._tokens:
                    count -= max(1, count // 32)
                batches.append(part[start : start + count])
                start += count
        return [batches[i] for i in rng.permutation(len(batches))]

    def make(self, table: Utterances, rows: np.ndarray, rng: np.random.Generator | None) -> Batch:
        """The indices of one batch. Without ``rng`` the predictor gets the first frames (validation)."""
        first, frames, sentence, voice = (
            x[rows][:, None] for x in (table.first, table.frames, table.sentence, table.voice)
        )
        count = len(rows)
        if rng is None:
            form, named = np.arange(count) % 2, np.arange(count) // 2 % 2
        else:
            form, named = rng.choice(len(SpokenTexts.SHARES), count, p=SpokenTexts.SHARES), rng.integers(0, 2, count)
        text_start = self._texts.starts[form, sentence[:, 0]][:, None]
        text_length = self._texts.lengths[form, sentence[:, 0]][:, None]
        before = (PREFIX - 1 + named)[:, None]
        start = before + text_length + 1  # of the codec
        length = _padded(int((start + 1 + frames).max()))
        at = np.arange(length)[None]
        is_text = (at >= before) & (at < before + text_length)
        source = np.clip(text_start + at - before, 0, len(self._texts.ids) - 1)
        text = np.where(is_text, self._texts.ids[source], self._text.tts_pad_id)
        text = np.where(at == before + text_length, self._text.tts_eos_id, text)
        control = np.where((at >= before) & (at < start), self._control.pad_id, -1)
        control = np.where(at == start, self._control.bos_id, control)
        texts, codes = self._prefixes
        head = at[:, :PREFIX] < before
        text[:, :PREFIX] = np.where(head, texts[named], text[:, :PREFIX])
        control[:, :PREFIX] = np.where(head, codes[named], control[:, :PREFIX])
        control = np.where(control == -2, self._speakers[voice], control)
        is_frame = (at > start) & (at <= start + frames)
        is_target = (at >= start) & (at <= start + frames)
        frame = first + at - start - 1
        input_at = np.flatnonzero(is_frame)
        target_at = np.flatnonzero(is_target)
        target_frame = (frame + 1).ravel()[target_at]
        end = (at == start + frames).ravel()[target_at]
        speaking = np.flatnonzero(~end)
        if rng is None:
            predicted = speaking[: self._predicted]
        else:
            predicted = rng.choice(speaking, self._predicted, replace=len(speaking) < self._predicted)
        arrays = (
            text,
            control,
            input_at,
            frame.ravel()[input_at],
            input_at // length,
            target_at,
            np.where(end, 0, target_frame),
            end,
            predicted,
        )
        return Batch(*(self._upload(a) for a in arrays), real_tokens=int(self.lengths(table)[rows].sum()))

    def _upload(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else tensor


def _padded(length: int) -> int:
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def ahead(make: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, made in a thread that stays a few ahead; an error in it is raised here."""
    slots: queue.Queue = queue.Queue(PREFETCHED)
    stop = threading.Event()

    def put(item: object) -> None:
        while not stop.is_set():
            try:
                slots.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for batch in make:
                put(batch)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        while True:
            item = slots.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join(timeout=10)
