"""What runs on GitHub agrees with the Makefile, and nothing is published that was not tested."""

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install '.[docs]'")

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))["jobs"]
    return found


def test_workflows_call_targets_that_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    commands = [
        *(ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines(),
        *(step["run"] for path in WORKFLOWS.iterdir() for job in jobs(path.name).values()
          for step in job.get("steps", []) if "run" in step),
    ]  # fmt: skip
    called = {found[1] for line in commands if (found := re.match(r"make ([\w-]+)", line))}
    assert {"test", "test-slow", "test-python"} <= called <= targets
    assert called <= set(re.findall(r"[\w-]+", re.findall(r"^\.PHONY:(.*)", makefile, re.MULTILINE)[0]))


def test_the_makefile_explains_all_its_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.*)", makefile, re.MULTILINE)[0].split())
    explained = set(re.findall(r'^\t@echo "make ([\w-]+)', makefile, re.MULTILINE))
    assert explained == phony - {"help", "check-machine"}


def test_only_what_was_tested_is_published_and_without_a_stored_token() -> None:
    publish = jobs("wheels.yml")["publish"]
    assert set(publish["needs"]) == set(jobs("wheels.yml")) - {"publish"} == {"test", "wheel", "sdist"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert "secrets." not in (WORKFLOWS / "wheels.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda p: p.stem)
def test_forms_ask_for_something(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    assert any(field.get("validations", {}).get("required") for field in form["body"])
