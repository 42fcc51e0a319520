"""``python -m cordwood`` is the ``cordwood`` command."""

import sys

from cordwood.cli import main

sys.exit(main())
