"""Helpers that know nothing of tensors, stores or training.

Text for people:

* ``text`` - sizes, names and values as short text
* ``numbers`` - times, shares and factors with a sensible number of digits
* ``tables`` - tables for a terminal
* ``html`` - tables and bars for a notebook
* ``progress_line`` - one line of progress that is written over

Arguments:

* ``suggest`` - "did you mean"
* ``arguments`` - checks arguments, and suggests the right keyword

Files, machine and process:

* ``files`` - opens regular files only
* ``atomic_file`` - a file that appears complete or not at all
* ``resources`` - the cores and the memory that this process may use
* ``lazy`` - names of a package that load when they are first used
* ``threads`` - work for several threads
* ``forks`` - locks and state that a forked process must not inherit
* ``seeding`` - seeds the random generators for one sample

``PACKAGE`` is the folder of the package. Imports only ``errors``; used by every package above it. Only ``seeding``
imports torch. A helper belongs here if several packages need it and it knows nothing of them.
"""

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent  # the folder of `cordwood`
