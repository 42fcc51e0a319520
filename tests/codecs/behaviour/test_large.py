"""Beyond 2 GiB: sizes and offsets that no longer fit 31 bits."""

import os

import numpy as np
import pytest

from cordwood import codecs

GIB = 1 << 30
SHAPE = (2, 1028, 1 << 20)
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.slow
@pytest.mark.skipif(MEMORY < 12 * GIB, reason="needs a machine with 12 GB of memory")
def test_more_than_2_gib() -> None:
    """Zeros, which take no memory until they are written, with marks where a number may wrap. One goal after the
    other, so that the memory is needed once."""
    array = np.zeros(SHAPE, np.uint8)
    assert array.nbytes > 2**31
    flat = array.reshape(-1)
    flat[:4] = flat[-4:] = flat[2**31 - 4 : 2**31 + 4 : 2] = (1, 2, 3, 4)
    for goal in ("balanced", "raw"):
        frame = codecs.encode(array, goal, threads=2)
        info = codecs.frame_info(frame)
        assert (info.shape, info.nbytes, info.size) == (SHAPE, array.nbytes, len(frame))
        if goal == "raw":
            assert info.size == info.payload_offset + array.nbytes
        else:
            assert info.size < array.nbytes / 1000
        decoded = codecs.decode(frame, threads=2)
        assert decoded.shape == SHAPE
        del frame
        for image in range(SHAPE[0]):
            for row in range(0, SHAPE[1], 64):  # piece by piece: a comparison needs memory too
                piece = np.s_[image, row : row + 64]
                assert np.array_equal(decoded[piece], array[piece])
        del decoded
