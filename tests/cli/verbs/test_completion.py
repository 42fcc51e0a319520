"""Shell completion: the scripts work in real shells, and know every word of the command."""

import os
import pty
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood import cli
from cordwood.cli.completing.shells import SCRIPTS
from cordwood.cli.completing.words import FILES, FOLDERS, words_of

PATIENCE = 60.0  # seconds without a letter from a shell: it hangs
# What is typed before Tab -> what must stand there after it.
TYPED = {
    "cordwood pa": "cordwood pack",
    "cordwood --v": "cordwood --version",
    "cordwood pack --shard": "cordwood pack --shard-bytes",
    "cordwood pack --goal sm": "cordwood pack --goal small",
    "cordwood pack --goal=f": "cordwood pack --goal=fast",
    "cordwood trim x.pt --in": "cordwood trim x.pt --in-place",
    "cordwood merge a b --ou": "cordwood merge a b --output",
    "cordwood demo --output tr": "cordwood demo --output train.cordwood",
    "cordwood verify tr": "cordwood verify train.cordwood",
    "cordwood inspect ch": "cordwood inspect checkpoint.pt",
    "cordwood inspect train.cordwood ch": "cordwood inspect train.cordwood checkpoint.pt",
    "cordwood doctor --steps 3 co": "cordwood doctor --steps 3 compare",
    "cordwood doctor compare be": "cordwood doctor compare before.json",
    "cordwood doctor ": "cordwood doctor",  # a script, or `compare`: nobody knows
    "cordwood doctor train.p": "cordwood doctor train.py",
    "cordwood doctor train.py --step": "cordwood doctor train.py --step",  # it is the script's own
    "cordwood completion f": "cordwood completion fish",
    "cordwood bench fe": "cordwood bench feed",
    "cordwood bench check fe": "cordwood bench check feed",
    "cordwood bench check feed co": "cordwood bench check feed codecs",
}
FISH = {True: "-l", False: "-s"}  # how it calls long and short options
SET_UP = {
    "bash": "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'",
    "zsh": "unset zle_bracketed_paste; unsetopt beep listbeep; autoload -U compinit; compinit -u -D",
}


def script_of(shell: str) -> str:
    return SCRIPTS[shell](words_of(cli.build_parser()))


def needs(shell: str) -> "pytest.MarkDecorator":
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.cordwood").mkdir()
    for name in ("train.py", "checkpoint.pt", "before.json", "before.py", "verify-me-not.txt"):
        (tmp_path / name).touch()
    for shell in SCRIPTS:
        (tmp_path / f".completion.{shell}").write_text(script_of(shell))
    return tmp_path


class Typist:
    """Somebody in front of a shell, on a terminal of its own."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.seen = ""
        self._terminal, theirs = pty.openpty()
        variables = {"TERM": "dumb", "PATH": os.environ["PATH"], "HOME": str(folder)}
        self._shell = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=variables, start_new_session=True
        )
        os.close(theirs)

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, mark: str) -> str:
        """What is on the terminal up to this mark."""
        while mark not in self.seen:
            ready, _, _ = select.select([self._terminal], [], [], PATIENCE)
            assert ready, f"the shell says nothing more; it said {self.seen!r}"
            self.seen += os.read(self._terminal, 1 << 16).decode()
        found, _, self.seen = self.seen.partition(mark)
        return found

    def leaves(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._terminal)


@pytest.fixture(params=[pytest.param("bash", marks=needs("bash")), pytest.param("zsh", marks=needs("zsh"))])
def typist(request: pytest.FixtureRequest, folder: Path) -> Iterator[Typist]:
    shell: str = request.param
    words = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    someone = Typist(words, folder)
    # The command of that name only tells what it was given; its own words are split, so that they are no echo.
    tells = 'cordwood() { printf "%s<%s>" gi"ven" "$*"; echo; }'
    someone.types(f'{SET_UP[shell]}; {tells}; source ./.completion.{shell}; echo re"ady"\n')
    someone.until("ready")
    yield someone
    someone.leaves()


def test_a_real_shell_completes(typist: Typist) -> None:
    found = {}
    for typed in TYPED:
        typist.types(f"{typed}\t\n")
        typist.until("given<")
        found[typed] = "cordwood " + typist.until(">").strip().removesuffix("/")
    assert found == TYPED


@needs("fish")
def test_fish_completes(folder: Path) -> None:
    found = {}
    for typed in TYPED:
        asked = f'source .completion.fish; complete -C "{typed}"'
        done = subprocess.run(["fish", "--no-config", "-c", asked], cwd=folder, capture_output=True, text=True)
        assert done.stderr == ""
        offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        before = typed.rpartition(" ")[0]
        found[typed] = f"{before} {offered[0]}".removesuffix("/") if len(offered) == 1 else typed.strip()
    # fish knows no arguments of a script, and offers the doctor's options behind it, too; and it offers all files.
    assert found == {
        **TYPED,
        "cordwood doctor train.py --step": "cordwood doctor train.py --steps",
        "cordwood doctor compare be": "cordwood doctor compare be",
    }


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in SCRIPTS])
def test_the_syntax_is_right(shell: str, folder: Path) -> None:
    done = subprocess.run([shell, "-n", f".completion.{shell}"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_knows_every_verb_and_every_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == script_of(shell)
    for verb in words_of(cli.build_parser()):
        assert verb.name in script
        for option in verb.options:
            for flag in option.flags:
                assert (f" {FISH[flag[:2] == '--']} {flag.lstrip('-')} " if shell == "fish" else flag) in script


def test_every_argument_says_what_it_takes() -> None:
    """A new option's metavar must be one that tells whether files are offered for it."""
    others = {"N", "S", "V", "K/N", "SIZE", "KIND", "FIELD", "[FIELD=]MODULE:NAME"}
    for verb in words_of(cli.build_parser())[1:]:
        for value in (*verb.values, *(option.value for option in verb.options if option.value is not None)):
            assert value.words or value.files or value.folders or value.name in others, (verb.name, value)
            assert value.files == (value.name in FILES) or verb.ends_options
            assert value.folders == (value.name in FOLDERS)
