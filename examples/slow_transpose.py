"""The slow transpose: one ``.T`` that makes every step several times slower, and nothing that says so.

Somebody's training was twenty times slower than it should be. The data loader was innocent: ``DataLoader`` copies
samples into batches that are contiguous. But the step got other arrays as well, straight from NumPy, and transposed
them on the way: ``torch.from_numpy(array.T)`` copies nothing, so the tensor has the right shape and the wrong order in
memory, and so has everything that is computed from it. PyTorch may print a warning then; here it did not.

This script learns the background of a scene from frames of a camera that stores them column by column. It trains as
written, asks the doctor, who replays the slow operations both ways before he speaks, then trains with his cure, and
times both with ``cw.Timer``, which waits for a device before it looks at the clock.

    python examples/slow_transpose.py
"""

import numpy as np
import torch
from torch import nn

import cordwood as cw

HEIGHT, WIDTH, FRAMES = 1024, 1536, 3


class Background(nn.Module):
    """What all frames have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = nn.Parameter(torch.zeros(HEIGHT, WIDTH))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        """How far a frame is from it."""
        return (self.picture - frame).square().mean() + (self.picture * frame).mean()


def frames_of_a_camera() -> list[np.ndarray]:
    """As they are stored: width before height."""
    chance = np.random.default_rng(0)
    return [chance.random((WIDTH, HEIGHT), dtype=np.float32) for _ in range(FRAMES)]


def train(frames: list[np.ndarray], steps: int, *, cured: bool) -> torch.Tensor:
    """The picture that is learned, as written or with the doctor's cure."""
    model = Background()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        if cured:
            frame = torch.from_numpy(frames[step % FRAMES].T).contiguous()
        else:
            frame = torch.from_numpy(frames[step % FRAMES].T)
        loss = model(frame)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.picture.detach()


def main() -> None:
    """Look, diagnose, cure, time both."""
    frames = frames_of_a_camera()
    slow = torch.from_numpy(frames[0].T)
    print(f"shape {tuple(slow.shape)}, strides {slow.stride()}, contiguous: {slow.is_contiguous()}\n")

    with cw.diagnose(seconds=1) as d:
        train(frames, 18, cured=False)
    print(f"The doctor: {d.report.verdict}")
    for finding in d.report.findings:
        if finding["rule"] == "non-contiguous":
            print(
                f"  line {finding['line']}: {finding['message']}\n  What to do:\n    {finding['fix'].splitlines()[0]}"
            )

    timer = cw.Timer()
    milliseconds = {}
    pictures = {}
    for cured in (False, True):
        with timer.start(sync=True):
            pictures[cured] = train(frames, 6, cured=cured)
        milliseconds[cured] = 1000 * timer.diff / 6
    same = torch.allclose(pictures[False], pictures[True])
    print(f"\nas written: {milliseconds[False]:.1f} ms a step; contiguous: {milliseconds[True]:.1f} ms a step")
    print(f"the same picture was learned: {'yes' if same else 'no'}")


if __name__ == "__main__":
    main()
