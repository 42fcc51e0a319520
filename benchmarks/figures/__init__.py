"""The numbers that the READMEs and the pages quote, made from the result files.

    python -m benchmarks.figures                # write the tables of the READMEs and of the pages again
    python -m benchmarks.figures --check        # exit 1 if one of them is not what the result files say

`selection.py` lists what the READMEs show, `readmes.py` writes it, and `pages.py` writes the tables of the docs.
"""
