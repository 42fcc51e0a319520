"""Train from a store, stop in the middle of an epoch, and go on exactly there.

Packs a data set that is made on the fly, trains on it with mirrored and normalised images, and keeps a checkpoint with
the model, the optimizer and the loader's place in the epoch. The second half of the training starts from that file, as
after a crash, and sees precisely the batches that were still to come.

    python examples/train_from_store.py
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import nn

import cordwood as cw

CLASSES, SAMPLES, SIDE, BATCH, STOP_AFTER = 4, 512, 32, 32, 10
NORMALIZE = {"image": ([0.5, 0.5, 0.5], [0.25, 0.25, 0.25])}


def samples() -> Iterator[dict[str, Any]]:
    """Stripes of four widths: what a small network can learn."""
    torch.manual_seed(0)
    place = torch.arange(SIDE)
    for number in range(SAMPLES):
        label = number % CLASSES
        stripes = ((place // 2**label) % 2 * 160).expand(3, SIDE, SIDE)
        image = stripes + torch.randint(0, 24, (3, SIDE, SIDE))
        yield {"image": image.to(torch.uint8), "label": label}


class Training:
    """A model, an optimizer and a loader, which are saved and loaded together."""

    def __init__(self, store: Path) -> None:
        torch.manual_seed(1)
        self.model = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Linear(256, CLASSES)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.loader = cw.Loader(
            cw.open(store).select("image", "label"),
            batch_size=BATCH,
            shuffle=True,
            seed=7,
            normalize=NORMALIZE,
            augment={"image": cw.augment.RandomFlip()},
        )

    def epoch(self, most: int | None = None) -> list[float]:
        """The losses of an epoch, or of its first batches."""
        losses = []
        for images, labels in self.loader:
            loss = F.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            if len(losses) == most:
                break
        return losses

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
        }
        cw.save(state, path)

    def load(self, path: Path) -> None:
        state = cw.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])


def main() -> None:
    """Train without a break, then with one, and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(cw.pack(samples(), folder / "train.cordwood", workers=0, progress=False))

        whole = Training(folder / "train.cordwood")
        losses = [*whole.epoch(), *whole.epoch()]
        print(f"\ntwo epochs without a break: {len(losses)} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}")

        first = Training(folder / "train.cordwood")
        again = first.epoch(STOP_AFTER)
        first.save(folder / "checkpoint.cord")
        size = (folder / "checkpoint.cord").stat().st_size
        print(f"stopped after {len(again)} steps; the checkpoint has {size:,} bytes")

        second = Training(folder / "train.cordwood")
        second.load(folder / "checkpoint.cord")
        again += [*second.epoch(), *second.epoch()]
        print(f"went on to {len(again)} steps; the losses are the same: {'yes' if again == losses else 'no'}")


if __name__ == "__main__":
    main()
