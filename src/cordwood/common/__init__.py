"""What every other package needs and none owns: text, tables, HTML, checked arguments, files, seeds, fork safety."""

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent  # the folder of `cordwood`
