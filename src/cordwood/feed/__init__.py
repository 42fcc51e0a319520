"""Feed: batches of a store at memory speed, in any order, resumed anywhere.

    loader = cw.Loader(cw.open("train.cordwood"), batch_size=256, shuffle=True)
    for batch in loader: ...

`loader.py` is the door. `order/permutation.py`, `order/samplers.py` and `order/steps.py` say which sample comes when
and on which rank; `ahead/background.py` runs ahead of the consumer; `batches/maker.py` and `batches/epoch.py` make
batches there; `device/mover.py` takes them on.
"""

from cordwood.feed import augment as augment
from cordwood.feed.batches.padding import Padded as Padded
from cordwood.feed.loader import Loader as Loader
from cordwood.feed.prefetching import prefetch as prefetch
from cordwood.feed.stats import Stats as Stats
