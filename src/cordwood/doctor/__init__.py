"""The doctor: where every second of training goes, what to change, and proof that it helps.

    with cw.diagnose() as d:
        train()
    print(d.report)

Probes collect evidence while the user's own script runs (``run/session.py``, ``probes``), rules read it afterwards
(``rules/judging.py``, ``rules``), each replays or tries what it would advise, and ``report/report.py`` tells.
``timer.py`` is a stopwatch that waits for the device.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cordwood.doctor.report.report import Report as Report
    from cordwood.doctor.run.session import diagnose as diagnose
    from cordwood.doctor.timer import Timer as Timer

_HOME = {"Report": "report.report", "Timer": "timer", "diagnose": "run.session"}

__all__ = ["Report", "Timer", "diagnose"]


def __getattr__(name: str) -> object:
    # A timer needs no torch, which the session imports.
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
