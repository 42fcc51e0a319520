"""The native checksum of zip archives is zlib's."""

import os
import subprocess
import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st

from cordwood.native import _native


@given(st.binary(max_size=600), st.integers(0, 15), st.integers(0, 2**32 - 1))
def test_it_is_zlibs(data: bytes, start: int, before: int) -> None:
    part = memoryview(data)[start:]
    assert _native.crc32(part) == zlib.crc32(part)
    assert _native.crc32(part, before) == zlib.crc32(part, before)


@given(st.binary(min_size=1, max_size=50), st.integers(0, 5000), st.integers(0, 5000))
def test_it_goes_on_where_it_stopped(pattern: bytes, length: int, cut: int) -> None:
    data = (pattern * (length // len(pattern) + 1))[:length]
    assert _native.crc32(data[cut:], _native.crc32(data[:cut])) == zlib.crc32(data)


def test_the_portable_path_gives_the_same() -> None:
    code = "from cordwood.native import _native as n; d = bytes(range(256)) * 9; print(n.crc32(d[5:], 7))"
    environment = os.environ | {"CORDWOOD_PORTABLE": "1"}
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert int(answer.stdout) == zlib.crc32((bytes(range(256)) * 9)[5:], 7)
