"""The deep probes of a session, in the order in which they begin."""

from collections.abc import Callable
from pathlib import Path

from cordwood.doctor.evidence import Evidence
from cordwood.doctor.fetches import Fetches
from cordwood.doctor.patches import Patches
from cordwood.doctor.probes import fetching
from cordwood.doctor.probes.deep import DeepProbe
from cordwood.doctor.probes.memory import MemoryProbe
from cordwood.doctor.probes.parameters import ParameterProbe
from cordwood.doctor.probes.recording import TapeProbe
from cordwood.doctor.probes.sampling import StackProbe
from cordwood.doctor.probes.syncs import SyncProbe


def make_deep_probes() -> list[DeepProbe]:
    """New probes for one session."""
    return [ParameterProbe(), MemoryProbe(), SyncProbe(), StackProbe(), TapeProbe()]


def fetch_probe(patches: Patches, folder: Path, disturbed: Callable[[], object]) -> None:
    """Watch what loaders do to make a batch, in this process and in workers."""
    fetching.install(patches, folder, disturbed)


def collect_fetches(folder: Path, evidence: Evidence) -> Fetches | None:
    """What was seen of it."""
    training = [seen for seen in evidence.loaders if seen.training]
    dataset = getattr(training[0].loader, "dataset", None) if training else None
    return fetching.collect(folder, dataset)
