"""The report of a run: one JSON document, and what is made of it.

Reading order:

* ``anatomy`` - figures of the steps and their phases
* ``layers`` - figures of layers and functions, and runs that train one model after another
* ``verdict`` - the verdict in one line
* ``report`` - the document: built, saved, loaded
* ``report_file`` - checks a document that is read from a file
* ``terminal`` - the report for a terminal
* ``html`` - the report as one HTML file
* ``charts`` - its charts, as SVG
* ``style`` - its style sheet
* ``comparison`` - two reports compared

Imports ``evidence``, ``code``, ``replay``, ``wording`` and ``common``, and of ``rules`` only types; used by ``run``,
``demo`` and ``cli``.
"""
