"""The report: its document, its pages, and the comparison of two."""
