"""What git refs and wheels are found to be."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from omni_bench.compare.ab.sources import find_source
from omni_bench.errors import ConfigError


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A repository with a commit, a tag and a branch; a function that runs git in it."""
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "repository"
    folder.mkdir()
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]

    def run(*arguments):
        done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    (folder / "server.py").write_text("print('one')\n")
    (folder / ".gitignore").write_text("*.log\n")
    run("add", ".")
    run("commit", "--quiet", "-m", "one")
    run("tag", "v1")
    (folder / "server.py").write_text("print('two')\n")
    run("commit", "--quiet", "-am", "two")
    run.folder = folder
    return run


@pytest.mark.parametrize("ref", ["main", "v1", "HEAD~1", "HEAD", "@"])
def test_a_ref_is_its_commit(ref, git):
    source = find_source(f"git:{ref}", git.folder)
    assert source.revision == git("rev-parse", f"{ref}^{{commit}}")
    assert (source.kind, source.place) == ("git", str(git.folder))
    assert source.title == f"git:{ref} ({source.revision[:12]})"


def test_another_repository(git, tmp_path):
    source = find_source("git:repository@v1", tmp_path)
    assert source.revision == git("rev-parse", "v1") and source.place == str(git.folder)


def test_a_folder_within_the_repository(git):
    (git.folder / "inside").mkdir()
    assert find_source("git:v1", git.folder / "inside").place == str(git.folder)


def test_the_working_tree_without_changes_is_its_head(git):
    (git.folder / "noise.log").write_text("ignored\n")
    assert find_source("git:.", git.folder).revision == git("rev-parse", "HEAD")


def test_the_working_tree_with_changes(git):
    (git.folder / "server.py").write_text("print('three')\n")
    (git.folder / "new.py").write_text("print('new')\n")
    (git.folder / "noise.log").write_text("ignored\n")
    (git.folder / "staged.py").write_text("print('staged')\n")
    git("add", "staged.py")
    untouched = [git("status", "--porcelain"), git("rev-parse", "HEAD"), git("for-each-ref"), git("stash", "list")]
    index = (git.folder / ".git" / "index").read_bytes()
    source = find_source("git:.", git.folder)
    assert source.revision != git("rev-parse", "HEAD") and "not committed" in source.title
    assert git("show", f"{source.revision}:server.py") == "print('three')"
    names = git("ls-tree", "--name-only", source.revision).splitlines()
    assert names == [".gitignore", "new.py", "server.py", "staged.py"]
    assert (git.folder / ".git" / "index").read_bytes() == index
    assert untouched == [
        git("status", "--porcelain"),
        git("rev-parse", "HEAD"),
        git("for-each-ref"),
        git("stash", "list"),
    ]
    assert find_source("git:.", git.folder).revision == source.revision, "the same files are the same source"
    (git.folder / "new.py").write_text("print('newer')\n")
    assert find_source("git:.", git.folder).revision != source.revision


@pytest.mark.parametrize("ref", ["nowhere", "--upload-pack=x", "v1:server.py", "-"])
def test_what_is_no_commit(ref, git):
    with pytest.raises(ConfigError, match="git:"):
        find_source(f"git:{ref}", git.folder)


def test_no_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ConfigError, match="not a git repository"):
        find_source("git:main", tmp_path)


def test_git_may_not_be_installed(git, monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ConfigError, match="git cannot be executed"):
        find_source("git:main", git.folder)


def test_a_wheel(tmp_path):
    (tmp_path / "server-1.0-py3-none-any.whl").write_bytes(b"wheel")
    source = find_source("server-1.0-py3-none-any.whl", tmp_path)
    assert source.kind == "wheel" and source.revision == hashlib.sha256(b"wheel").hexdigest()
    with pytest.raises(ConfigError, match="there is no such wheel"):
        find_source("other-1.0-py3-none-any.whl", tmp_path)


def test_a_ref_that_is_not_there_is_told_with_those_that_are(git, tmp_path):
    git("branch", "faster")
    with pytest.raises(
        ConfigError,
        match=r"'git:fastr': .* has no branch, tag or commit 'fastr'; did you mean 'faster'\? "
        r"Branches and tags: faster, .*; git:\. is the working tree$",
    ):
        find_source("git:fastr", tmp_path / "repository")


def test_of_many_refs_the_nearest_are_told(git, tmp_path):
    for number in range(30):
        git("branch", f"old{number}")
    git("branch", "faster")
    with pytest.raises(ConfigError, match=r"did you mean 'faster'\? Branches and tags \(git .*\): faster; git:\. is"):
        find_source("git:fastr", tmp_path / "repository")
    with pytest.raises(ConfigError, match=r"; branches and tags \(git .*\): (\S+, ){4}\S+; git:\. is"):
        find_source("git:zzzz", tmp_path / "repository")
