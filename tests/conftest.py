"""Settings of the whole test suite.

Hypothesis draws the same examples every time, so that a red run is red for everybody. To look for new ones:
``HYPOTHESIS_PROFILE=explore make test``.
"""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
