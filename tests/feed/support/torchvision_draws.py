"""What torchvision draws, written down again: ``RandomResizedCrop.get_params`` and the place of ``center_crop``."""

import math
import random


def resized_crop(
    rng: random.Random, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Top, left, height and width: ten tries, then the largest part in the middle whose ratio is allowed."""
    for _ in range(10):
        area = height * width * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        columns, rows = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < columns <= width and 0 < rows <= height:
            return rng.randint(0, height - rows), rng.randint(0, width - columns), rows, columns
    rows, columns = height, width
    if width / height < min(ratio):
        rows = round(width / min(ratio))
    elif width / height > max(ratio):
        columns = round(height * max(ratio))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def centre(height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    return round((height - rows) / 2), round((width - columns) / 2)
