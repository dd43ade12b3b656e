"""The typed configuration of a run: one dataclass a config group.

Hydra composes ``scenarios/`` into these (``config/compose.py``); value checks that a type
cannot express live in ``config/validate.py``. Units are in the names. ``kind`` selects the
implementation within a group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Union

from omegaconf import MISSING


@dataclass
class ScenarioConfig:
    """What is measured, for people. ``name`` names the run folder."""

    name: str = MISSING
    description: str = ""


@dataclass
class TargetConfig:
    """The server. ``kind``: ``reference``, ``vllm_omni``, ``sglang_omni`` or ``command`` (launched here), or
    ``external`` (``url`` is needed).
    """

    kind: str = MISSING
    url: Optional[str] = None
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free port is chosen
    health_path: str = "/health"
    startup_timeout_s: float = 180.0
    stop_timeout_s: float = 10.0
    chaos: Optional[str] = (
        None  # a fault of the wire (omni_bench/targets/chaos_proxy/catalogue.py), by a proxy before the server
    )
    command: Optional[str] = None  # kind command: what is launched; {host}, {port} and {python} are filled in
    env: dict[str, str] = field(default_factory=dict)  # for a launched server; stored with the run: no secrets
    python: Optional[str] = None  # the interpreter of another environment, for a launched server
    revision: Optional[str] = None  # what is installed there: a commit, or the SHA-256 of a wheel
    label: Optional[str] = None  # what the user calls it, such as an arm of `omni-bench ab`
    probe: bool = True  # find out before timing how the server answers: framing, rate, streaming, seed
    devices: Optional[list[str]] = None  # GPUs for a launched server, by number or UUID: CUDA_VISIBLE_DEVICES
    gpus: int = 0  # how many GPUs a launched server needs at least; checked before the launch
    # vllm_omni and sglang_omni
    model: Optional[str] = None  # a folder, or a hub id that is in the local cache; never downloaded
    deploy_config: Optional[str] = None  # a file: --deploy-config of vllm-omni, --config of sglang-omni
    stage_overrides: dict[Any, Any] = field(default_factory=dict)  # vllm_omni: settings by stage: {0: {KEY: VALUE}}
    extra_args: list[str] = field(default_factory=list)  # further words of the command, as they are


@dataclass
class DatasetConfig:
    """Prompts. ``kind``: ``bundled``, ``seed_tts`` (a folder), ``huggingface`` or ``random`` (lengths by seed)."""

    kind: str = MISSING
    name: str = MISSING
    root: Optional[str] = None  # seed_tts: the folder that holds <locale>/meta.lst
    hf_id: Optional[str] = None  # huggingface: hub id, or a local arrow/parquet file or folder
    hf_split: str = "test"
    hf_columns: dict[str, str] = field(
        default_factory=lambda: {"id": "id", "text": "text", "ref_text": "ref_text", "ref_audio": "ref_audio"}
    )
    locale: str = "en"
    design: bool = False  # seed_tts, bundled: the fifth field of a row is an instruction, which is sent
    min_words: int = 5  # random: a prompt has so many words
    max_words: int = 40  # to so many
    seed: int = 0
    shuffle: bool = True
    subset: Optional[int] = None  # so many prompts of the data set and no others, chosen by the seed
    allow_repeats: bool = False


@dataclass
class ClientConfig:
    """How a request is made. ``kind``: a wire form of ``omni_bench/load/clients/wire_forms.py``.

    ``openai_speech`` (POST /v1/audio/speech, raw PCM), the same as ``openai_speech_sse`` (events),
    ``openai_speech_wav`` and ``openai_speech_ws`` (WebSocket); ``openai_chat_audio`` (POST /v1/chat/completions).
    """

    kind: str = MISSING
    model: str = "tiny"
    voice: Optional[str] = None
    task_type: Optional[str] = None
    language: Optional[str] = None
    instructions: Optional[str] = None  # how to speak, for prompts that have none of their own
    modalities: list[str] = field(default_factory=list)  # of chat: text, audio, or both
    send_reference: bool = False
    reference_form: str = "base64"  # or file: a file:// URL, for a server that sees the same disk
    seed: Optional[int] = 0  # request i gets seed + i; null sends no seed
    max_new_tokens: Optional[int] = None
    sample_rate_hz: int = 24000
    request_timeout_s: float = 300.0
    connect_timeout_s: float = 10.0
    stall_timeout_s: float = 20.0  # no audio or text for so long after the first: nobody listens any more
    max_audio_s: float = 300.0  # more than this is a failed request, not more memory
    api_key_env: Optional[str] = None  # name of the environment variable that holds the key
    extra_body: dict[str, Any] = field(default_factory=dict)  # stored with the run: no secrets


@dataclass
class LoadConfig:
    """When requests start. ``kind``: ``closed_loop``, ``open_loop`` or ``rate_search``."""

    kind: str = MISSING
    concurrency: list[int] = field(default_factory=lambda: [1])
    requests_per_level: int = 32
    requests_per_slot: int = 2  # a level of concurrency c measures at least this times c
    warmup_per_slot: int = 2
    rotate_levels: int = 0  # start the order of levels at this index
    lag_budget_ms: float = 25.0  # p99 of the client's lag, or of its lateness, above this makes a level invalid
    # open_loop and rate_search
    arrival: str = "poisson"  # constant, poisson, gamma, or trace
    burstiness: float = 1.0  # gamma: the shape; 1 is Poisson, below 1 comes in bursts
    seed: int = 0  # of the arrivals
    rate_hz: list[float] = field(default_factory=list)  # a level each; a rate search starts at the first
    ramp: Optional[list[float]] = None  # [from, to] in requests a second, one level, instead of rate_hz
    trace: Optional[str] = None  # the file of arrival=trace: .jsonl or .csv with a column of seconds
    trace_column: Optional[str] = None  # its name; null: offset_s, timestamp, time_s or arrival_s
    duration_s: Optional[float] = None  # of a level, instead of requests_per_level
    max_in_flight: int = 512  # a request that is due beyond this waits, which its queue time shows
    warmup_requests: int = 16  # of a level, at its own rate
    # rate_search
    probe_requests: int = 64  # of each probe at least; a p95 takes 59
    probe_s: float = 10.0  # and each probe lasts at least so long: a queue needs time to grow
    precision: float = 0.1  # ends when the lowest rate that fails is within this share of the highest that holds
    min_rate_hz: float = 0.01
    max_rate_hz: float = 256.0
    max_probes: int = 16


@dataclass
class SloConfig:
    """The service level that goodput and the rate search hold requests to; null: no limit.

    In an open loop the times (TTFP, TTFT, E2EL) are those from the scheduled start.
    """

    ttfp_ms: Optional[float] = None
    stall_s: Optional[float] = None  # of all pauses of a request's playback together
    ttft_ms: Optional[float] = None  # of a chat's text, as tpot_ms
    tpot_ms: Optional[float] = None
    e2el_ms: Optional[float] = None


@dataclass
class AsrConfig:
    """The judge. ``kind``: ``whisper`` (openai-whisper), ``faster_whisper`` (an optional package) or ``none``."""

    kind: str = MISSING
    model: str = "auto"  # a Whisper name, a path (whisper: a .pt file, faster_whisper: a folder), or auto
    device: str = "auto"  # auto, cpu, cuda, cuda:N
    workers: Optional[int] = None  # processes; null: 2 on CPU, 1 on CUDA
    threads_per_worker: int = 1
    batch_size: Optional[int] = None  # clips decoded together; null: 8 on CPU, 16 on CUDA
    lead_silence_ms: int = 250
    tail_silence_ms: int = 200
    wer_limit: float = 0.15  # corpus WER above this makes a level invalid
    own_error: bool = True  # let the judge hear the data set's reference recordings too: its own WER


@dataclass
class ChecksConfig:
    """What is checked beside WER and the signal of every response."""

    signal: bool = True  # clicks, dropouts, noise and copied audio; off for what is not speech
    cross_talk: bool = True  # are a neighbour's words heard? needs a judge
    parity_requests: int = 0  # of each level, sent once more alone and compared; 0: none
    speaker_similarity: bool = (
        False  # does every utterance sound like its voice? needs a judge and resemblyzer's weights
    )


@dataclass
class ReferenceConfig:
    """The bundled reference server (``reference_impl``). See ``reference_impl/settings.py``."""

    preset: str = "tiny"
    checkpoint: str = "bundled"
    device: str = "auto"
    dtype: str = "auto"
    max_batch: int = 32
    max_queue: int = 256
    max_seq_len: int = 512
    join_every_frames: int = 6  # graphs=full_step, more than half of the rows busy: read waiting prompts so often
    deterministic: bool = False
    first_chunk_frames: int = 1
    chunk_frames: int = 8
    chunk_growth: str = "buffered"  # as large as the listener's store allows, or double: 1, 2, 4, ...
    predictor: str = "kv_cache"  # kv_cache, reprefill or fixed_window: one result, three costs
    temperature: Optional[float] = None  # null: the checkpoint's own, as for the next six
    top_k: Optional[int] = None
    top_p: Optional[float] = None
    repetition_penalty: Optional[float] = None
    predictor_temperature: Optional[float] = None
    predictor_top_k: Optional[int] = None
    predictor_top_p: Optional[float] = None
    threads: Optional[int] = None
    recorded: bool = True  # on a CPU, replay recorded operations instead of running them in Python
    fault: Optional[str] = None  # a fault of the catalogue (reference_impl/faults.py); off by default
    graphs: str = "off"  # off, compile, cuda_graph or full_step (CUDA): how a decode step is executed
    buffers: str = "device"  # or host_roundtrip: codes and states go through the host at every step
    chat_token_ms: float = 5.0  # the pace of the stand-in for a text model in /v1/chat/completions; 0: at once
    engine_process: Union[bool, str] = "auto"  # the engine in a process of its own: auto, true or false


@dataclass
class OutputConfig:
    """What is kept. ``save_audio``: ``worst`` (failed checks and the ``worst_n`` highest WER), ``all`` or ``none``."""

    root: str = "reports/runs"
    save_audio: str = "worst"
    worst_n: int = 5
    plots: bool = True


@dataclass
class RunConfig:
    """The whole of one ``omni-bench run``."""

    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    load: LoadConfig = field(default_factory=LoadConfig)
    slo: SloConfig = field(default_factory=SloConfig)
    asr: AsrConfig = field(default_factory=AsrConfig)
    checks: ChecksConfig = field(default_factory=ChecksConfig)
    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    output: OutputConfig = field(default_factory=OutputConfig)


DATASET_KINDS = ("bundled", "seed_tts", "huggingface", "random")


CLOSED_LOOP, OPEN_LOOP, RATE_SEARCH = "closed_loop", "open_loop", "rate_search"
