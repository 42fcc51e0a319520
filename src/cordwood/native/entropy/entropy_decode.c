/* Reading an entropy section: tables, tile map, streams, and putting tiles where they belong. */
#include "entropy.h"
#include "predict.h"

#define TAIL 128  /* the last bytes of all streams, copied where zeros follow them */
#define ZEROS 64

typedef struct {
    const u8 *base;           /* all streams; nothing is loaded past base + size */
    u64 size;
    const u8 *from[8], *stop[8]; /* where a lane reads, base or tail, and where what may be loaded ends */
    u64 at[8];                /* bytes from `from`: where the container was loaded */
    u64 bits[8];              /* container, see entropy_kernel.inc */
    u32 state[4];
    u64 end[8];               /* where the stream ends, from base */
    u8 tail[TAIL + ZEROS];
} lanes;

#define MARK ((u64)1 << 63)
/* Not together with its neighbours: a load of several numbers that were stored one by one waits until all of them have left the processor, which
 * takes longer than decoding a small plane. */
#define ALONE(x) (*(volatile __typeof__(x) *)&(x))
#define AFTER_REFILL 4 /* symbols of up to 12 bits that a container has after one */

/* Symbols in chunks of 64: `chunks_a_tile_log` says how many chunks have the same table. */
typedef struct { const u8 *map; u64 chunks; unsigned chunks_a_tile_log; u8 *out; } stretch;

/* In a Huffman lane the next bit is bit 1 of the container, so that bits 1 to 11 are the offset of an entry of two bytes: an address that
 * needs no scaling is there a cycle sooner, and that is a seventh of what a symbol takes. */
#define HUFF_OFFSETS ((1u << CW_HUFF_LOG) - 1) * (u32)sizeof(cw_huff_entry)
#define HUFF_ENTRY(table, container) (const cw_huff_entry *)((const u8 *)(table) + ((container) & HUFF_OFFSETS))

/* How many chunks can be done before a lane must not load any more: the first needs `first` bytes, the others `each`. */
static inline u64 chunks_within(const lanes *l, const u8 *const *p, int streams, i64 first, i64 each)
{
    i64 room = l->stop[0] - ALONE(p[0]);
    for (int s = 1; s < streams; s++) {
        i64 one = l->stop[s] - ALONE(p[s]);
        room = CW_MIN(room, one);
    }
    return room < first ? 0 : (u64)((room - first) / each + 1);
}

/* Near the end of all streams lanes go over to a copy of it, which has room behind. Gives 0 when all that could have. */
static int move_to_tail(lanes *l, unsigned streams)
{
    u64 n = CW_MIN((u64)TAIL, l->size), before = l->size - n;
    int moved = 0;
    for (unsigned s = 0; s < streams; s++) {
        if (l->from[s] == l->tail || l->at[s] < before || l->at[s] > l->size) continue;
        memcpy(l->tail, l->base + before, n);
        memset(l->tail + n, 0, ZEROS);
        l->from[s] = l->tail;
        l->stop[s] = l->tail + n + ZEROS;
        l->at[s] -= before;
        moved = 1;
    }
    return moved;
}

#define TARGET
#define NAME(x) x##_any
#define LOW_BITS(c, n) ((c) & (((u64)1 << ((n) & 63)) - 1))
#define REFILL(s)                                       \
    {                                                   \
        u32 used = (u32)__builtin_clzll(c##s);          \
        p[s] += used >> 3;                              \
        c##s = (cw_load64(p[s]) | MARK) >> (used & 7);  \
    }
#define TAKE(c, cell)                                    \
    {                                                    \
        u32 entry = *HUFF_ENTRY(t, c);                   \
        c >>= entry & 63;                                \
        to[cell] = (u8)(entry >> 8);                     \
    }
#define SYMBOL_OF(c, state, cell)                              \
    {                                                          \
        u32 entry = t[state];                                      \
        state = (entry >> 16) + (u32)LOW_BITS(c, entry);       \
        c >>= entry & 63;                                      \
        out[cell] = (u8)(entry >> 8);                          \
    }
#include "entropy_kernel.inc"
#undef TARGET
#undef NAME
#undef LOW_BITS

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define NAME(x) x##_bmi2
#define LOW_BITS(c, n) _bzhi_u64((c), (n)) /* takes the low 8 bits of n by itself */
#if !defined(__SANITIZE_ADDRESS__)
/* By hand: the processor does all it can take in a cycle here, so every instruction counts, and compilers need two more a symbol (they
 * do not store from the second byte of a register) and three more a refill. */
#undef REFILL
#undef TAKE
#define REFILL(s)                                                                                                             \
    {                                                                                                                         \
        u64 used, at;                                                                                                         \
        __asm__("lzcnt %[c], %[used]\n\tmov %[used], %[at]\n\tshr $3, %[at]\n\tadd %[p], %[at]\n\tmov %[at], %[p]\n\t"          \
                "and $7, %k[used]\n\tmov (%[at]), %[c]\n\tor %[mark], %[c]\n\tshrx %[used], %[c], %[c]"                       \
                : [c] "+&r"(c##s), [p] "+m"(p[s]), [used] "=&r"(used), [at] "=&r"(at)                                         \
                : [mark] "r"(MARK)                                                                                            \
                : "cc", "memory");                                                                                            \
    }
#define TAKE(c, cell)                                                                                                         \
    {                                                                                                                         \
        u64 entry;                                                                                                            \
        __asm__("mov %k[v], %k[entry]\n\tand %[mask], %k[entry]\n\tmovzwl (%[t], %[entry]), %k[entry]\n\tshrx %[entry], %[v], %[v]\n\t"    \
                "movb %h[entry], %c[cell_](%[to])"                                                                             \
                : [v] "+&r"(c), [entry] "=&Q"(entry)                                                                          \
                : [mask] "i"(HUFF_OFFSETS), [t] "r"(t), [to] "R"(to), [cell_] "i"(cell)                                     \
                : "memory");                                                                                                  \
    }
#undef SYMBOL_OF
#define SYMBOL_OF(c, state, cell)                                                                                             \
    {                                                                                                                         \
        u64 entry, low;                                                                                                       \
        __asm__("mov (%[t], %[x], 4), %k[entry]\n\tbzhi %[entry], %[v], %[low]\n\tshrx %[entry], %[v], %[v]\n\t"                \
                "movb %h[entry], %c[cell_](%[to])\n\tshr $16, %k[entry]\n\tlea (%[entry], %[low]), %[x]"                     \
                : [v] "+&r"(c), [x] "+&r"(state), [entry] "=&Q"(entry), [low] "=&r"(low)                                          \
                : [t] "r"(t), [to] "R"(out), [cell_] "i"(cell)                                                                \
                : "cc", "memory");                                                                                            \
    }
#endif
#include "entropy_kernel.inc"
#endif

/* A refill that may stand anywhere: bytes past the end count as zero. The position may run past the end too; finish() sees it. */
static void refill_safely(lanes *l, unsigned s)
{
    u32 used = (u32)__builtin_clzll(l->bits[s]);
    l->at[s] += used >> 3;
    u64 v = 0, size = (u64)(l->stop[s] - l->from[s]);
    if (l->at[s] + 8 <= size) v = cw_load64(l->from[s] + l->at[s]);
    else if (l->at[s] < size) memcpy(&v, l->from[s] + l->at[s], size - l->at[s]);
    l->bits[s] = (v | MARK) >> (used & 7);
}

static void decode_slowly(lanes *l, int coder, const void *table, u64 n, u8 *out)
{
    unsigned streams = CW_STREAMS(coder);
    for (u64 first = 0; first < n; first += AFTER_REFILL * streams) {
        u64 end = CW_MIN(n, first + AFTER_REFILL * streams);
        for (unsigned s = 0; s < CW_MIN((u64)streams, n - first); s++) {
            refill_safely(l, s);
            u64 bits = l->bits[s];
            if (coder == CW_HUFFMAN) {
                for (u64 k = first + s; k < end; k += 8) {
                    cw_huff_entry entry = *HUFF_ENTRY(table, bits);
                    bits >>= entry & 63;
                    out[k] = (u8)(entry >> 8);
                }
            } else {
                u32 state = l->state[s];
                for (u64 k = first + s; k < end; k += 4) {
                    cw_ans_entry entry = ((const cw_ans_entry *)table)[state];
                    state = (entry >> 16) + (u32)(bits & (((u64)1 << (entry & 63)) - 1));
                    bits >>= entry & 63;
                    out[k] = (u8)(entry >> 8);
                }
                l->state[s] = state;
            }
            l->bits[s] = bits;
        }
    }
}

typedef struct {
    int coder;
    unsigned log;
    void *tables;               /* unfolded, or room for it */
    const cw_table *described;  /* NULL: all are unfolded already, by the plan */
    int differences;            /* what is described is unfolded with the zigzag undone */
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
        if (t->differences) cw_huff_build(table_at(t, map[i]), &t->described[map[i]], 1);
        else cw_decode_tables_build(table_at(t, map[i]), &t->described[map[i]], 1, t->coder, t->log);
    }
}

static u64 go_on(lanes *l, const table_set *t, const stretch *x, u64 done, int diagonal)
{
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        if (t->coder == CW_ANS) return ans_bmi2(l, t->tables, t->log, x, done);
        return diagonal ? huffman_diagonal_bmi2(l, t->tables, x, done) : huffman_bmi2(l, t->tables, x, done);
    }
#endif
    if (t->coder == CW_ANS) return ans_any(l, t->tables, t->log, x, done);
    return diagonal ? huffman_diagonal_any(l, t->tables, x, done) : huffman_any(l, t->tables, x, done);
}

/* Gives the number of chunks that were done: those at the very end may need care. */
static u64 run_chunks(lanes *l, const table_set *t, const stretch *x, int diagonal)
{
    u64 done = 0;
    do done = go_on(l, t, x, done, diagonal);
    while (done < x->chunks && move_to_tail(l, CW_STREAMS(t->coder)));
    return done;
}

/* What no chunk is made of. */
static void decode_rest(lanes *l, const table_set *t, const void *table, u64 n, u8 *out)
{
    int (*rest)(lanes *, const cw_huff_entry *, u64, u8 *) = huffman_rest_any, done = !n;
#if defined(__x86_64__)
    if (cw_fast_cpu()) rest = huffman_rest_bmi2;
#endif
    if (t->coder == CW_HUFFMAN && !done) {
        do done = rest(l, table, n, out);
        while (!done && move_to_tail(l, CW_STREAMS(t->coder)));
    }
    if (!done) decode_slowly(l, t->coder, table, n, out);
}

/* One tile of any size. */
static void decode_tile(lanes *l, const table_set *t, const u8 *map, u64 area, u8 *out)
{
    /* shifted by 63 every chunk is in tile 0 */
    u64 done = area >= 64 ? 64 * run_chunks(l, t, &(stretch){map, area / 64, 63, out}, 0) : 0;
    decode_rest(l, t, table_at(t, *map), area - done, out + done);
}

/* `n` tiles of 64 << chunks_a_tile_log symbols, one after the other. */
static void decode_tiles(lanes *l, const table_set *t, const u8 *map, u64 n, unsigned chunks_a_tile_log, u8 *out)
{
    u64 all = n << chunks_a_tile_log, done = run_chunks(l, t, &(stretch){map, all, chunks_a_tile_log, out}, 0);
    for (; done < all; done++) decode_slowly(l, t->coder, table_at(t, map[done >> chunks_a_tile_log]), 64, out + done * 64);
}

/* ---- where tiles belong --------------------------------------------------------------------------------------------------------- */

static void scatter_tile(const u8 *tile, u64 h, u64 w, u8 *to, u64 stride)
{
    if (w == 8 && h == 8) /* the usual tile: without a loop */
        for (u64 y = 0; y < 8; y += 4, to += 4 * stride, tile += 32) {
            cw_store64(to, cw_load64(tile));
            cw_store64(to + stride, cw_load64(tile + 8));
            cw_store64(to + 2 * stride, cw_load64(tile + 16));
            cw_store64(to + 3 * stride, cw_load64(tile + 24));
        }
    else if (w == 8)
        for (u64 y = 0; y < h; y++) memcpy(to + y * stride, tile + y * 8, 8);
    else if (w == 16)
        for (u64 y = 0; y < h; y++) memcpy(to + y * stride, tile + y * 16, 16);
    else
        for (u64 y = 0; y < h; y++) memcpy(to + y * stride, tile + y * w, w);
}

static void decode_rows_of_tiles(lanes *l, const table_set *t, const cw_plane *p, unsigned th, unsigned tw, const u8 **map, u8 *tiles)
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

static void scatter_diagonally(const u8 *tile, u64 h, u64 w, u8 *to)
{
    for (u64 y = 0; y < h; y++)
        for (u64 x = 0; x < w; x++) to[CW_DIAGONAL(y, x)] = tile[y * w + x];
}

/* Tiles of 16 by 16, a band of the plane in a row. */
static void decode_diagonally(lanes *l, const table_set *t, const cw_plane *p, const u8 **map)
{
    u8 tile[256];
    for (u64 y = 0; y < p->rows; y += 16) {
        u64 h = CW_MIN((u64)16, p->rows - y), x = 0;
        u8 *band = p->data + y / 16 * cw_band_bytes(p->cols);
        if (h == 16) {
            u64 chunks = p->cols / 16 * 4, done = run_chunks(l, t, &(stretch){*map, chunks, 2, band}, 1);
            for (; done < chunks; done++) {
                decode_slowly(l, t->coder, table_at(t, (*map)[done / 4]), 64, tile);
                scatter_diagonally(tile, 4, 16, band + CW_DIAGONAL(done % 4 * 4, done / 4 * 16));
            }
            *map += p->cols / 16;
            x = p->cols & ~(u64)15;
        }
        for (; x < p->cols; x += 16) {
            u64 w = CW_MIN((u64)16, p->cols - x);
            decode_tile(l, t, (*map)++, h * w, tile);
            scatter_diagonally(tile, h, w, band + CW_DIAGONAL(0, x));
        }
    }
}

static void undo_zigzag(const cw_plane *p)
{
    u64 n = (p->rows + 15) / 16 * cw_band_bytes(p->cols);
    for (u64 i = 0; i < n; i++) p->data[i] = unzigzag8(p->data[i]);
}

/* ---- the section's fields ---------------------------------------------------------------------------------------------------- */

static int start_lanes(lanes *l, const table_set *t, cw_reader *r, cw_err *e)
{
    unsigned streams = CW_STREAMS(t->coder);
    u64 sum = 0;
    int rc;
    memset(l, 0, offsetof(lanes, tail));
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
    if (t->coder == CW_HUFFMAN) l->base--, l->size++; /* a byte of the section that goes before */
    for (unsigned s = 0; s < streams; s++) {
        l->from[s] = l->base;
        l->stop[s] = l->base + l->size;
        if (t->coder == CW_HUFFMAN) { /* seven bits of it are used, the last one is bit 0 */
            l->end[s]++;
            l->bits[s] = MARK >> 7;
            refill_safely(l, s);
            continue;
        }
        l->bits[s] = MARK; /* nothing loaded and nothing used: the refill loads at `at` */
        refill_safely(l, s);
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
        u64 before = l->from[s] == l->tail ? l->size - CW_MIN((u64)TAIL, l->size) : 0;
        u64 used = (before + l->at[s]) * 8 + (u32)__builtin_clzll(l->bits[s]), end = l->end[s] * 8;
        if (t->coder == CW_ANS) {
            if (used != end || l->state[s]) return cw_fail(e, CW_STREAM, "end of an ans stream", used, end, offset + l->end[s]);
        } else {
            used++; /* bit 0 is before the next one */
            if (used > end || end - used > 7) return cw_fail(e, CW_STREAM, "end of a huffman stream", used - 8, end - 8, offset + l->end[s]);
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
    t.differences = t.described && n_planes && !planes[0].stride;
    unfold(&t, map, tiles);
    lanes l;
    if ((rc = start_lanes(&l, &t, r, e))) return rc;
    const u8 *at = map;
    for (u32 i = 0; i < n_planes; i++) {
        if (planes[i].stride) decode_rows_of_tiles(&l, &t, &planes[i], tile_h, tile_w, &at, band);
        else decode_diagonally(&l, &t, &planes[i], &at);
        if (!planes[i].stride && !t.differences) undo_zigzag(&planes[i]);
    }
    return finish_lanes(&l, &t, cw_at(r) - l.size, e);
}
