"""The portable path and the fast one give the same bytes and the same arrays."""

import json
import os
import subprocess
import sys

import pytest

from tests.codecs.support.results import digests
from tests.format.support.readers import ROOT


@pytest.mark.slow
def test_every_processor_gives_the_same() -> None:
    environment = os.environ | {"CORDWOOD_PORTABLE": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", "tests.codecs.support.results"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    )
    portable = json.loads(answer.stdout)
    assert portable["fast"] is False
    assert {name for name, value in digests().items() if portable["digests"][name] != value} == set()
