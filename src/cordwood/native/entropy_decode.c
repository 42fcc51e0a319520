/* Reading an entropy section: tables, tile map, streams, and putting tiles where they belong. */
#include "entropy.h"

typedef struct {
    const u8 *base;   /* all streams; nothing is loaded past base + size */
    u64 size;
    u64 at[8];        /* bytes from base: where the container was loaded */
    u64 bits[8];      /* container, see entropy_kernel.inc */
    u32 state[4];
    u64 end[8];       /* where the stream ends */
} lanes;

#define TARGET
#define NAME(x) x##_any
#define LOW_BITS(c, n) ((c) & (((u64)1 << ((n) & 63)) - 1))
#include "entropy_kernel.inc"
#undef TARGET
#undef NAME
#undef LOW_BITS

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define NAME(x) x##_bmi2
#define LOW_BITS(c, n) _bzhi_u64((c), (n)) /* takes the low 8 bits of n by itself */
#include "entropy_kernel.inc"
#endif

#define MARK ((u64)1 << 63)

/* A refill that may stand anywhere: bytes past the end count as zero. The position may run past the end too; finish() sees it. */
static void refill_safely(lanes *l, unsigned s)
{
    u32 used = (u32)__builtin_clzll(l->bits[s]);
    l->at[s] += used >> 3;
    u64 v = 0;
    if (l->at[s] < l->size) {
        u64 n = CW_MIN((u64)8, l->size - l->at[s]);
        memcpy(&v, l->base + l->at[s], n);
    }
    l->bits[s] = (v | MARK) >> (used & 7);
}

static void decode_slowly(lanes *l, int coder, const void *table, u64 n, u8 *out)
{
    for (u64 k = 0; k < n; k++) {
        unsigned s = k & (CW_STREAMS(coder) - 1);
        refill_safely(l, s);
        if (coder == CW_HUFFMAN) {
            cw_huff_entry entry = ((const cw_huff_entry *)table)[l->bits[s] & ((1u << CW_HUFF_LOG) - 1)];
            l->bits[s] >>= entry & 63;
            out[k] = (u8)(entry >> 8);
        } else {
            cw_ans_entry entry = ((const cw_ans_entry *)table)[l->state[s]];
            l->state[s] = (entry >> 16) + (u32)(l->bits[s] & (((u64)1 << (entry & 63)) - 1));
            l->bits[s] >>= entry & 63;
            out[k] = (u8)(entry >> 8);
        }
    }
}

typedef struct {
    int coder;
    unsigned log;
    void *tables;               /* unfolded, or room for it */
    const cw_table *described;  /* NULL: all are unfolded already, by the plan */
} table_set;

static void *table_at(const table_set *t, unsigned i)
{
    return (u8 *)t->tables + i * cw_decode_table_bytes(t->coder, t->log);
}

/* Only tables that a tile names: many tables for few tiles must not cost more than the tiles. */
static void unfold(const table_set *t, const u8 *map, u64 tiles)
{
    u8 seen[CW_MAX_TABLES] = {0};
    for (u64 i = 0; t->described && i < tiles; i++) {
        if (seen[map[i]]) continue;
        seen[map[i]] = 1;
        cw_decode_tables_build(table_at(t, map[i]), &t->described[map[i]], 1, t->coder, t->log);
    }
}

static u64 run_chunks(lanes *l, const table_set *t, const u8 *map, u64 chunks, unsigned chunks_a_tile_log, u8 *out)
{
#if defined(__x86_64__)
    if (cw_fast_cpu())
        return t->coder == CW_HUFFMAN ? huffman_bmi2(l, t->tables, map, chunks, chunks_a_tile_log, out)
                                      : ans_bmi2(l, t->tables, t->log, map, chunks, chunks_a_tile_log, out);
#endif
    return t->coder == CW_HUFFMAN ? huffman_any(l, t->tables, map, chunks, chunks_a_tile_log, out)
                                  : ans_any(l, t->tables, t->log, map, chunks, chunks_a_tile_log, out);
}

/* One tile of any size. */
static void decode_tile(lanes *l, const table_set *t, const u8 *map, u64 area, u8 *out)
{
    /* shifted by 63 every chunk is in tile 0 */
    u64 done = area >= 64 ? 64 * run_chunks(l, t, map, area / 64, 63, out) : 0;
    decode_slowly(l, t->coder, table_at(t, *map), area - done, out + done);
}

/* `n` tiles of 64 << chunks_a_tile_log symbols, one after the other. */
static void decode_tiles(lanes *l, const table_set *t, const u8 *map, u64 n, unsigned chunks_a_tile_log, u8 *out)
{
    u64 all = n << chunks_a_tile_log, done = run_chunks(l, t, map, all, chunks_a_tile_log, out);
    for (; done < all; done++) decode_slowly(l, t->coder, table_at(t, map[done >> chunks_a_tile_log]), 64, out + done * 64);
}

static void scatter_tile(const u8 *tile, u64 h, u64 w, u8 *to, u64 stride)
{
    if (w == 8)
        for (u64 y = 0; y < h; y++) memcpy(to + y * stride, tile + y * 8, 8);
    else if (w == 16)
        for (u64 y = 0; y < h; y++) memcpy(to + y * stride, tile + y * 16, 16);
    else
        for (u64 y = 0; y < h; y++) memcpy(to + y * stride, tile + y * w, w);
}

static void decode_plane(lanes *l, const table_set *t, const cw_plane *p, unsigned th, unsigned tw, const u8 **map, u8 *tiles)
{
    u64 height = (u64)1 << th, width = (u64)1 << tw, full = p->cols >> tw, rest = p->cols & (width - 1);
    for (u64 y = 0; y < p->rows; y += height) {
        u64 h = CW_MIN(height, p->rows - y);
        u8 *row = p->data + y * p->stride;
        if (h == 1) { /* tiles of one row are already in place */
            if (th == 0 && tw >= 6) {
                decode_tiles(l, t, *map, full, tw - 6, row);
                *map += full;
            } else {
                for (u64 i = 0; i < full; i++) decode_tile(l, t, (*map)++, width, row + (i << tw));
            }
            if (rest) decode_tile(l, t, (*map)++, rest, row + (full << tw));
            continue;
        }
        if (h == height && th + tw >= 6) {
            decode_tiles(l, t, *map, full, th + tw - 6, tiles);
            *map += full;
            for (u64 i = 0; i < full; i++) scatter_tile(tiles + (i << (th + tw)), h, width, row + (i << tw), p->stride);
        } else {
            for (u64 i = 0; i < full; i++) {
                decode_tile(l, t, (*map)++, h << tw, tiles);
                scatter_tile(tiles, h, width, row + (i << tw), p->stride);
            }
        }
        if (rest) {
            decode_tile(l, t, (*map)++, h * rest, tiles);
            scatter_tile(tiles, h, rest, row + (full << tw), p->stride);
        }
    }
}

/* ---- the section's fields ---------------------------------------------------------------------------------------------------- */

static int start_lanes(lanes *l, const table_set *t, cw_reader *r, cw_err *e)
{
    unsigned streams = CW_STREAMS(t->coder);
    u64 sum = 0;
    int rc;
    memset(l, 0, sizeof *l);
    for (unsigned s = 0; s < streams; s++) {
        u64 n;
        if ((rc = cw_read_varint(r, &n, CW_BLOCK_SIZE, "stream size", e))) return rc;
        l->at[s] = sum;
        if (n > cw_left(r) || sum + n > cw_left(r)) return cw_fail(e, CW_BLOCK_SIZE, "stream size", n, cw_left(r), cw_at(r));
        sum += n;
        l->end[s] = sum;
    }
    if ((rc = cw_take(r, sum, &l->base, CW_BLOCK_SIZE, "streams", e))) return rc;
    l->size = sum;
    for (unsigned s = 0; s < streams; s++) {
        l->bits[s] = MARK; /* nothing loaded and nothing used: the refill loads at `at` */
        refill_safely(l, s);
        if (t->coder == CW_HUFFMAN) continue;
        unsigned pad = l->bits[s] & 7;
        l->bits[s] >>= 3;
        if (l->bits[s] & ((1u << pad) - 1)) return cw_fail(e, CW_STREAM, "padding of a stream", l->bits[s] & ((1u << pad) - 1), 0, cw_at(r));
        l->bits[s] >>= pad;
        l->state[s] = (u32)(l->bits[s] & ((1u << t->log) - 1));
        l->bits[s] >>= t->log;
    }
    return CW_OK;
}

static int finish_lanes(const lanes *l, const table_set *t, u64 offset, cw_err *e)
{
    for (unsigned s = 0; s < CW_STREAMS(t->coder); s++) {
        u64 used = l->at[s] * 8 + (u32)__builtin_clzll(l->bits[s]), end = l->end[s] * 8;
        if (t->coder == CW_ANS) {
            if (used != end || l->state[s]) return cw_fail(e, CW_STREAM, "end of an ans stream", used, end, offset + l->end[s]);
        } else {
            if (used > end || end - used > 7) return cw_fail(e, CW_STREAM, "end of a huffman stream", used, end, offset + l->end[s]);
            u8 last = end > used ? l->base[l->end[s] - 1] : 0;
            if (end > used && last >> (8 - (end - used)))
                return cw_fail(e, CW_STREAM, "padding of a huffman stream", last, 0, offset + l->end[s]);
        }
    }
    return CW_OK;
}

static int read_tables(table_set *t, u32 *n_tables, const cw_plan *plan, cw_reader *r, cw_scratch *s, cw_err *e)
{
    int rc;
    u8 source, log;
    u64 n, bytes;
    const u8 *bits;
    if ((rc = cw_read_u8(r, &source, CW_BLOCK_SIZE, "table source", e))) return rc;
    if (source > 1) return cw_fail(e, CW_TABLE, "table source", source, 1, cw_at(r));
    if ((rc = cw_read_varint(r, &n, CW_BLOCK_SIZE, "tables", e))) return rc;
    if (n < 1 || n > CW_MAX_TABLES) return cw_fail(e, CW_TABLE, "tables", n, CW_MAX_TABLES, cw_at(r));
    *n_tables = (u32)n;
    if (source == 1) {
        if (!plan || !plan->has_tables || plan->coder != t->coder || plan->tables != n)
            return cw_fail(e, CW_PLAN_MISMATCH, "the plan's tables", plan && plan->has_tables ? plan->tables : 0, n, cw_at(r));
        t->log = plan->log;
        t->tables = plan->decode_tables;
        return CW_OK;
    }
    if ((rc = cw_read_u8(r, &log, CW_BLOCK_SIZE, "table log", e))) return rc;
    if ((rc = cw_read_varint(r, &bytes, CW_BLOCK_SIZE, "table bytes", e))) return rc;
    if ((rc = cw_take(r, bytes, &bits, CW_BLOCK_SIZE, "table bytes", e))) return rc;
    cw_table *tables = cw_scratch_take(s, n * sizeof *tables);
    if (!tables) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    if ((rc = cw_tables_read(tables, *n_tables, t->coder, log, bits, bytes, cw_at(r) - bytes, e))) return rc;
    void *unfolded = cw_scratch_take(s, cw_decode_tables_size(t->coder, log, *n_tables));
    if (!unfolded) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    t->log = log;
    t->tables = unfolded;
    t->described = tables;
    return CW_OK;
}

static int read_map(u8 *map, u64 tiles, u32 k, int coder, cw_reader *r, cw_scratch *s, cw_err *e)
{
    int rc;
    u8 form;
    u64 n;
    const u8 *bytes;
    if ((rc = cw_read_u8(r, &form, CW_BLOCK_SIZE, "map form", e))) return rc;
    if (form > 1) return cw_fail(e, CW_TILE_MAP, "map form", form, 1, cw_at(r));
    if ((rc = cw_read_varint(r, &n, CW_BLOCK_SIZE, "tile map size", e))) return rc;
    if ((rc = cw_take(r, n, &bytes, CW_BLOCK_SIZE, "tile map", e))) return rc;
    u64 offset = cw_at(r) - n;
    if (form == 0) {
        unsigned width = 32 - (unsigned)__builtin_clz(k - 1);
        if (n != (tiles * width + 7) / 8) return cw_fail(e, CW_TILE_MAP, "tile map size", n, (tiles * width + 7) / 8, offset);
        for (u64 i = 0, at = 0; i < tiles; i++, at += width) {
            u32 v = 0;
            for (unsigned b = 0; b < width; b++) v |= (u32)(bytes[(at + b) >> 3] >> ((at + b) & 7) & 1) << b;
            if (v >= k) return cw_fail(e, CW_TILE_MAP, "table of a tile", v, k - 1, offset + at / 8);
            map[i] = (u8)v;
        }
        unsigned used = tiles * width & 7;
        if (used && bytes[n - 1] >> used) return cw_fail(e, CW_TILE_MAP, "end of the tile map", bytes[n - 1] >> used, 0, offset + n - 1);
        return CW_OK;
    }
    cw_reader inner = {bytes, bytes + n, r->origin};
    table_set t = {.coder = coder};
    u32 one;
    lanes l;
    if (n > 0 && bytes[0] != 0) return cw_fail(e, CW_TILE_MAP, "table source of the tile map", bytes[0], 0, offset);
    if ((rc = read_tables(&t, &one, NULL, &inner, s, e))) return rc;
    if (one != 1) return cw_fail(e, CW_TILE_MAP, "tables of the tile map", one, 1, offset);
    if ((rc = start_lanes(&l, &t, &inner, e))) return rc;
    u8 zero = 0;
    unfold(&t, &zero, 1);
    decode_tile(&l, &t, &zero, tiles, map);
    if ((rc = finish_lanes(&l, &t, cw_at(&inner), e))) return rc;
    if (inner.p != inner.end) return cw_fail(e, CW_BLOCK_SIZE, "end of the tile map", cw_left(&inner), 0, cw_at(&inner));
    u32 previous = 0;
    for (u64 i = 0; i < tiles; i++) {
        if (map[i] >= k) return cw_fail(e, CW_TILE_MAP, "step of the tile map", map[i], k - 1, offset);
        previous += map[i];
        if (previous >= k) previous -= k;
        map[i] = (u8)previous;
    }
    return CW_OK;
}

int cw_entropy_decode(const cw_plane *planes, u32 n_planes, int coder, unsigned tile_h, unsigned tile_w, const cw_plan *plan,
                      cw_reader *r, cw_scratch *s, cw_err *e)
{
    int rc;
    table_set t = {.coder = coder};
    u32 k;
    u64 tiles = 0, band_size = 0;
    for (u32 i = 0; i < n_planes; i++) {
        tiles += cw_tiles_of(&planes[i], tile_h, tile_w);
        band_size = CW_MAX(band_size, planes[i].cols * CW_MIN((u64)1 << tile_h, planes[i].rows));
    }
    if ((rc = read_tables(&t, &k, plan, r, s, e))) return rc;
    u8 *map = cw_scratch_take(s, tiles + 8);
    u8 *band = cw_scratch_take(s, band_size); /* one row of tiles */
    if (!map || !band) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    if (k == 1)
        memset(map, 0, tiles);
    else if ((rc = read_map(map, tiles, k, coder, r, s, e)))
        return rc;
    unfold(&t, map, tiles);
    lanes l;
    if ((rc = start_lanes(&l, &t, r, e))) return rc;
    const u8 *at = map;
    for (u32 i = 0; i < n_planes; i++) decode_plane(&l, &t, &planes[i], tile_h, tile_w, &at, band);
    return finish_lanes(&l, &t, cw_at(r) - l.size, e);
}
