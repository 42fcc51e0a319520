"""Other people's formats as inputs of a packing job, one a file."""

from cordwood.sources.datasets import DatasetSource, IterableSource, SamplesInMemory
from cordwood.sources.finding import find
from cordwood.sources.source import Input, Source, SourceOptions

__all__ = ["DatasetSource", "Input", "IterableSource", "SamplesInMemory", "Source", "SourceOptions", "find"]
