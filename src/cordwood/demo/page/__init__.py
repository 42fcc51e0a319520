"""The demo as one HTML file that opens offline.

Reading order:

* ``page`` - the whole page
* ``sections`` - the sections about images, packing, comparison, training and views
* ``doctor_section`` - the section about the doctor
* ``parts`` - headings, commands, and tables with bars
* ``drawing`` - bars and curves as SVG
* ``style`` - the style sheet

Imports ``report``, ``terminal``, ``doctor``, ``packing`` and ``common``; used by ``run``.
"""
