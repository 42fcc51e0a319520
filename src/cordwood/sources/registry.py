"""The kinds of sources, built-in and from plug-ins, and which of them recognises a path.

    Kinds().open(Path("photos"), None, SourceOptions())

A plug-in is an installed package with an entry point of the group ``cordwood.sources``; its value is a `Source` class.
"""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from cordwood.common.suggest import did_you_mean
from cordwood.errors import UsageError
from cordwood.sources.base import Source, SourceOptions
from cordwood.sources.files.sniff import survey
from cordwood.sources.kinds.dataset import DatasetSource, IterableSource
from cordwood.sources.kinds.image_folder import ImageFolder, PlainImageFolder
from cordwood.sources.kinds.manifest import ManifestSource
from cordwood.sources.kinds.sample_file import SampleFile
from cordwood.sources.kinds.tensor_folder import TensorFolder

GROUP: Final = "cordwood.sources"
BUILT_IN: Final[tuple[type[Source], ...]] = (
    ImageFolder,
    PlainImageFolder,
    ManifestSource,
    TensorFolder,
    SampleFile,
    DatasetSource,
    IterableSource,
)


class Kinds:
    """The kinds by name. A plug-in is loaded when it is asked, and one that cannot be loaded is told of, no more."""

    def __init__(self) -> None:
        self._own: dict[str, type[Source]] = {source.kind: source for source in BUILT_IN}
        self._plugins: dict[str, EntryPoint] = {}
        self._broken: dict[str, str] = {}
        for point in entry_points(group=GROUP):
            if point.name not in self._own:
                self._plugins.setdefault(point.name, point)

    @property
    def names(self) -> list[str]:
        """Every kind there is."""
        return [*self._own, *sorted(self._plugins)]

    def get(self, kind: str) -> type[Source]:
        """The class of a kind."""
        if kind in self._own:
            return self._own[kind]
        if kind not in self._plugins:
            raise UsageError(
                f"there is no kind of source {kind!r:.100}; known are {', '.join(self.names)}"
                f"{did_you_mean(kind, self.names)}"
            )
        return self._load(kind)

    def open(self, path: Path, kind: str | None, options: SourceOptions) -> Source:
        """The source at a path, of that kind or of the one that recognises it."""
        return (self.get(kind) if kind is not None else self._told_by_content(path)).open(path, options)

    def _told_by_content(self, path: Path) -> type[Source]:
        found = [source for source in self._every() if self._recognises(source, path)]
        if len(found) == 1:
            return found[0]
        broken = "".join(f"; the plug-in {name} does not work: {why}" for name, why in self._broken.items())
        where = f"{str(path)!r:.200}"
        if found:
            kinds = " or ".join(source.kind for source in found)
            raise UsageError(f"{where} ({_content(path)}) may be {kinds}: say which by source_kind= or --from{broken}")
        if (path / "store.json").is_file():
            raise UsageError(
                f"{where} is a packed store already: cw.pack(cw.open({str(path)!r:.200}), ...) packs it anew"
            )
        if path.is_dir() and survey(path).is_empty:
            raise UsageError(
                f"{where} has no files in it; hidden ones and those behind links to folders do not count{broken}"
            )
        raise UsageError(
            f"{where} ({_content(path)}) is of no kind that is known by its content; source_kind= or --from says what "
            f"it is: {', '.join(self.names)}{broken}"
        )

    def _recognises(self, source: type[Source], path: Path) -> bool:
        try:
            return bool(source.recognises(path))
        except Exception as error:  # a plug-in's, which must not spoil what others know
            self._broken[source.kind] = f"{type(error).__name__}: {error}"
            return False

    def _every(self) -> list[type[Source]]:
        found = list(self._own.values())
        for kind in sorted(self._plugins):
            try:
                found.append(self._load(kind))
            except UsageError as error:
                self._broken[kind] = str(error)
        return found

    def _load(self, kind: str) -> type[Source]:
        point = self._plugins[kind]
        try:
            found = point.load()
        except Exception as error:  # a plug-in's module may raise anything
            raise UsageError(f"{point.value}: {type(error).__name__}: {error}") from error
        if not (isinstance(found, type) and issubclass(found, Source)):
            raise UsageError(f"{point.value} is no class derived from cordwood.sources.Source")
        return found


def _content(path: Path) -> str:
    """What is there, for people."""
    if path.is_dir():
        return str(survey(path))
    return f"a file of {path.stat().st_size:,} bytes" if path.is_file() else "neither file nor folder"
