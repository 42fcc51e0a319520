"""`cordwood bench check`: run suites again and report the ratios that became worse.

`__main__.py` is the command, `comparison.py` compares two result files.
"""
