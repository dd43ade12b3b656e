"""The folder of one run: what is in it, how it is written while running, how it is read later.

run.json          the summary and provenance (``run.schema.json``), written once at the end
begun.json        while a run goes on, or if it was killed: the same without levels
requests.jsonl    one line a request, appended as it finishes: its timeline and derived facts
utterances.jsonl  one line a judged utterance: texts, transcript, edits
warmup.jsonl      one line a warm-up request: its texts and when it was in flight
cross_talk.jsonl  with that check, one line an output in which another request's words were heard
solo.jsonl        with the parity check, one line a request sent alone, in the form of requests.jsonl
parity.jsonl      and one line a comparison of a request in company with itself alone
codes.jsonl       and one line a request whose codec codes the server handed out
profile.json      with a profile, what its traces in profile/ say
.spool/           while a run goes on, and of one that was cut short: journal.jsonl, and a folder of audio an attempt
audio/  plots/  server.log  report.md  report.html  wer_evidence.md
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from omni_bench.errors import StoreError
from omni_bench.foreign_text import safe_name
from omni_bench.records.convert import plain, structure
from omni_bench.records.files import (
    is_there,
    json_bytes,
    lock_folder,
    os_errors_as_store_errors,
    parse_json,
    write_atomically,
    write_json,
)
from omni_bench.records.jsonl import JsonLinesWriter, read_json_lines
from omni_bench.records.lines import check_lines
from omni_bench.records.old_reasons import upgrade
from omni_bench.records.profile import RunProfile
from omni_bench.records.schema import validate_run


def alternatives_of(missing: Path) -> str:
    """The end of a message about a path that is not there: the nearest name beside it, else where runs lie."""
    with contextlib.suppress(OSError):
        names = sorted(path.name for path in missing.parent.iterdir())
        if near := difflib.get_close_matches(missing.name, names, n=1, cutoff=0.6):
            return f"; did you mean {missing.with_name(near[0])}?"
    return "; runs lie in reports/runs/SCENARIO/TIME"


_AGAIN = "make the run again, or put a whole copy of that file there"
_NEXT = {
    "run.json": _AGAIN,
    "requests.jsonl": _AGAIN,
    "utterances.jsonl": "remove it and judge the run again: omni-bench judge RUN",
    "cross_talk.jsonl": "remove it and judge the run again: omni-bench judge RUN",
}


@contextlib.contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Say of what is wrong with a file also what to do."""
    try:
        yield
    except StoreError as error:
        raise StoreError(f"{error}; {_NEXT.get(path.name, 'remove it: the report does without it')}") from None


class RunFolder:
    """A run on disk. Make one with :meth:`create` or :meth:`open`; every method raises StoreError.

    What its files are is told above; one of a check that was off is not there.
    """

    def __init__(self, path: Path):
        self._claim: int | None = None
        self.path = path
        self.run_json = path / "run.json"
        self.begun_json = path / "begun.json"
        self.requests_jsonl = path / "requests.jsonl"
        self.utterances_jsonl = path / "utterances.jsonl"
        self.warmup_jsonl = path / "warmup.jsonl"
        self.cross_talk_jsonl = path / "cross_talk.jsonl"
        self.solo_jsonl = path / "solo.jsonl"
        self.parity_jsonl = path / "parity.jsonl"
        self.codes_jsonl = path / "codes.jsonl"
        self.profile_json = path / "profile.json"
        self.spool = path / ".spool"
        self.journal_jsonl = self.spool / "journal.jsonl"
        self.plots_dir = path / "plots"
        self.server_log = path / "server.log"
        self.report_md = path / "report.md"
        self.report_html = path / "report.html"
        self.wer_evidence_md = path / "wer_evidence.md"
        self._writers: dict[Path, JsonLinesWriter] = {}

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """A new run folder; it may exist (Hydra makes it) but must not hold a run already, nor one that goes on.

        It is claimed for this process until :meth:`release` or the end of the process.
        """
        folder = cls(Path(path).absolute())
        with os_errors_as_store_errors("create", folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
            free = folder.claim()
            files = (folder.run_json, folder.requests_jsonl, folder.journal_jsonl)
            taken = [file.name for file in files if file.exists()]
        if not free:
            taken.append("one that is going on now")
        if taken:
            folder.release()
            raise StoreError(f"{folder.path} already holds a run ({taken[0]}); choose another folder")
        return folder

    def claim(self) -> bool:
        """Claim the folder for this process; False if another one has it, as its run goes on."""
        self._claim = lock_folder(self.path)
        return self._claim is not None

    def release(self) -> None:
        """Let go of the folder; more than once is fine."""
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """An existing run folder, finished or not; ``path`` may also be its run.json."""
        path = Path(path).absolute()
        folder = cls(path.parent if path.name == "run.json" and path.is_file() else path)
        if not any(file.is_file() for file in (folder.run_json, folder.requests_jsonl, folder.begun_json)):
            there = folder.path.exists()
            why = "it has neither run.json nor requests.jsonl" if there else "there is no such file or folder"
            inside = max(path.glob("*/run.json"), default=None)
            hint = "" if inside is None else f"; it holds runs, so name one of them, such as {inside.parent}"
            if not there:
                hint = alternatives_of(folder.path)
            raise StoreError(f"{folder.path} is not a run folder: {why}{hint}")
        return folder

    def write_begun(self, run: Mapping[str, Any]) -> None:
        """Write begun.json, in the form of run.json."""
        validate_run(run, "the run")
        write_json(self.begun_json, dict(run))

    def read_begun(self) -> dict[str, Any]:
        """begun.json, checked."""
        return _read_run(self.begun_json)

    def end(self, *, keep_spool: bool = False) -> None:
        """Remove what only a run needs that goes on; begun.json stays where there is no run.json."""
        if not keep_spool:
            shutil.rmtree(self.spool, ignore_errors=True)
        if self.run_json.is_file():
            self.begun_json.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what a run that never began its load has written; the server's log stays unless it is empty."""
        self.begun_json.unlink(missing_ok=True)
        if self.server_log.is_file() and not self.server_log.stat().st_size:
            self.server_log.unlink()

    def write_profile(self, profile: RunProfile) -> None:
        """Write profile.json."""
        write_json(self.profile_json, plain(profile))

    def read_profile(self) -> RunProfile | None:
        """profile.json, None without one."""
        with _damaged(self.profile_json):
            if not is_there(self.profile_json):
                return None
            with os_errors_as_store_errors("read", self.profile_json):
                data = self.profile_json.read_bytes()
            try:
                return structure(parse_json(data), RunProfile, str(self.profile_json))
            except (ValueError, RecursionError) as error:
                raise StoreError(f"{self.profile_json} is not JSON: {error}") from None

    def attempts(self) -> list[Path]:
        """The folders of audio as received: one for each time that the run was begun or gone on with."""
        return sorted(
            (path for path in self.spool.glob("*") if path.name.isdecimal() and path.is_dir()),
            key=lambda path: int(path.name),
        )

    def spooled(self, request_id: str, size: int) -> Path | None:
        """The payload of a request as received, if all ``size`` bytes of it are there.

        An attempt that was killed may still be writing its own.
        """
        for attempt in reversed(self.attempts()):
            path = attempt / f"{request_id}.pcm"
            if path.parent == attempt and path.is_file() and path.stat().st_size == size:
                return path
        return None

    def next_attempt(self) -> Path:
        """Where the audio of the attempt that begins now goes: a load worker that was orphaned writes elsewhere."""
        return self.spool / str(len(self.attempts()) + 1)

    def append_request(self, record: Mapping[str, Any]) -> None:
        """Append one finished request; it is on disk when this returns."""
        self._append(self.requests_jsonl, record)

    def append_solo(self, record: Mapping[str, Any]) -> None:
        """Append one request that was sent alone; it is on disk when this returns."""
        self._append(self.solo_jsonl, record)

    def _append(self, path: Path, record: Mapping[str, Any]) -> None:
        """A file that was removed meanwhile is made anew: what is written to the old one nobody can read."""
        if path in self._writers and not path.exists():
            self._writers.pop(path).close()
        if path not in self._writers:
            self._writers[path] = JsonLinesWriter(path)
        self._writers[path].append(record)

    def close(self) -> None:
        """Close requests.jsonl and solo.jsonl; more than once is fine."""
        while self._writers:
            self._writers.popitem()[1].close()

    def read_requests(self) -> list[dict[str, Any]]:
        """The lines of requests.jsonl; a last line that was cut by a kill is left out."""
        return self._read(self.requests_jsonl, needed=True)

    def write_lines(self, path: Path, records: Iterable[Mapping[str, Any]]) -> None:
        """Write one of the ``.jsonl`` files anew."""
        data = b"".join(json_bytes(dict(record), f"a line of {path.name}") + b"\n" for record in records)
        write_atomically(path, lambda temporary: temporary.write_bytes(data))

    def read_lines(self, path: Path) -> list[dict[str, Any]]:
        """The lines of one of the ``.jsonl`` files, [] if it is not there."""
        return self._read(path, needed=False)

    def _read(self, path: Path, *, needed: bool) -> list[dict[str, Any]]:
        with _damaged(path):
            if not is_there(path) and not needed:
                return []
            lines = read_json_lines(path)
            check_lines(path.name, lines, str(path))
            return lines

    def recording(self, relative: str | None) -> Path | None:
        """Where the recording that a line names is, None if it names none.

        Raises StoreError for one outside, and for what can be no path.
        """
        if relative is None:
            return None
        root = self.path.resolve()
        try:
            path = (root / relative).resolve()
        except RuntimeError:
            raise StoreError(f"its recording {relative!r} is a link to itself") from None
        except ValueError:
            raise StoreError(f"its recording {relative!r} is no path") from None
        if not path.is_relative_to(root):
            raise StoreError(f"its recording {relative!r} is outside the run folder")
        return path

    def write_utterances(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write utterances.jsonl anew."""
        self.write_lines(self.utterances_jsonl, records)

    def read_utterances(self) -> list[dict[str, Any]]:
        """The lines of utterances.jsonl, [] if there was no judge."""
        return self.read_lines(self.utterances_jsonl)

    def save_audio(self, name: str, pcm: bytes | Path, sample_rate_hz: int) -> str:
        """Write s16le mono ``pcm`` (or the file that holds it) as audio/NAME.wav; the path in the run folder.

        Characters of ``name`` that a file name should not have are replaced; names that
        differ only in those get different files. An odd last byte is dropped.
        """
        import soundfile

        relative = f"audio/{safe_name(name)}.wav"
        if isinstance(pcm, Path):
            with os_errors_as_store_errors("read", pcm):
                pcm = pcm.read_bytes()
        samples = np.frombuffer(pcm[: len(pcm) - len(pcm) % 2], dtype="<i2")
        wav = io.BytesIO()  # libsndfile would not pass on the error of a full disk
        try:
            soundfile.write(wav, samples, sample_rate_hz, subtype="PCM_16", format="WAV")
        except soundfile.LibsndfileError as error:
            raise StoreError(f"cannot make {relative} at {sample_rate_hz} Hz: {error}") from error
        write_atomically(self.path / relative, lambda path: path.write_bytes(wav.getbuffer()))
        return relative

    def write_run(self, run: Mapping[str, Any]) -> None:
        """Check ``run`` against the schema and write run.json."""
        validate_run(run, "the run")
        write_json(self.run_json, dict(run))

    def read_run(self) -> dict[str, Any]:
        """run.json, checked; the reasons of one before schema 2.0 have codes too.

        Raises StoreError if it is missing, broken, or of another major version.
        """
        with _damaged(self.run_json):
            is_whole = is_there(self.run_json)
        if not is_whole:
            finished = len(self.read_lines(self.requests_jsonl))
            what = "so that there is nothing to report or judge"
            if self.begun_json.is_file():
                what = f"omni-bench report {self.path} writes it from what is there"
            raise StoreError(
                f"{self.path} has no run.json: the run did not finish, {what}; "
                f"requests.jsonl holds {finished} finished requests"
            )
        return _read_run(self.run_json)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.release()

    def __del__(self) -> None:
        self.release()


def _read_run(path: Path) -> dict[str, Any]:
    with os_errors_as_store_errors("read", path):
        data = path.read_bytes()
    with _damaged(path):
        try:
            run = upgrade(parse_json(data))
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} is not JSON: {error}") from error
        validate_run(run, str(path))
    return run
