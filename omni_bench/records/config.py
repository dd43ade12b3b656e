"""The typed configuration of a run: one dataclass per config group, each key with its default and an explanation.

Hydra composes ``scenarios/`` into these (``run/config/compose.py``); value checks that a type cannot express live in
``run/config/validate.py``. Units are in the names. ``kind`` selects the implementation within a group. The explanations
are what ``omni-bench run --help`` and ``docs/configuration.md`` show.
"""

# ruff: noqa: RUF009 (key() is dataclasses.field with an explanation: nothing mutable is shared)

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Optional

from omegaconf import MISSING

from reference_impl.settings import ServerSettings


def key(default: Any, explanation: str) -> Any:
    """A field with a default (lists and mappings are copied) and a line of explanation, in its metadata ``help``."""
    metadata = {"help": explanation}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class ScenarioConfig:
    """What is measured, for people."""

    name: str = key(MISSING, "name of the scenario, and of the folder of its runs")
    description: str = key("", "one line for reports and `omni-bench list`")


@dataclass
class TargetConfig:
    """The server."""

    kind: str = key(MISSING, "reference, vllm_omni, sglang_omni or command (launched here), or external (running)")
    url: Optional[str] = key(None, "external: base address of the server, such as http://127.0.0.1:8091")
    host: str = key("127.0.0.1", "address that a launched server binds")
    port: int = key(0, "port of a launched server; 0: a free one")
    health_path: str = key("/health", "the server is ready once this path answers with a status 2xx")
    startup_timeout_s: float = key(180.0, "seconds that a launched server may take to become ready")
    stop_timeout_s: float = key(10.0, "seconds that a server may take to stop before it is killed")
    chaos: Optional[str] = key(None, "put a proxy in front of the server that injects this fault of the wire")
    command: Optional[str] = key(None, "command: the command line; {host}, {port} and {python} are filled in")
    env: dict[str, str] = key({}, "environment variables of a launched server; stored with the run: no secrets")
    python: Optional[str] = key(None, "Python interpreter of a launched server's own environment")
    revision: Optional[str] = key(None, "what that environment holds: a commit, or the SHA-256 of a wheel")
    label: Optional[str] = key(None, "a name of your own for the server, such as a side of `omni-bench ab`")
    probe: bool = key(True, "before timing, find out framing, sample rate, streaming and the effect of a seed")
    devices: Optional[list[str]] = key(None, "GPUs of a launched server, by number or UUID (CUDA_VISIBLE_DEVICES)")
    gpus: int = key(0, "minimum number of GPUs, checked before the launch")
    cores: int = key(0, "CPU cores of a launched server's own, while the client keeps to the others; 0: both use all")
    model: Optional[str] = key(None, "vllm_omni, sglang_omni: a folder, or a hub id in the local cache; no download")
    deploy_config: Optional[str] = key(None, "file for --deploy-config of vllm-omni, or --config of sglang-omni")
    stage_overrides: dict[Any, Any] = key({}, "vllm_omni: settings of single stages, {0: {KEY: VALUE}}")
    extra_args: list[str] = key([], "vllm_omni, sglang_omni: further arguments, passed on unchanged")


@dataclass
class DatasetConfig:
    """The prompts."""

    kind: str = key(MISSING, "bundled, seed_tts (a folder), huggingface or random")
    name: str = key(MISSING, "name of the data set, in reports")
    root: Optional[str] = key(None, "seed_tts: the folder that holds <locale>/meta.lst, or a list file")
    hf_id: Optional[str] = key(None, "huggingface: hub id, or a local arrow or parquet file or folder")
    hf_split: str = key("test", "huggingface: split")
    hf_columns: dict[str, str] = key(
        {"id": "id", "text": "text", "ref_text": "ref_text", "ref_audio": "ref_audio"}, "huggingface: column names"
    )
    locale: str = key("en", "language of the prompts; seed_tts: the folder below root")
    language: Optional[str] = key(None, "language of the prompts where locale is the name of a folder; null: locale")
    design: bool = key(False, "bundled, seed_tts: send the fifth field of a row as the voice's description")
    min_words: int = key(5, "random: words per prompt, minimum")
    max_words: int = key(40, "random: words per prompt, maximum")
    seed: int = key(0, "seed of the order, of the subset and of random prompts")
    shuffle: bool = key(True, "draw the prompts in random order")
    subset: Optional[int] = key(None, "use only this number of prompts, chosen by the seed")
    allow_repeats: bool = key(False, "send prompts again where a run needs more than the data set has")

    @property
    def spoken(self) -> str:
        """The language of the prompts: ``language``, else ``locale``."""
        return self.language or self.locale

    @property
    def spoken_key(self) -> str:
        """The key that says it, for messages."""
        return "dataset.language" if self.language else "dataset.locale"


@dataclass
class ClientConfig:
    """How a request is made."""

    kind: str = key(MISSING, "wire form: openai_speech, openai_speech_wav, _sse or _ws, or openai_chat_audio")
    model: str = key("tiny", "model name in the request")
    voice: Optional[str] = key(None, "voice name in the request; null: the server's default")
    task_type: Optional[str] = key(None, "task_type of vllm-omni: CustomVoice, VoiceDesign or Base")
    language: Optional[str] = key(None, "language in the request; null: not sent")
    instructions: Optional[str] = key(None, "how to speak, for prompts without an instruction of their own")
    modalities: list[str] = key([], "openai_chat_audio: text, audio or both")
    send_reference: bool = key(False, "send the prompt's reference recording and its text (voice cloning)")
    reference_form: str = key("base64", "base64, or file: a file:// URL, for a server that sees the same disk")
    seed: Optional[int] = key(0, "request i gets seed + i; null: no seed is sent")
    max_new_tokens: Optional[int] = key(None, "limit on generated tokens; null: not sent")
    sample_rate_hz: int = key(24000, "sample rate of raw samples")
    request_timeout_s: float = key(300.0, "a request that takes longer has failed")
    connect_timeout_s: float = key(10.0, "a connection that takes longer has failed")
    stall_timeout_s: float = key(20.0, "a stream that is silent for longer after its first audio or text has failed")
    max_audio_s: float = key(300.0, "an answer with more audio than this has failed")
    content_types: list[str] = key([], "content types taken for what was asked for, as of a gateway: [audio/mpeg]")
    api_key_env: Optional[str] = key(None, "name of the environment variable that holds the API key")
    api_key_header: str = key("Authorization", "header of the key: Authorization (Bearer KEY) or its own, as api-key")
    extra_body: dict[str, Any] = key({}, "further fields of the request; stored with the run: no secrets")


@dataclass
class LoadConfig:
    """When requests start."""

    kind: str = key(MISSING, "closed_loop, open_loop or rate_search")
    concurrency: list[int] = key([1], "closed_loop: requests in flight, one level each")
    requests_per_level: int = key(32, "measured requests per level; see requests_per_slot and duration_s")
    requests_per_slot: int = key(2, "closed_loop: a level of concurrency c measures at least this times c")
    warmup_per_slot: int = key(2, "closed_loop: a level of concurrency c is warmed up with this times c requests")
    rotate_levels: int = key(0, "index of the level to begin with")
    workers: Optional[int] = key(
        None, "load processes; null: one for 64 in flight (open loop: 64 requests/s), half the cores at most"
    )
    engine: str = key("local", "where the load processes run: local, or ray, on the nodes of a cluster (the extra ray)")
    ray_address: str = key("auto", "engine=ray: auto (the cluster of this machine), local (a new one), or HOST:PORT")
    lag_budget_ms: float = key(25.0, "a level is invalid if the p99 of the client's own lag or lateness is above")
    arrival: str = key("poisson", "open loop: constant, poisson, gamma or trace")
    burstiness: float = key(1.0, "gamma: shape of the gaps; 1 is Poisson, below 1 comes in bursts")
    seed: int = key(0, "seed of the arrivals")
    rate_hz: list[float] = key([], "requests per second, one level each; a rate search begins with its one rate")
    ramp: Optional[list[float]] = key(None, "[from, to]: a rate that grows linearly, one level, instead of rate_hz")
    trace: Optional[str] = key(
        None, "arrival=trace: .jsonl or .csv with offset_s, timestamp, time_s or arrival_s (seconds)"
    )
    duration_s: Optional[float] = key(None, "open_loop: length of a level, instead of requests_per_level")
    max_in_flight: int = key(512, "open loop: a request due beyond this waits, which its queue time shows")
    warmup_requests: int = key(16, "open loop: warm-up requests of a level, at its own rate")
    probe_requests: int = key(64, "rate_search: requests of a probe, minimum (a p95 needs 59)")
    probe_s: float = key(10.0, "rate_search: length of a probe, minimum, so that a queue has time to grow")
    precision: float = key(0.1, "rate_search: stop when the failing rate is within this share of the holding one")
    min_rate_hz: float = key(0.01, "rate_search: lowest rate to try")
    max_rate_hz: float = key(256.0, "rate_search: highest rate to try")
    max_probes: int = key(16, "rate_search: maximum number of probes")


@dataclass
class SloConfig:
    """The service level, for goodput and the rate search; in an open loop times count from the scheduled start."""

    ttfp_ms: Optional[float] = key(None, "limit on the time to the first packet of audio; null: no limit")
    stall_s: Optional[float] = key(None, "limit on the sum of all pauses in a request's playback")
    ttft_ms: Optional[float] = key(None, "limit on the time to the first text of a chat")
    tpot_ms: Optional[float] = key(None, "limit on the time per further text token of a chat")
    e2el_ms: Optional[float] = key(None, "limit on the end-to-end latency")


@dataclass
class AsrConfig:
    """The judge."""

    kind: str = key(MISSING, "whisper (openai-whisper), faster_whisper (an optional package) or none")
    model: str = key("auto", "auto, a Whisper name, or a path (whisper: a .pt file, faster_whisper: a folder)")
    device: str = key("auto", "auto, cpu, cuda or cuda:N")
    workers: Optional[int] = key(None, "processes; null: 2 on a CPU, 1 on CUDA")
    batch_size: Optional[int] = key(None, "clips decoded together; null: 8 on a CPU, 16 on CUDA")
    lead_silence_ms: int = key(250, "silence put before each clip")
    tail_silence_ms: int = key(200, "silence put after each clip")
    wer_limit: float = key(0.15, "a level with a higher WER is invalid")
    own_error: bool = key(True, "also transcribe reference recordings of the data set: the judge's own WER")


@dataclass
class ChecksConfig:
    """What is checked beside WER."""

    signal: bool = key(True, "clicks, dropouts, noise and copied audio; turn it off for what is not speech")
    pace: bool = key(True, "doubt a sample rate with which nobody speaks so fast or slowly")
    cross_talk: bool = key(True, "look for the words of other requests (needs a judge)")
    parity_requests: int = key(0, "requests of each level that are sent again alone and compared")
    speaker_similarity: bool = key(False, "does every answer keep its voice? (needs a judge and resemblyzer's weights)")


@dataclass
class OutputConfig:
    """What is kept."""

    root: str = key("reports/runs", "folder of the run folders")
    save_audio: str = key("worst", "worst (all in which something was found, and three good ones), all or none")
    kept_audio_mb: float = key(200.0, "save_audio=worst: at most so many MB of recordings, the worst first")
    plots: bool = key(True, "draw the plots")
    profile: bool = key(False, "trace a few more requests after the levels (profile=true does for short)")


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
    reference: ServerSettings = field(default_factory=ServerSettings)
    output: OutputConfig = field(default_factory=OutputConfig)


REMOVED_KEYS = {
    "asr.threads_per_worker": 1,
    "load.trace_column": None,
    "output.worst_n": 5,
    "reference.buffers": "device",
    "reference.chunk_growth": "buffered",
}
"""Keys of older versions with their defaults, which is how all runs behave now: runs, histories and command lines that
hold a default are read as if they did not."""


def is_removed(name: str, value: Any) -> bool:
    """Whether ``name`` is a key of older versions and ``value`` its default."""
    return name in REMOVED_KEYS and value == REMOVED_KEYS[name]


DATASET_KINDS = ("bundled", "seed_tts", "huggingface", "random")


CLOSED_LOOP, OPEN_LOOP, RATE_SEARCH = "closed_loop", "open_loop", "rate_search"
LOCAL, RAY = "local", "ray"
"""``load.engine``."""
