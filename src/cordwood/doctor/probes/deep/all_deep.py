"""Makes the deep probes of a session, in the order in which they begin."""

from collections.abc import Callable
from pathlib import Path

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.fetches import Fetches
from cordwood.doctor.probes.deep.base import DeepProbe
from cordwood.doctor.probes.deep.memory import MemoryProbe
from cordwood.doctor.probes.deep.parameters import ParameterProbe
from cordwood.doctor.probes.deep.stack_sampler import StackProbe
from cordwood.doctor.probes.deep.syncs import SyncProbe
from cordwood.doctor.probes.deep.tape import TapeProbe
from cordwood.doctor.probes.fetch import install
from cordwood.doctor.probes.patches import Patches


def make_deep_probes() -> list[DeepProbe]:
    """New probes for one session."""
    return [ParameterProbe(), MemoryProbe(), SyncProbe(), StackProbe(), TapeProbe()]


def fetch_probe(patches: Patches, folder: Path, disturbed: Callable[[], object]) -> None:
    """Watch what loaders do to make a batch, in this process and in workers."""
    install.install(patches, folder, disturbed)


def collect_fetches(folder: Path, evidence: Evidence) -> Fetches | None:
    """What was seen of it."""
    training = [seen for seen in evidence.loaders if seen.is_training]
    dataset = getattr(training[0].loader, "dataset", None) if training else None
    return install.collect(folder, dataset)
