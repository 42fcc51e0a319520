"""Run a transform over a source into a store: workers, journal, progress; merging, updating and exporting stores."""

from cordwood.packing.report.estimate import Estimate
from cordwood.packing.report.progress import PackProgress
from cordwood.packing.report.summary import Packed
from cordwood.packing.run import pack
from cordwood.packing.transfer.export import Exported, export
from cordwood.packing.transfer.merge import Merged, merge

__all__ = ["Estimate", "Exported", "Merged", "PackProgress", "Packed", "export", "merge", "pack"]
