"""The slow transpose: one ``.T`` that makes every step slower, and nothing that says so.

Somebody's training was twenty times slower than it should be. The data loader was innocent: ``DataLoader`` copies
samples into batches that are contiguous. But the step got other arrays as well, straight from NumPy, and transposed
them on the way: ``torch.from_numpy(array.T)`` copies nothing, so the tensor has the right shape and the wrong order in
memory, and so has everything that is computed from it. PyTorch may print a warning then; here it did not.

This script learns the background of a scene from frames of a camera that stores them column by column. It trains as
written, with the doctor beside it, who replays the slow operations both ways before he speaks. Then it trains as
written and with his cure, a step of each in turn, and times both with ``cw.Timer``, which waits for a device before it
looks at the clock. How much is lost depends on the shape: most where neighbours in a row lie a power of two apart in
memory, as here, since they then compete for the same few lines of the processor's cache.

    python examples/slow_transpose.py
"""

from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import nn

import cordwood as cw

HEIGHT, WIDTH, FRAMES = 1024, 1536, 3
WARM_UP, TIMED = 3, 15  # steps

Way = Callable[[np.ndarray], torch.Tensor]  # from a stored frame to a tensor


class Background:
    """What all frames have in common, as it is learned."""

    def __init__(self) -> None:
        self.picture = nn.Parameter(torch.zeros(HEIGHT, WIDTH))
        self.optimizer = torch.optim.SGD([self.picture], lr=0.1)

    def learn(self, frame: torch.Tensor) -> None:
        """A step of training."""
        loss = nn.functional.smooth_l1_loss(self.picture, frame)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def frames_of_a_camera() -> list[np.ndarray]:
    """As they are stored: width before height."""
    chance = np.random.default_rng(0)
    return [chance.random((WIDTH, HEIGHT), dtype=np.float32) for _ in range(FRAMES)]


def as_written(stored: np.ndarray) -> torch.Tensor:
    """Height before width, without a copy."""
    return torch.from_numpy(stored.T)


def cured(stored: np.ndarray) -> torch.Tensor:
    """The same numbers in the order that everything else has."""
    return torch.from_numpy(stored.T).contiguous()


def milliseconds_a_step(frames: list[np.ndarray], ways: dict[Way, Background]) -> list[float]:
    """The median of each way. They take turns, so that a busy moment of the machine falls on all."""
    timer = cw.Timer()
    times: dict[Way, list[float]] = {way: [] for way in ways}
    for step in range(WARM_UP + TIMED):
        for way, background in ways.items():
            with timer.start(sync=True):
                background.learn(way(frames[step % FRAMES]))
            times[way].append(1000 * timer.diff)
    return [median(each[WARM_UP:]) for each in times.values()]


def main() -> None:
    """Look, diagnose, cure, time both."""
    torch.set_num_threads(1)  # more of them wait for each other where cores are busy, and times say less
    frames = frames_of_a_camera()
    slow = as_written(frames[0])
    print(f"shape {tuple(slow.shape)}, strides {slow.stride()}, contiguous: {slow.is_contiguous()}\n")

    background = Background()
    with cw.diagnose(seconds=1) as d:
        for step in range(18):
            background.learn(as_written(frames[step % FRAMES]))
    print(f"The doctor: {d.report.verdict}")
    for finding in d.report.findings:
        if finding["rule"] == "non-contiguous":
            print(
                f"  line {finding['line']}: {finding['message']}\n  What to do:\n    {finding['fix'].splitlines()[0]}"
            )

    ways: dict[Way, Background] = {as_written: Background(), cured: Background()}
    before, after = milliseconds_a_step(frames, ways)
    same = torch.allclose(ways[as_written].picture, ways[cured].picture)
    print(f"\nas written: {before:.1f} ms a step; contiguous: {after:.1f} ms a step")
    print(f"the same picture was learned: {'yes' if same else 'no'}")


if __name__ == "__main__":
    main()
