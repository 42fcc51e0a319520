"""Planes of bytes to a coded block: modes, tables, tile maps, huffman and ans streams.

>>> body = coded_block([plane], [ENTROPY], Entropy(coder=ANS, tables=[frequencies_of(plane, log=8)], log=8))

A table is a dict from symbol to frequency (ans) or to the length of its code (huffman).
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from tests.format.support.craft import ANS, HUFFMAN, Array, BitWriter, varint, zigzag

RAW, CONSTANT, ENTROPY, ZSTD, LZ4, ZSTD_DICTIONARY = range(6)
PACKED, CODED = 0, 1

Table = dict[int, int]


class SectionFields(TypedDict, total=False):
    """The bytes of an entropy section's fields, to override the right ones."""

    source: bytes
    count: bytes
    log: bytes
    tables: bytes
    map_form: bytes
    tile_map: bytes
    stream_sizes: bytes
    streams: bytes


@dataclass
class Entropy:
    """What an entropy section is made of. `tile_map` names the table of every tile of all planes."""

    tables: Sequence[Table]
    coder: int = HUFFMAN
    log: int = 11
    tile: tuple[int, int] = (1, 2**15)
    tile_map: Sequence[int] | None = None
    map_form: int = PACKED
    of_plan: bool = False
    overrides: SectionFields = field(default_factory=SectionFields)


def coded_block(
    planes: Sequence[Array],
    modes: Sequence[int],
    entropy: Entropy | None = None,
    dictionary: bytes = b"",
    is_short: bool = False,
) -> bytes:
    """A block with these planes, each coded in its mode; that of a short frame lacks what the page says."""
    out = bytes(modes)
    is_sized = not is_short or len(planes) > 1
    for plane, mode in zip(planes, modes, strict=True):
        data = plane.tobytes()
        if mode == RAW:
            out += data
        elif mode == CONSTANT:
            out += data[:1]
        elif mode in (ZSTD, ZSTD_DICTIONARY):
            compressed = zstd(data, dictionary if mode == ZSTD_DICTIONARY else b"")[4 if is_short else 0 :]
            out += varint(len(compressed)) * is_sized + compressed
        elif mode == LZ4:
            compressed = lz4(data)
            out += varint(len(compressed)) * is_sized + compressed
    coded = [plane for plane, mode in zip(planes, modes, strict=True) if mode == ENTROPY]
    if coded:
        if entropy is None:
            raise ValueError("a plane of mode 2 needs tables")
        out += entropy_section(coded, entropy)
    return out


def zstd(data: bytes, dictionary: bytes = b"", **options: Any) -> bytes:
    import zstandard

    with_dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    return zstandard.ZstdCompressor(dict_data=with_dictionary, **options).compress(data)


def lz4(data: bytes) -> bytes:
    import lz4.block

    compressed: bytes = lz4.block.compress(data, store_size=False)
    return compressed


# Tables


def frequencies_of(symbols: Array | bytes, log: int) -> Table:
    """Frequencies near those of the symbols, with the sum that the log asks for."""
    counts = Counter(bytes(symbols) if isinstance(symbols, bytes) else symbols.tobytes())
    total, whole = sum(counts.values()), 2**log
    if len(counts) > whole:
        raise ValueError(f"{len(counts)} symbols do not fit a table of log {log}")
    table = {s: max(1, c * whole // total) for s, c in sorted(counts.items())}
    while (over := sum(table.values()) - whole) != 0:
        symbol = max(table, key=lambda s: table[s])
        table[symbol] -= min(over, table[symbol] - 1)
    return table


def lengths_of(symbols: Array | bytes) -> Table:
    """Lengths of codes, near the best, that make a complete code."""
    counts = Counter(bytes(symbols) if isinstance(symbols, bytes) else symbols.tobytes())
    if len(counts) == 1:
        return dict.fromkeys(counts, 0)
    total = sum(counts.values())
    table = {s: min(11, max(1, math.ceil(math.log2(total / c)))) for s, c in sorted(counts.items())}
    while (left := 2**11 - sum(2 ** (11 - length) for length in table.values())) != 0:
        if left < 0:
            symbol = max((s for s in table if table[s] < 11), key=lambda s: table[s])
            table[symbol] += 1
        else:
            fitting = [s for s in table if 2 ** (11 - table[s]) <= left]
            table[max(fitting, key=lambda s: counts[s])] -= 1
    return table


def table_for(symbols: Array | bytes, coder: int, log: int = 11) -> Table:
    return frequencies_of(symbols, log) if coder == ANS else lengths_of(symbols)


def describe(tables: Sequence[Table], coder: int) -> bytes:
    """The bit stream of table descriptions."""
    bits = BitWriter()
    for table in tables:
        lo, hi = min(table), max(table)
        bits.put(lo, 8).put(hi, 8)
        if lo < hi:
            describe_levels(bits, [table.get(s, 0) for s in range(lo, hi + 1)], coder)
    return bits.to_bytes()


def describe_levels(bits: BitWriter, sizes: Sequence[int], coder: int) -> None:
    previous = 4
    for size in sizes:
        level = size.bit_length() if coder == ANS else size
        bits.unary(zigzag(level - previous, 32))
        if coder == ANS and level >= 2:
            bits.put(size, level - 1)
        previous = level


# The entropy section


def tiles_of(planes: Sequence[Array], tile: tuple[int, int]) -> list[bytes]:
    height, width = tile
    return [
        plane[y : y + height, x : x + width].tobytes()
        for plane in planes
        for y in range(0, plane.shape[0], height)
        for x in range(0, plane.shape[1], width)
    ]


def entropy_section(planes: Sequence[Array], entropy: Entropy) -> bytes:
    tiles = tiles_of(planes, entropy.tile)
    tile_map = [0] * len(tiles) if entropy.tile_map is None else list(entropy.tile_map)
    count = len(entropy.tables)
    descriptions = describe(entropy.tables, entropy.coder)
    streams = streams_of(tiles, [entropy.tables[t] for t in tile_map], entropy.coder, entropy.log)
    fields: SectionFields = {
        "source": bytes([int(entropy.of_plan)]),
        "count": varint(count),
        "log": b"" if entropy.of_plan else bytes([entropy.log]),
        "tables": b"" if entropy.of_plan else varint(len(descriptions)) + descriptions,
        "map_form": bytes([entropy.map_form]) if count > 1 else b"",
        "tile_map": tile_map_field(tile_map, count, entropy) if count > 1 else b"",
        "stream_sizes": b"".join(varint(len(s)) for s in streams),
        "streams": b"".join(streams),
    }
    fields.update(entropy.overrides)
    return b"".join(bytes(value) for value in fields.values() if isinstance(value, bytes))


def tile_map_field(tile_map: Sequence[int], count: int, entropy: Entropy) -> bytes:
    if entropy.map_form == PACKED:
        bits = BitWriter()
        for number in tile_map:
            bits.put(number, (count - 1).bit_length())
        data = bits.to_bytes()
    else:
        data = coded_map([(b - a) % count for a, b in itertools.pairwise([0, *tile_map])], entropy.coder)
    return varint(len(data)) + data


def coded_map(steps: Sequence[int], coder: int, log: int = 8) -> bytes:
    """The section inside a coded tile map."""
    plane = np.array([steps], np.uint8)
    log = log if coder == ANS else 11
    inner = Entropy([table_for(plane, coder, log)], coder, log, tile=(1, len(steps)))
    return entropy_section([plane], inner)


def streams_of(tiles: Sequence[bytes], tables: Sequence[Table], coder: int, log: int) -> list[bytes]:
    """All streams; tile i is coded with tables[i]."""
    number = 4 if coder == ANS else 8
    parts: list[list[tuple[int, Table]]] = [[] for _ in range(number)]
    for tile, table in zip(tiles, tables, strict=True):
        for k, symbol in enumerate(tile):
            parts[k % number].append((symbol, table))
    return [ans_stream(part, log) if coder == ANS else huffman_stream(part) for part in parts]


def huffman_stream(symbols: Sequence[tuple[int, Table]]) -> bytes:
    bits = BitWriter()
    known: dict[int, dict[int, str]] = {}
    for symbol, table in symbols:
        if id(table) not in known:
            known[id(table)] = canonical_codes(table)
        bits.bits += [int(bit) for bit in known[id(table)][symbol]]
    return bits.to_bytes()


def canonical_codes(table: Table) -> dict[int, str]:
    """The code of every symbol as text, highest bit first."""
    codes, code, last = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in table.items() if length or len(table) == 1):
        code <<= length - last
        codes[symbol] = format(code, f"0{length}b") if length else ""
        code, last = code + 1, length
    return codes


def ans_states(table: Table, log: int) -> dict[int, list[int]]:
    """The states of every symbol, in rising order."""
    states, position = 2**log, 0
    found: dict[int, list[int]] = {symbol: [] for symbol in table}
    for symbol in sorted(table):
        for _ in range(table[symbol]):
            found[symbol].append(position)
            position = (position + states // 2 + states // 8 + 3) % states
    return {symbol: sorted(places) for symbol, places in found.items()}


def ans_stream(symbols: Sequence[tuple[int, Table]], log: int, last_state: int = 0) -> bytes:
    """Coded from the last symbol to the first, so that the reader, which goes forwards, ends in `last_state`."""
    state, groups = last_state, []
    known: dict[int, dict[int, list[int]]] = {}
    for symbol, table in reversed(symbols):
        if id(table) not in known:
            known[id(table)] = ans_states(table, log)
        x, frequency, count = 2**log + state, table[symbol], 0
        while x >> count >= 2 * frequency:
            count += 1
        groups.append((x & (2**count - 1), count))
        state = known[id(table)][symbol][(x >> count) - frequency]
    size = 3 + log + sum(count for _, count in groups)
    padding = -size % 8
    bits = BitWriter().put(padding, 3).put(0, padding).put(state, log)
    for value, count in reversed(groups):
        bits.put(value, count)
    return bits.to_bytes()
