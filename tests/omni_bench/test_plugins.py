"""Things chosen by name: what installed packages may bring, and what is said of those that bring something else."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from omni_bench import plugins
from omni_bench.errors import ConfigError
from omni_bench.plugins import PluginError, Registry


class Thing:
    def __init__(self, name):
        self.name = name


own = Thing("own")
brought = Thing("brought")
not_a_thing = "brought"


@pytest.fixture
def registry(monkeypatch):
    """A registry with one built-in thing beside the given entry points (name, attribute of this module)."""

    def make(**points):
        found = [EntryPoint(name, f"{__name__}:{value}", "things") for name, value in points.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == "things" else [])
        monkeypatch.setattr(plugins.EntryPoint, "load", lambda point: globals()[point.value.partition(":")[2]])
        return Registry("things", Thing, {"own": own})

    return make


def test_built_in_and_brought_things(registry):
    things = registry(brought="brought")
    assert list(things) == ["own", "brought"] and len(things) == 2 and "brought" in things and "x" not in things
    assert things["own"] is own and things["brought"] is things.require("key", "brought") is brought
    with pytest.raises(KeyError):
        things["x"]
    with pytest.raises(ConfigError, match=r"group\.kind='owm'; did you mean 'own'\? Valid: brought, own"):
        things.require("group.kind", "owm")


def test_a_built_in_thing_looks_for_no_packages(registry, monkeypatch):
    things = registry()
    monkeypatch.setattr(plugins, "entry_points", lambda group: pytest.fail("looked"))
    assert things["own"] is own


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"brought": "not_a_thing"}, r"things:brought of the package .* is of type str, not .*Thing"),
        ({"brought": "missing"}, r"things:brought of .* cannot be loaded \(KeyError: 'missing'\); repair or uninstall"),
        ({"other": "brought"}, r"things:other of .* calls itself 'brought'; give both the same name"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_names_it(registry, points, message):
    things = registry(**points)
    with pytest.raises(PluginError, match=message):
        things.require("key", *points)
    assert things["own"] is own and things.clashes() == []


def test_a_name_that_is_taken_changes_nothing_and_is_told(registry):
    things = registry(own="brought")
    assert things["own"] is own and list(things) == ["own"]
    (clash,) = things.clashes()
    assert "entry point things:own of the package" in str(clash) and "its name is that of a built-in one" in str(clash)


def test_what_cannot_be_used_does_not_hide_the_rest(registry):
    found = registry(brought="brought", other="missing").usable()
    assert found["own"] is own and found["brought"] is brought and isinstance(found["other"], PluginError)


def test_a_package_that_exits_while_it_is_imported_ends_nothing(registry, monkeypatch):
    things = registry(leaving="brought")
    monkeypatch.setattr(plugins.EntryPoint, "load", lambda point: exec("raise SystemExit(7)"))
    assert isinstance(things.usable()["leaving"], PluginError)
