"""Makes the pages of docs/rules from the rules.

    python -m cordwood.doctor.rules.pages docs/rules

writes a page for each rule and an index; pages of rules that are no more are removed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from cordwood.common.text import counted
from cordwood.doctor.evidence.findings import Rule
from cordwood.doctor.rules import ALL_RULES

_MADE = "<!-- Made by `python -m cordwood.doctor.rules.pages docs/rules` from the rule itself: change it there. -->"
_SECTIONS = (
    ("measures", "What it measures"),
    ("costs", "Why it costs"),
    ("wrong", "When it would be wrong"),
    ("cure", "What to do"),
)
_SILENCING = """\
## Silencing it

On the line that it names: `# cordwood: ignore[RULE]`. For a project, or some files of it, in pyproject.toml:

```toml
[tool.cordwood.doctor]
ignore = ["RULE"]  # or "RULE:scripts/*.py"
```

[All rules](README.md)
"""


def pages(rules: Sequence[type[Rule]] = ALL_RULES) -> dict[str, str]:
    """File names and what is in them."""
    made = {f"{rule.id}.md": _page(rule) for rule in rules}
    made["README.md"] = _index(rules)
    return made


def write(folder: Path, rules: Sequence[type[Rule]] = ALL_RULES) -> int:
    """Make a folder's pages what they should be; how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages(rules)
    for old in folder.glob("*.md"):
        if old.name not in made and old.read_text(encoding="utf-8").startswith(_MADE):
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(made)


def _page(rule: type[Rule]) -> str:
    parts = [_MADE, f"# `{rule.id}`: {rule.title}"]
    for attribute, heading in _SECTIONS:
        parts += [f"## {heading}", _text(getattr(rule, attribute))]
    return "\n\n".join([*parts, _SILENCING.replace("RULE", rule.id)])


def _text(text: str) -> str:
    """Paragraphs and code as they stand, without the indentation of the class they are written in."""
    lines = text.strip("\n").splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return "\n".join([lines[0].strip(), *(line[margin:].rstrip() for line in lines[1:])]).strip()


def _index(rules: Sequence[type[Rule]]) -> str:
    rows = [f"| [`{rule.id}`]({rule.id}.md) | {rule.title} |" for rule in rules]
    return "\n".join(
        [
            _MADE,
            "",
            "# The doctor's rules",
            "",
            "What `cordwood doctor` looks for. A rule speaks only of what it has measured; it says so when it could",
            "not know, and when it found nothing. How to read a report: [the doctor](../doctor.md).",
            "",
            "| rule | what it finds |",
            "| --- | --- |",
            *rows,
            "",
        ]
    )


def main(words: Sequence[str]) -> int:
    """The command."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m cordwood.doctor.rules.pages FOLDER", file=sys.stderr)
        return 2
    print(f"{counted(write(Path(words[0])), 'page')} in {words[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
