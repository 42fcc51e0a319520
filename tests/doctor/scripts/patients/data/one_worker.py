"""Train on audio clips that are cut at random and turned into spectrograms as they are read."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.npy"))

    def __len__(self) -> int:
        return 4 * len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        clip = np.load(self.files[index % len(self.files)])
        start = int(torch.randint(len(clip) - 16000, ()))
        sound = clip[start : start + 16000]
        frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::64]
        spectrum = np.abs(np.fft.rfft(frames * np.hanning(512)))
        return torch.from_numpy(spectrum.astype(np.float32)), index % 8


def write_clips(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for number in range(count):
        np.save(folder / f"{number:03}.npy", chance.standard_normal(48000, dtype=np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--data", type=Path, default=Path("clips"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    if not args.data.exists():
        write_clips(args.data, 80, args.seed)
    clips = Clips(args.data)
    loader = DataLoader(clips, batch_size=16, shuffle=True, num_workers=1, persistent_workers=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(clips[0][0].numel(), 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    step = 0
    while step < args.steps:
        for spectra, labels in loader:
            loss = F.cross_entropy(model(spectra), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
