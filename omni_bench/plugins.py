"""Things that are chosen by name: those built in, and those that installed packages bring as entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from omni_bench.errors import ConfigError, alternatives

Thing = TypeVar("Thing")


class PluginError(ConfigError):
    """An installed package brings something that cannot be used."""


class Registry(Mapping[str, Thing], Generic[Thing]):
    """``built_in`` things, and those of the entry-point group ``group``, which must be of type ``of``.

    The packages are looked for when a name is not built in, or all names are wanted; one is imported when its own
    name is asked for. Raises KeyError for an unknown name and PluginError for a package that cannot be used.
    """

    def __init__(self, group: str, of: type[Thing], built_in: Mapping[str, Thing]) -> None:
        self.group, self._of, self._built_in = group, of, built_in
        self._loaded: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        if name in self._built_in:
            return self._built_in[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self.entry_points[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from self.entry_points

    def __len__(self) -> int:
        return len(self._built_in) + len(self.entry_points)

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self.entry_points

    def require(self, key: str, name: str) -> Thing:
        """The thing ``name``, the value of the setting ``key``. Raises ConfigError that lists the valid ones."""
        if name not in self:
            raise ConfigError(f"{key}={name!r}{alternatives(name, self)}")
        return self[name]

    def usable(self) -> dict[str, Thing | PluginError]:
        """Everything by name; in the place of what cannot be used, why."""
        found: dict[str, Thing | PluginError] = {}
        for name in self:
            try:
                found[name] = self[name]
            except PluginError as error:
                found[name] = error
        return found

    @cached_property
    def entry_points(self) -> dict[str, EntryPoint]:
        """Those of installed packages, by name; of two with one name the first, and none with a built-in name."""
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name not in self._built_in:
                found.setdefault(point.name, point)
        return found

    def clashes(self) -> list[PluginError]:
        """What installed packages bring in vain, as its name is taken."""
        found = []
        for point in entry_points(group=self.group):
            first = self.entry_points.get(point.name)
            if first is None or first.value != point.value:
                taken = "that of a built-in one" if first is None else f"that of the {self._whose(first)}"
                found.append(PluginError(f"{self._whose(point)} is not used: its name is {taken}"))
        return found

    def _load(self, point: EntryPoint) -> Thing:
        try:
            thing = point.load()
        except (Exception, SystemExit) as error:  # whatever foreign code raises while it is imported
            raise PluginError(
                f"{self._whose(point)}: {point.value} cannot be loaded ({type(error).__name__}: {error}); "
                "repair or uninstall the package"
            ) from error
        if not isinstance(thing, self._of):
            wanted = f"{self._of.__module__}.{self._of.__qualname__}"
            raise PluginError(f"{self._whose(point)}: {point.value} is of type {type(thing).__name__}, not {wanted}")
        if (name := getattr(thing, "name", point.name)) != point.name:
            raise PluginError(f"{self._whose(point)}: {point.value} calls itself {name!r}; give both the same name")
        return thing

    def _whose(self, point: EntryPoint) -> str:
        package = point.dist.name if point.dist is not None else "an unknown package"
        return f"entry point {self.group}:{point.name} of the package {package}"
