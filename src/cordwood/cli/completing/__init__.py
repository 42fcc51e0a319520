"""Completion scripts for bash, zsh and fish, made from the command's own parser.

Reading order:

* ``words`` - verbs, options and values, read from the parser
* ``shells`` - the scripts

Imports nothing of Cordwood; used by ``verbs``.
"""
