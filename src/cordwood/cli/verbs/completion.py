"""``cordwood completion``: a script that teaches a shell to complete the command's words."""

import argparse

HELP = "print a script that teaches your shell to complete this command's words"
_EXAMPLES = """\
examples:
  eval "$(cordwood completion bash)"                 in ~/.bashrc
  eval "$(cordwood completion zsh)"                  in ~/.zshrc, behind compinit
  cordwood completion fish > ~/.config/fish/completions/cordwood.fish
  cordwood completion bash > ~/.local/share/bash-completion/completions/cordwood
                                                     loaded when it is first needed

The script is made from the command's own options, and asks nothing of Python when you press Tab: print it again after
an update.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood completion`` takes."""
    from cordwood.cli.completing.shells import SCRIPTS

    parser.epilog = _EXAMPLES
    parser.add_argument(
        "shell", choices=list(SCRIPTS), metavar="SHELL", help=f"the shell that you use: {', '.join(SCRIPTS)}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from cordwood.cli import build_parser
    from cordwood.cli.completing.shells import SCRIPTS
    from cordwood.cli.completing.words import words_of

    print(SCRIPTS[arguments.shell](words_of(build_parser())), end="")
    return 0
