"""What trials print is not the script's output, from this process and from others."""

import subprocess
import sys
from contextlib import suppress

import pytest

from cordwood.doctor.measure.quiet_stdout import nothing_on_stdout

PROGRAM = """
import os, subprocess, sys
from cordwood.doctor.measure.quiet_stdout import nothing_on_stdout

print("before", end=" ")
with nothing_on_stdout():
    print("inside")
    os.write(1, b"inside")
    subprocess.run([sys.executable, "-c", "print('inside')"], check=True)
print("after")
"""


def test_nothing_of_it_is_seen_and_all_around_it_is() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("before after\n", "")


def test_a_stream_that_is_no_file_is_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    stream = sys.stdout
    with suppress(KeyboardInterrupt), nothing_on_stdout():
        print("inside")
        raise KeyboardInterrupt
    assert sys.stdout is stream
    print("after")
    assert capsys.readouterr().out == "after\n"


def test_without_a_stdout_nothing_goes_wrong() -> None:
    code = "import os, sys; os.close(1); sys.stdout = None\n" + PROGRAM
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
