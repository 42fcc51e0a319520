"""Findings that the user silences: by a comment on the line, or by a table in pyproject.toml.

    total += loss  # cordwood: ignore[graph-leak]

    [tool.cordwood.doctor]
    ignore = ["shufflenet-g1", "hidden-sync:scripts/*.py"]

The comment may be on any line of the statement. The table is that of the nearest ``pyproject.toml`` above the script;
paths in it start at its folder, and a ``*`` also stands for slashes. What is silenced is still counted in the report.
"""

import ast
import fnmatch
import io
import linecache
import os
import re
import tokenize
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cordwood.common.suggest import did_you_mean
from cordwood.doctor.evidence.findings import CodeLine, Finding

_COMMENT = re.compile(r"#\s*cordwood:\s*ignore\[([^\]]*)\]")
_BARE = re.compile(r"#\s*cordwood:\s*ignore\b(?!\[[^\]]*\])")
_KEYS = ("ignore",)  # of the table
_MOST_NOTES = 5


@dataclass(frozen=True)
class Ignores:
    """What a configuration silences: ids of rules, each for all files or for those that a pattern names."""

    entries: tuple[tuple[str, str | None], ...] = ()
    folder: Path | None = None  # of the configuration
    notes: tuple[str, ...] = ()  # what is wrong with it

    @classmethod
    def near(cls, script: str | os.PathLike[str] | None, known: Collection[str] = ()) -> "Ignores":
        """Those of the nearest ``pyproject.toml`` above a script; without a script, above the current folder.

        A configuration that cannot be read silences nothing, and a note says so. `known` are the ids that exist.
        """
        try:
            start = Path.cwd() if script is None else Path(script).absolute().parent
        except OSError:  # the script has removed its current folder
            return cls()
        for folder in (start, *start.parents):
            file = folder / "pyproject.toml"
            try:
                if not file.is_file():
                    continue
                text = file.read_text(encoding="utf-8")
                return cls._from(tomllib.loads(text), folder, known)
            except (OSError, ValueError, RecursionError) as error:
                return cls(folder=folder, notes=(f"{file} could not be read, so it silences nothing: {error}",))
        return cls()

    @classmethod
    def _from(cls, configuration: dict[str, object], folder: Path, known: Collection[str]) -> "Ignores":
        table: object = configuration
        for key in ("tool", "cordwood", "doctor"):
            table = table.get(key, {}) if isinstance(table, dict) else None
        where = f"[tool.cordwood.doctor] of {folder / 'pyproject.toml'}"
        if not isinstance(table, dict):
            return cls(folder=folder, notes=(f"{where} is no table, so it silences nothing",))
        notes = [f"{where}: there is no key {key!r}{did_you_mean(key, _KEYS)}" for key in table if key not in _KEYS]
        listed = table.get("ignore", [])
        if not isinstance(listed, list):
            wanted = 'ignore = ["rule-id", "rule-id:path/*.py"]'
            return cls(folder=folder, notes=(*notes, f"{where}: a list is expected: {wanted}"))
        entries = []
        for entry in listed:
            rule, colon, pattern = entry.partition(":") if isinstance(entry, str) else ("", "", "")
            if not rule or (known and rule not in known):
                notes.append(f"{where}: {entry!r} in `ignore` names no rule{did_you_mean(rule, sorted(known))}")
            else:
                entries.append((rule, pattern if colon else None))
        return cls(tuple(entries), folder, tuple(notes))

    def why_silenced(self, finding: Finding) -> str | None:
        """Where it says that this finding shall not be told; None if nowhere."""
        place = finding.place
        if place is not None and finding.rule in ignored_on_the_line(place):
            return f"`# cordwood: ignore[{finding.rule}]` at {place}"
        for rule, pattern in self.entries:
            if rule == finding.rule and (pattern is None or self._matches(place, pattern)):
                entry = rule if pattern is None else f"{rule}:{pattern}"
                return f"{entry!r} in [tool.cordwood.doctor] of pyproject.toml"
        return None

    def _matches(self, place: CodeLine | None, pattern: str) -> bool:
        if place is None or self.folder is None:
            return False
        try:
            file = Path(place.file).absolute()
        except OSError:  # relative to a folder that is no more
            return False
        inside = file.relative_to(self.folder) if file.is_relative_to(self.folder) else file
        return fnmatch.fnmatchcase(inside.as_posix(), pattern.removeprefix("./"))


def mistakes_in(files: Iterable[str], known: Collection[str]) -> list[str]:
    """Comments that silence nothing, though somebody meant them to: a name that no rule has, or none at all."""
    notes = []
    for file in dict.fromkeys(files):
        for line, comment in _comments(_lines(file)):
            where = f"{file}:{line}"
            for match in _COMMENT.finditer(comment):
                for rule in (each.strip() for each in match[1].split(",")):
                    if rule not in known:
                        meant = did_you_mean(rule, sorted(known))
                        notes.append(f"{where}: {rule!r} in `# cordwood: ignore[...]` names no rule{meant}")
            if _BARE.search(comment):
                notes.append(f"{where}: `# cordwood: ignore` silences nothing without a rule: ignore[rule-id]")
    more = len(notes) - _MOST_NOTES
    return notes if more <= 0 else [*notes[:_MOST_NOTES], f"{more} more comments silence nothing"]


def _lines(file: str) -> list[str]:
    """Of a file with comments for the doctor; none of any other."""
    try:
        lines = linecache.getlines(file)
    except ValueError:  # no file can have such a name
        return []
    return lines if any("cordwood" in line for line in lines) else []


def ignored_on_the_line(place: CodeLine) -> set[str]:
    """The ids of rules in comments of the statement that a place lies in."""
    lines = _lines(place.file)
    if not lines:
        return set()
    first, last = _statement(lines, place.line)
    return {
        rule.strip()
        for line, comment in _comments(lines)
        if first <= line <= last
        for match in _COMMENT.finditer(comment)
        for rule in match[1].split(",")
    }


def _statement(lines: list[str], line: int) -> tuple[int, int]:
    """First and last line of the innermost statement; of a block only its head, since its body has lines of its own."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return line, line
    found = (line, line)
    smallest = len(lines) + 1
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        last = max(last, node.lineno)
        if node.lineno <= line <= last and last - node.lineno < smallest:
            found, smallest = (node.lineno, last), last - node.lineno
    return found


def _comments(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Comments, not texts that look like them."""
    try:
        for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return
