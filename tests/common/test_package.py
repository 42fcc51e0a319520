"""Places that are computed from the package's folder exist."""

from pathlib import Path

import cordwood
from cordwood.common import PACKAGE
from cordwood.demo.acts.doctor import SCRIPT
from cordwood.doctor.evidence import fetch_stages, stacks
from cordwood.doctor.run import script, session


def test_it_is_the_folder_of_the_package() -> None:
    assert Path(cordwood.__file__).parent == PACKAGE


def test_what_is_computed_from_it_exists() -> None:
    assert SCRIPT.is_file()
    assert Path(stacks._RUNS).samefile(script.__file__)
    for folder in (fetch_stages._OWN_FOLDER, stacks._DOCTOR, session._DOCTOR, script._DOCTOR):
        assert Path(folder).samefile(PACKAGE / "doctor")
