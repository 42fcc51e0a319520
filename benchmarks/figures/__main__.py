"""Write the figures of the READMEs and of the pages again; with --check, only compare them with the result files."""

import sys

from benchmarks.figures import pages, readmes

if __name__ == "__main__":
    sys.exit(readmes.main() | pages.main())
