"""A page's blocks, run one after the other as a reader would: examples in one namespace, commands in the same folder.

    with PageRun(tmp_path) as run:
        for block in blocks("docs/pack.md"):
            run.do(block)

What a page says a block prints must be what it prints. A block that is not run says why, in the page or in one of the
tables here.
"""

import ast
import contextlib
import fnmatch
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from cordwood import cli
from tests.docs.support.pageblocks import ROOT, Block
from tests.docs.support.pageworld import THINGS, lay_out, named_in

# How a line begins -> why it is not run.
COMMANDS_NOT_RUN = {
    "make": "makes environments and runs this very suite; CI begins with it",
    "pip": "asks the network",
    "torchrun": "starts an interpreter for every rank; the tests of ranks start theirs in a quicker way",
    "cordwood bench": "takes minutes; tests/benchmarks runs every suite with few rows",
    "cordwood demo": "takes a minute; tests/demo/test_acts.py runs it with few images",
    "python examples/": "tests/docs/test_examples.py runs every example",
}
# Pages -> why their fragments are only compiled.
FRAGMENTS = {
    "docs/rules/*.md": "changes to the reader's own script; tests/doctor applies those of every rule",
}
EXAMPLES = {"python"}
COMMANDS = {"sh", "bash"}
SHOWN = {"", "text"}  # nothing to run, unless it is the output of the block above it
FIND_THINGS = {"doctor", "inspect"}  # verbs that end with 1 if there is something to tell
# What only a shell understands. Everything else is called in this process, which has imported torch already.
_FOR_A_SHELL = set("$`*?{}[]|&;<>()~")


class PageRun:
    """A folder, a namespace, and what the last block printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "page"
        self.given = folder / "given"  # for commands about things that the page does not make
        self.folder.mkdir()
        self.given.mkdir()
        self.names: dict[str, object] = {"__name__": "page"}
        self.printed: str | None = None
        self.saved: dict[str, str] = {}  # files that blocks became, and where; each must be used
        self.ran = 0

    def do(self, block: Block) -> None:
        """Run, compare or check one block; AssertionError says what is wrong with it, and where."""
        lay_out(self.folder, block.given)
        if block.language in SHOWN:
            self._compare(block)
            return
        self.printed = None
        if block.language == "json":
            json.loads(block.code)
        elif block.language == "toml":
            tomllib.loads(block.code)
        elif block.language in {*EXAMPLES, "py"}:
            self._example(block)
        elif block.language in COMMANDS:
            self._commands(block)
        else:
            raise AssertionError(f"{block.place}: nothing is known of the language {block.language!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        forget_modules(self.folder)
        if kind is None:
            assert not self.saved, f"no command uses {self.saved}"

    def _compare(self, block: Block) -> None:
        """Text right behind a block that was run is what that printed."""
        printed, self.printed = self.printed, None
        if block.follows and printed is not None and block.not_run is None:
            found = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
            told = [line.rstrip() for line in block.code.rstrip("\n").splitlines()]
            assert found == told, f"{block.place}: prints something else"

    def _example(self, block: Block) -> None:
        ast.parse(block.code, block.place)
        if block.saved_as:
            with (self.folder / block.saved_as).open("a", encoding="utf-8") as file:  # a file may come in pieces
                file.write(block.code)
            self.saved[block.saved_as] = block.place
        elif block.not_run is None and not is_fragment(block):
            assert block.language in EXAMPLES, f"{block.place}: a `py` block is not run, and must say why"
            self._uses(re.findall(r"^(?:from|import) ([\w.]+)", block.code, re.MULTILINE))
            with self._listening(self.folder):
                exec(compile(block.code, block.place, "exec"), self.names)  # the project's own pages
            self.ran += 1

    def _uses(self, said: Iterable[str]) -> None:
        """Note which saved files are spoken of, by name or as a module: `train.py`, `train:make_dataset`."""
        names = {name for word in said for name in (Path(word).name, word.partition(":")[0].rpartition("=")[2] + ".py")}
        self.saved = {name: place for name, place in self.saved.items() if name not in names}

    def _commands(self, block: Block) -> None:
        if block.not_run is not None or is_fragment(block):
            return
        lines = [line for line in block.code.replace("\\\n", " ").splitlines() if words(line)]
        folder = self.folder
        about = named_in(part for line in lines for word in words(line) for part in word.split("="))
        if any(not (folder / thing).exists() for thing in about):
            folder = self.given
            lay_out(folder, THINGS)
        forget_modules(folder)  # every command is a process of its own
        with self._listening(folder):
            for line in lines:
                if why_not_run(line) is None:
                    self._command(line, folder, block)
        forget_modules(folder)
        self.ran += 1

    def _command(self, line: str, folder: Path, block: Block) -> None:
        self._uses(word for word in words(line) if set(".:") & set(word))
        said = io.StringIO()
        command, *arguments = words(line)
        if command == "cordwood" and not _FOR_A_SHELL & set("".join(arguments)):
            with contextlib.redirect_stderr(said):
                code = called(arguments)
        else:
            code = in_a_shell(line, folder, said)
        finds = command == "cordwood" and arguments[0] in FIND_THINGS
        if code != 0 and not (finds and code == 1) and f"exit code {code}" not in line:
            raise AssertionError(f"{block.place}: `{line}` ended with {code}: {said.getvalue()[-2000:]}")

    @contextlib.contextmanager
    def _listening(self, folder: Path) -> Iterator[None]:
        """In the folder, as an interpreter that was started there; what is printed is kept."""
        printed = io.StringIO()
        path = sys.path[:]
        sys.path.insert(0, str(folder))
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            try:
                yield
            finally:
                sys.path[:] = path
        self.printed = printed.getvalue()


def forget_modules(folder: Path) -> None:
    """Another page may have a module of the same name."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


def is_fragment(block: Block) -> bool:
    """Whether a table says that nothing of this page can be run."""
    return any(fnmatch.fnmatch(block.page, pattern) for pattern in FRAGMENTS)


def why_not_run(line: str) -> str | None:
    """What the table says of a command; None for one that is run."""
    said = " ".join(words(line)) + " "
    found = (
        why for start, why in COMMANDS_NOT_RUN.items() if said.startswith(start if start[-1] == "/" else f"{start} ")
    )
    return next(found, None)


def words(line: str) -> list[str]:
    """A line's words as a shell sees them, without its comment."""
    return shlex.split(line, comments=True)


def called(arguments: list[str]) -> int:
    """`cordwood`, in this process."""
    try:
        return cli.main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def in_a_shell(line: str, folder: Path, said: io.StringIO) -> int:
    """Anything else, with the commands of this environment first in the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ended = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    print(ended.stdout, end="")
    said.write(ended.stderr)
    return ended.returncode
