"""Writes completion scripts for shells: plain text that runs no Python when it is used."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cordwood.cli.completing.words import Option, Value, VerbWords

_BASH_HEAD = """\
# bash completion for cordwood, printed by: cordwood completion bash

# What may stand here: some words, nothing that can be foreseen, or folders. Files are bash's own default.
_cordwood_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); compopt +o default +o bashdefault 2>/dev/null; }
_cordwood_nothing() { compopt +o default +o bashdefault 2>/dev/null; }
_cordwood_folders() { compopt +o default +o bashdefault -o dirnames 2>/dev/null; }
# Words, and files beside them.
_cordwood_words_or_files() {
    COMPREPLY=($(compgen -W "$1" -- "$cur"))
    if ((${#COMPREPLY[@]})); then
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -- "$cur"))
        compopt -o filenames 2>/dev/null
    fi
}
# Files with a suffix, and folders, in which there may be some; all files where there are none of these.
_cordwood_files() {
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -X "!*$1" -- "$cur"; compgen -d -- "$cur"))
    compopt -o filenames 2>/dev/null
}

# How many words before this one, from number $1 on, are neither options nor the values of those listed behind it; and
# the first of them.
_cordwood_count() {
    local i word=$1 value_of=" $2 "
    count=0 first=""
    for ((i = word; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then ((i++))
        elif [[ $word == -* ]]; then
            if [[ $value_of == *" $word "* && ${COMP_WORDS[i + 1]} != = ]]; then ((i++)); fi
        else
            if ((count == 0)); then first=$word; fi
            ((count++))
        fi
    done
}

_cordwood() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb="" count first i
    # bash takes "--goal=fast" for three words.
    if [[ $cur == = ]]; then cur=""
    elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} != -* ]]; then verb=${COMP_WORDS[i]}; break; fi
    done
    case $verb in
"""
_BASH_TAIL = """\
    *) ;;
    esac
}

complete -o bashdefault -o default -F _cordwood cordwood
"""
_ZSH_HEAD = """\
#compdef cordwood
# zsh completion for cordwood, printed by: cordwood completion zsh

_cordwood() {
    local curcontext="$curcontext" state state_descr line
    typeset -A opt_args
"""
_ZSH_TAIL = """\
    esac
}

# Found in a folder of $fpath this file is the function's body; evaluated, it must be announced.
if [ "$funcstack[1]" = "_cordwood" ]; then
    _cordwood "$@"
else
    compdef _cordwood cordwood
fi
"""


# ---- bash ------------------------------------------------------------------------------------------------------------


def bash(verbs: Sequence[VerbWords]) -> str:
    """A function for bash's ``complete -F``; also good for the old bash of macOS."""
    return _BASH_HEAD + "\n".join(line for verb in verbs for line in _bash_verb(verb)) + "\n" + _BASH_TAIL


def _bash_verb(verb: VerbWords) -> Iterator[str]:
    taking = [flag for option in verb.options if option.value for flag in option.flags]
    start = "i + 1" if verb.name else "1"
    yield f"    {verb.name or chr(34) * 2})"
    yield f'        _cordwood_count $(({start})) "{" ".join(taking)}"'
    if verb.behind:
        yield "        case $first in"
        yield from (f"        {word}) {_bash_value(value)}; return ;;" for word, value in verb.behind)
        yield "        esac"
    if verb.ends_options:
        yield f"        if ((count > {len(verb.values) - verb.repeats})); then return; fi"
    valued = [(option, option.value) for option in verb.options if option.value is not None]
    if valued:
        yield "        case $prev in"
        yield from (f"        {'|'.join(option.flags)}) {_bash_value(value)}; return ;;" for option, value in valued)
        yield "        esac"
    flags = " ".join(flag for option in verb.options for flag in option.flags)
    yield f'        if [[ $cur == -* ]]; then _cordwood_words "{flags}"; return; fi'
    yield "        case $count in"
    for number, value in enumerate(verb.values):
        last = verb.repeats and number == len(verb.values) - 1
        yield f"        {'*' if last else number}) {_bash_value(value)} ;;"
    if not verb.repeats:
        yield "        *) _cordwood_nothing ;;"
    yield "        esac"
    yield "        ;;"


def _bash_value(value: Value) -> str:
    if value.suffix:
        return f"_cordwood_files {value.suffix}"
    if value.files:
        return f'_cordwood_words_or_files "{" ".join(value.words)}"' if value.words else ":"
    if value.folders:
        return "_cordwood_folders"
    return f'_cordwood_words "{" ".join(value.words)}"' if value.words else "_cordwood_nothing"


# ---- zsh -------------------------------------------------------------------------------------------------------------


def zsh(verbs: Sequence[VerbWords]) -> str:
    """A function for zsh's completion system."""
    command, *others = verbs
    lines = [f"        {_quoted(each)}" for option in command.options for each in _zsh_option(option)]
    named = (f"            {_quoted(f'{verb.name}:{verb.help}')}" for verb in others)
    body = [
        "    _arguments -C \\",
        *(f"{line} \\" for line in lines),
        "        '1: :->verb' \\",
        "        '*:: :->rest'",
        "    case $state in",
        "    verb)",
        "        local -a verbs=(",
        *named,
        "        )",
        "        _describe -t verbs verb verbs",
        "        ;;",
        "    rest)",
        "        case $words[1] in",
        *(line for verb in others for line in _zsh_verb(verb)),
        "        esac",
        "        ;;",
    ]
    return _ZSH_HEAD + "\n".join(body) + "\n" + _ZSH_TAIL


def _zsh_verb(verb: VerbWords) -> Iterator[str]:
    specs = [each for option in verb.options for each in _zsh_option(option)]
    for number, value in enumerate(verb.values, 1):
        last = verb.repeats and number == len(verb.values)
        if last and verb.ends_options:
            # A script, or a word in its place, and behind it the script's own words.
            if value.words:
                specs.append(f"1:{value.name}:{_zsh_value(value)}")
            specs.append(f"*::argument:{_zsh_rest(verb)}")
        else:
            specs.append(f"{'*' if last else number}:{value.name}:{_zsh_value(value)}")
    yield f"        {verb.name})"
    yield f"            _arguments{' -A ' + _quoted('-*') if verb.ends_options else ''} \\"
    yield " \\\n".join(f"                {_quoted(spec)}" for spec in specs)
    yield "            ;;"


def _zsh_rest(verb: VerbWords) -> str:
    """What follows the first word."""
    if not verb.behind:
        return "_files"
    cases = (
        f"({word}) {'compadd ' + ' '.join(value.words) if value.words else _zsh_value(value)} ;;"
        for word, value in verb.behind
    )
    return f"{{ case $line[1] in {' '.join(cases)} (*) _files ;; esac }}"


def _zsh_option(option: Option) -> Iterator[str]:
    said = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    for flag in option.flags:
        # A long option's value may stand behind an equals sign.
        takes = "" if option.value is None else f":{option.value.name}:{_zsh_value(option.value)}"
        equals = "=" if takes and flag.startswith("--") else ""
        yield f"*{flag}{equals}[{said}]{takes}"


def _zsh_value(value: Value) -> str:
    if value.suffix:
        return f'_files -g "*{value.suffix}"'
    if value.files and value.words:
        return f"{{ _alternative 'words:word:({' '.join(value.words)})' 'files:file:_files' }}"
    if value.files:
        return "_files"
    if value.folders:
        return "_files -/"
    return f"({' '.join(value.words)})" if value.words else " "


# ---- fish ------------------------------------------------------------------------------------------------------------


def fish(verbs: Sequence[VerbWords]) -> str:
    """A list of ``complete`` commands."""
    command, *others = verbs
    lines = ["# fish completion for cordwood, printed by: cordwood completion fish", ""]
    begun = "-n __fish_use_subcommand"
    lines += (f"complete -c cordwood {begun} -f -a {verb.name} -d {_quoted(verb.help)}" for verb in others)
    lines += (_fish_option(option, begun) for option in command.options)
    for verb in others:
        here = f"-n '__fish_seen_subcommand_from {verb.name}'"
        lines += ["", *(_fish_option(option, here) for option in verb.options)]
        lines += (f"complete -c cordwood {here} {_fish_value(value)}" for value in verb.values if not value.files)
        lines += (
            f"complete -c cordwood {here} -a {_quoted(' '.join(value.words))}"
            for value in verb.values
            if value.files and value.words
        )
    return "\n".join(lines) + "\n"


def _fish_option(option: Option, condition: str) -> str:
    flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    takes = "" if option.value is None else " -r" if option.value.files else f" -r {_fish_value(option.value)}"
    return f"complete -c cordwood {condition} {flags}{takes} -d {_quoted(option.help)}"


def _fish_value(value: Value) -> str:
    if value.folders:
        return "-f -a '(__fish_complete_directories)'"
    return f"-f -a {_quoted(' '.join(value.words))}" if value.words else "-f"


def _quoted(text: str) -> str:
    """For all three: between single quotes nothing has a meaning."""
    return "'" + text.replace("'", "'\\''") + "'"


SCRIPTS: Final[dict[str, Callable[[Sequence[VerbWords]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
