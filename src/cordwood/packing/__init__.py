"""Run a transform over a source into a store: workers, journal, progress; merging, updating and exporting stores."""

from cordwood.packing.estimation import Estimate
from cordwood.packing.exporting import Exported, export
from cordwood.packing.merging import Merged, merge
from cordwood.packing.progress import PackProgress
from cordwood.packing.running import pack
from cordwood.packing.summary import Packed

__all__ = ["Estimate", "Exported", "Merged", "PackProgress", "Packed", "export", "merge", "pack"]
