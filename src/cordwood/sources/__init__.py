"""Other people's formats as inputs of a packing job, one a file."""

from cordwood.sources.base import Input, Source, SourceOptions
from cordwood.sources.find_source import find
from cordwood.sources.kinds.dataset import DatasetSource, IterableSource, SamplesInMemory

__all__ = ["DatasetSource", "Input", "IterableSource", "SamplesInMemory", "Source", "SourceOptions", "find"]
