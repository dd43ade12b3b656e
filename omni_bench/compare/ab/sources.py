"""What an arm's environment is made from: a commit of a git repository, the working tree, or a wheel."""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omni_bench.compare.ab.words import GIT
from omni_bench.errors import ConfigError, alternatives

GIT_TIMEOUT_S = 120.0
_MOST_SHOWN = 20
"""Branches and tags that a message lists; a repository of years has thousands."""
WORKING_TREE = "."
_SNAPSHOT_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "omni-bench"), ("EMAIL", "omni-bench@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}


@dataclass(frozen=True)
class Source:
    """``place``: the top folder of a repository, or a wheel. ``revision``: the full commit, or the wheel's SHA-256.

    ``title``: for people.
    """

    kind: str
    place: str
    revision: str
    title: str


def find_source(text: str, folder: Path) -> Source:
    """The source that ``git:REF``, ``git:REPOSITORY@REF``, ``git:.`` (the working tree) or a path of a wheel names.

    Without a repository it is that of ``folder``, to which paths are relative. Raises ConfigError.
    """
    if not text.startswith(GIT):
        return _wheel(text, folder)
    ref = text.removeprefix(GIT)
    place, at, named = ref.partition("@")
    repository = folder
    if at and place and (folder / place).is_dir():
        repository, ref = folder / place, named
    top = Path(_git(repository, "rev-parse", "--show-toplevel", what=text))
    if ref in ("", WORKING_TREE):
        return _working_tree(top, text)
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", what=text)
    except ConfigError:
        known = _git(top, "for-each-ref", "--format=%(refname:short)", what=text).splitlines()
        label = "branches and tags"
        if len(known) > _MOST_SHOWN:
            known = difflib.get_close_matches(ref, known, n=5) or known[:5]
            label += " (git branch -a and git tag list all)"
        raise ConfigError(
            f"{text!r}: {top} has no branch, tag or commit {ref!r}{alternatives(ref, known, label)}; "
            "git:. is the working tree"
        ) from None
    return Source("git", str(top), commit, f"{text} ({commit[:12]})")


def _wheel(text: str, folder: Path) -> Source:
    path = (folder / text).absolute()
    if not path.is_file():
        raise ConfigError(f"{text!r}: there is no such wheel ({path})")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Source("wheel", str(path), digest, f"{path.name} (sha256 {digest[:12]})")


def _working_tree(top: Path, text: str) -> Source:
    """The repository as it lies there, with what is not committed and not ignored.

    Its files are stored as a commit that no branch knows, by way of a copy of the index: neither the index, nor the
    files, nor any ref change, and the same files give the same commit.
    """
    head = _git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", what=text)
    index = top / _git(top, "rev-parse", "--git-path", "index", what=text)
    with tempfile.TemporaryDirectory(prefix="omni-bench-ab-") as temporary:
        copy = Path(temporary) / "index"
        if index.is_file():
            shutil.copyfile(index, copy)
        env = {"GIT_INDEX_FILE": str(copy)}
        _git(top, "add", "--all", "--", ":/", what=text, env=env)
        tree = _git(top, "write-tree", what=text, env=env)
    if tree == _git(top, "rev-parse", f"{head}^{{tree}}", what=text):
        return Source("git", str(top), head, f"{text} ({head[:12]})")
    message = "The working tree, for omni-bench ab"
    commit = _git(top, "commit-tree", "--no-gpg-sign", tree, "-p", head, "-m", message, what=text, env=_SNAPSHOT_AUTHOR)
    return Source("git", str(top), commit, f"{text} ({head[:12]} with changes that are not committed)")


def _git(folder: Path, *arguments: str, what: str, env: Mapping[str, str] | None = None) -> str:
    """What git prints, stripped. Raises ConfigError that names ``what``."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_S,
            check=False,
            env={**os.environ, **(env or {})},
        )
    except OSError as error:
        raise ConfigError(f"{what!r}: git cannot be executed: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{what!r}: git {arguments[0]} took longer than {GIT_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"no such commit in {folder}"
        raise ConfigError(f"{what!r}: {reason.removeprefix('fatal: ')}")
    return done.stdout.strip()
