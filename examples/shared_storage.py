"""The shared storage: tensors that look at the same memory, and what becomes of them in a file.

PyTorch saves storages, not tensors: two slices of one tensor share memory before ``torch.save`` and after
``torch.load``. That is what one wants of tied weights, and it has a price: the file holds the whole storage, whatever
little the slices see of it. The documented way out, ``clone()``, makes the file small and cuts the tie: what is written
through one slice is no longer seen by the other.

This script saves two slices of a large tensor in all three ways, and shows that one need not choose: ``cw.save`` writes
the bytes that somebody can reach, once, and what shared memory shares it after loading. Files that are there already
are looked into with ``cw.inspect``, and rewritten with ``cw.trim``.

    python examples/shared_storage.py
"""

import tempfile
from pathlib import Path

import torch

import cordwood as cw


def still_shared(path: Path) -> bool:
    """Whether a number written through the second slice is seen by the first, after a plain torch.load."""
    first, second = torch.load(path)
    second[0] = 1
    return bool(first[0] == 1)


def tell(what: str, path: Path) -> None:
    """One line: how large the file is, and whether the slices still share memory."""
    print(f"{what:<46}{path.stat().st_size:>12,} bytes   shared: {'yes' if still_shared(path) else 'no'}")


def main() -> None:
    """Save, look, trim."""
    tensor = torch.zeros(1_000_000)
    slices = [tensor[:1000], tensor[:10]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.save(slices, folder / "share.pt")
        tell("torch.save(slices)", folder / "share.pt")
        torch.save([each.clone() for each in slices], folder / "clones.pt")
        tell("torch.save([s.clone() for s in slices])", folder / "clones.pt")
        cw.save(slices, folder / "ours.pt")
        tell('cw.save(slices, "ours.pt")', folder / "ours.pt")

        print("\nThe first file, looked into:\n")
        print(cw.inspect(folder / "share.pt"))

        trimmed = cw.trim(folder / "share.pt", in_place=True)
        print(f"\nTrimmed in place: {trimmed.before:,} -> {trimmed.after:,} bytes.")
        tell("cw.trim of what torch.save wrote", folder / "share.pt")

        # The other way round: an expanded tensor is larger than its storage, and stays so.
        expanded = torch.zeros(4).expand(1000, 4)
        cw.save(expanded, folder / "expanded.pt")
        loaded = torch.load(folder / "expanded.pt")
        print(
            f"\nAn expanded tensor of {expanded.nbytes:,} bytes lies in {loaded.untyped_storage().nbytes()} bytes, "
            "before and after."
        )


if __name__ == "__main__":
    main()
