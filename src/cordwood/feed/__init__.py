"""The Loader: batches of a store, in any order, on any number of ranks, resumed anywhere.

    loader = cw.Loader(cw.open("train.cordwood"), batch_size=256, shuffle=True)
    for batch in loader: ...

How a batch is made:

1. ``loader``: arguments -> a checked configuration. ``arguments`` checks them, ``order`` makes the order of samples,
   ``augment.treatments`` decides what happens to images.
2. ``iterator``: ``iter(loader)`` -> one epoch. At the first batch it starts a thread (``ahead.background``).
3. ``batches.epoch``, in that thread: the order and this rank's ``order.steps`` -> the numbers and seeds of the samples
   of each batch.
4. ``batches.maker``: numbers -> a batch, by one native call of the store, or sample by sample if there is a
   ``sample_transform``. ``batches.collate`` combines the samples.
5. ``device.mover``: a batch -> the same batch on the device, copied while the device computes.
6. ``iterator``, in the training thread: takes the batch, counts it for ``state`` and ``stats``, and adapts
   ``ahead.pace``.

``prefetching`` is ``cw.prefetch``: steps 2 and 5 for any other loader. Imports ``store``, ``codecs``, ``common`` and
``native``; used by ``doctor`` and ``demo``.

Where to add things:

* An augmentation: a class with ``words`` and ``apply`` in ``augment/crops.py``; in ``augment/__init__.py`` its name in
  ``__all__``, ``Step`` and ``_STEPS``. Tests in tests/feed/augment/test_augment.py; its row in docs/feed.md.
* A rule of ``collate=``: ``batches/collate.py``.
"""

from cordwood.feed import augment as augment
from cordwood.feed.batches.padding import Padded as Padded
from cordwood.feed.iterator import LoaderIterator as LoaderIterator
from cordwood.feed.loader import Loader as Loader
from cordwood.feed.prefetching import Prefetched as Prefetched
from cordwood.feed.prefetching import prefetch as prefetch
from cordwood.feed.stats import LoaderStats as LoaderStats
