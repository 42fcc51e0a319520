"""``cw.pack``: runs a transform over a source, once, into a store. Also ``cw.cached``, ``cw.merge`` and ``cw.export``.

How a source is packed:

1. ``run``: the arguments of ``cw.pack`` -> checked settings, a source (``sources.find``) and a ``transform``.
2. ``dry_run``, with ``limit=``: a few inputs -> an estimate (``report.estimate``), and nothing else.
3. ``pack_run``: settings -> a new or resumed job. Locks the folder, compares the job with what ``journal`` recorded,
   and finds the position to start from. With ``update=True`` it calls ``update`` first.
4. ``workers.engine``: inputs -> tasks -> worker processes. Each reads its inputs, transforms them and, once the schema
   is known, encodes them (``workers.work``). Results come back in the order of the inputs.
5. ``output``: results -> shards. The first samples, and some from all over the source (``workers.spread``), fix the
   schema and the codec plans. ``journal`` records which inputs a shard holds, so that a killed job resumes.
6. ``report``: the state of the job -> progress, and at the end a summary.

``cached`` does all of this if the store is not what the call asks for, one process at a time, and opens it.

``transfer`` has ``merge`` and ``export``. Imports ``store``, ``sources``, ``tensors``, ``codecs``, ``common`` and
``native``; used by ``doctor``, ``demo`` and ``cli``.

Where to add things:

* An option of ``cw.pack``: ``pack``, ``one_run`` and, for type checkers, ``PackOptions`` in ``run.py``, ``cached`` in
  ``cached_store.py``, and ``Settings`` in ``pack_run.py`` if the run needs it; if it changes the stored bytes,
  ``job_options`` in ``journal/job_file.py``; the command in ``cli/verbs/pack.py``.
"""

from cordwood.packing.cached_store import cached
from cordwood.packing.report.estimate import Estimate
from cordwood.packing.report.progress import PackProgress
from cordwood.packing.report.summary import Packed
from cordwood.packing.run import pack
from cordwood.packing.transfer.export import Exported, export
from cordwood.packing.transfer.merge import Merged, merge
from cordwood.packing.workers.tasks import size_of

__all__ = ["Estimate", "Exported", "Merged", "PackProgress", "Packed", "cached", "export", "merge", "pack", "size_of"]
