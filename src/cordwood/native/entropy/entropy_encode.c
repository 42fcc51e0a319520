/* Writing an entropy section: tables, which table for which tile, and the streams. */
#include "tiles.h"

static void count(const u8 *p, u64 n, u32 *counts)
{
    u32 c[4][256] = {{0}}; /* four, so that equal neighbours do not wait for each other */
    u64 i = 0;
    for (; i + 4 <= n; i += 4) c[0][p[i]]++, c[1][p[i + 1]]++, c[2][p[i + 2]]++, c[3][p[i + 3]]++;
    for (; i < n; i++) c[0][p[i]]++;
    for (int s = 0; s < 256; s++) counts[s] += c[0][s] + c[1][s] + c[2][s] + c[3][s];
}

/* Bits (times 16) that `counts` cost with table `t`, or with its own ideal table when t is NULL. */
static u64 cost_of(const u32 *counts, const cw_table *t, int coder, unsigned log)
{
    u64 bits = 0, total = 0;
    for (int s = 0; s < 256; s++) total += counts[s];
    for (int s = 0; s < 256; s++)
        if (counts[s]) bits += (u64)counts[s] * (t ? cw_table_symbol_cost(t, (unsigned)s, coder, log) : cw_log2_16((u32)total) - cw_log2_16(counts[s]));
    return bits;
}

static int can_code(const cw_table *t, int symbol) { return t->lo == t->hi ? symbol == t->lo : t->value[symbol] != 0; }

static void costs_from_tables(cw_cost_row *costs, const cw_table *tables, int n, int coder, unsigned log)
{
    memset(costs, 0, 256 * sizeof *costs);
    for (int k = 0; k < n; k++)
        for (unsigned s = 0; s < 256; s++) costs[s][k] = (u16)cw_table_symbol_cost(&tables[k], s, coder, log);
}

/* ---- streams ------------------------------------------------------------------------------------------------------------------- */

/* Room for one stream: 12 bits a symbol, and what the writers store past their end. */
static u64 stream_room(u64 symbols, u64 tiles, int coder) { return (symbols / CW_STREAMS(coder) + tiles + 8) * 12 / 8 + 32; }

/* A code at the top of 64 bits, its length at the bottom. The accumulator takes new bits at its top: it is shifted down by the entry's low six bits and
 * the whole entry is put in; the whole entry is added to the count too. What else comes with it stays where nobody looks: the
 * length's own bits in the lowest byte, which 7 + 4 * 11 bits do not reach, and the code's in the count's upper part. */
typedef u64 huff_code;

/* Two streams at once: each has to wait for its own last bits, not for the other's. */
__attribute__((always_inline)) static inline void two_streams(const cw_tiled *t, const huff_code (*codes)[256], unsigned lane, u8 *to[2], u64 size[2])
{
    u64 acc0 = 0, acc1 = 0, n0 = 0, n1 = 0;
    u8 *p0 = to[0], *p1 = to[1];
#define ADD(symbol, acc, n)                                          \
    {                                                                \
        huff_code c = code[symbol];                                  \
        acc = acc >> (c & 63) | c;                                   \
        n += c;                                                      \
    }
/* whole bytes go out without asking whether there are any: no branch to guess wrong. What is left is at the top already. */
#define FLUSH(acc, n, p)                                             \
    {                                                                \
        cw_store64(p, acc >> (-n & 63));                             \
        p += n >> 3 & 7;                                             \
        n &= 7;                                                      \
    }
    for (u64 tile = 0; tile < t->tiles; tile++) {
        const huff_code *code = codes[t->map[tile]];
        const u8 *end = t->symbols + t->start[tile + 1], *s = t->symbols + t->start[tile] + lane;
        for (; end - s > 25; s += 32) {
            ADD(s[0], acc0, n0) ADD(s[1], acc1, n1) ADD(s[8], acc0, n0) ADD(s[9], acc1, n1)
            ADD(s[16], acc0, n0) ADD(s[17], acc1, n1) ADD(s[24], acc0, n0) ADD(s[25], acc1, n1)
            FLUSH(acc0, n0, p0)
            FLUSH(acc1, n1, p1)
        }
        for (const u8 *one = s; one < end; one += 8) {
            ADD(*one, acc0, n0)
            FLUSH(acc0, n0, p0)
        }
        for (const u8 *one = s + 1; one < end; one += 8) {
            ADD(*one, acc1, n1)
            FLUSH(acc1, n1, p1)
        }
    }
#undef ADD
#undef FLUSH
    if (n0) *p0++ = (u8)(acc0 >> (64 - n0));
    if (n1) *p1++ = (u8)(acc1 >> (64 - n1));
    size[0] = (u64)(p0 - to[0]);
    size[1] = (u64)(p1 - to[1]);
}

typedef const huff_code (*huff_codes)[256];

static void two_streams_any(const cw_tiled *t, huff_codes codes, unsigned lane, u8 *to[2], u64 size[2]) { two_streams(t, codes, lane, to, size); }
#if defined(__x86_64__)
__attribute__((target("bmi2"))) static void two_streams_bmi2(const cw_tiled *t, huff_codes codes, unsigned lane, u8 *to[2], u64 size[2])
{
    two_streams(t, codes, lane, to, size);
}
#endif

static void huffman_streams(const cw_tiled *t, huff_codes codes, unsigned lane, u8 *to[2], u64 size[2])
{
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        two_streams_bmi2(t, codes, lane, to, size);
        return;
    }
#endif
    two_streams_any(t, codes, lane, to, size);
}

typedef struct { u32 delta_bits; i64 delta_state; } ans_symbol;
typedef struct { ans_symbol symbol[256]; u16 state[1 << CW_ANS_LOG]; } ans_encoder;

/* From state x in [L, 2L) a symbol of frequency f sends the low nb bits of x, nb so that x >> nb is in [f, 2f); the new state is where
 * the decoder keeps the (x >> nb)-th occurrence. nb takes two values only; (x + delta_bits) >> 16 is the right one. */
static void ans_encoder_build(ans_encoder *enc, const cw_table *t, unsigned log)
{
    u8 symbols[1 << CW_ANS_LOG];
    u32 at[256], full = 1u << log, sum = 0;
    cw_ans_spread(t, log, symbols);
    for (u32 s = 0; s < 256; s++) {
        u32 f = t->value[s];
        at[s] = sum;
        if (!f) continue;
        u32 most = f == 1 ? log : log - (31 - (u32)__builtin_clz(f - 1));
        enc->symbol[s].delta_bits = f == full ? 0 : (most << 16) - (f << most);
        enc->symbol[s].delta_state = (i64)sum - f;
        sum += f;
    }
    for (u32 i = 0; i < full; i++) enc->state[at[symbols[i]]++] = (u16)(full + i);
}

/* Runs backwards, so that decoding runs forwards: the newest bits go below the older ones, the bytes are filled from the end. */
static u64 ans_stream(const cw_tiled *t, const ans_encoder *enc, unsigned log, unsigned lane, u8 *to, u64 room)
{
    u64 acc = 0;
    unsigned n = 0;
    u8 *p = to + room;
    u32 x = 1u << log;
#define PUT(value, count)                              \
    {                                                  \
        acc = acc << (count) | (value);                \
        n += (count);                                  \
    }
/* the oldest bits are the highest: whole bytes of them go below what is there */
#define FLUSH()                                                          \
    {                                                                    \
        unsigned bytes = n >> 3;                                         \
        n &= 7;                                                          \
        cw_store64(p - 8, acc >> n << 1 << (63 - 8 * bytes));            \
        p -= bytes;                                                      \
    }
#define SYMBOL(k)                                                        \
    {                                                                    \
        const ans_symbol *s = &one->symbol[first[k]];                    \
        u32 nb = (x + s->delta_bits) >> 16;                              \
        PUT(x & ((1u << nb) - 1), nb)                                    \
        x = one->state[(i64)(x >> nb) + s->delta_state];                 \
    }
    for (u64 tile = t->tiles; tile-- > 0;) {
        const ans_encoder *one = &enc[t->map[tile]];
        u64 size = t->start[tile + 1] - t->start[tile];
        if (size <= lane) continue;
        const u8 *first = t->symbols + t->start[tile];
        u64 k = lane + (size - 1 - lane) / 4 * 4 + 4;
        for (; k >= lane + 16; k -= 16) {
            SYMBOL(k - 4) SYMBOL(k - 8) SYMBOL(k - 12) SYMBOL(k - 16)
            FLUSH()
        }
        for (; k > lane; k -= 4) {
            SYMBOL(k - 4)
            FLUSH()
        }
    }
    PUT(x - (1u << log), log)
    unsigned pad = (unsigned)-(int)(n + 3) & 7;
    PUT(0, pad)
    PUT(pad, 3)
    FLUSH()
#undef PUT
#undef FLUSH
#undef SYMBOL
    u64 size = (u64)(to + room - p);
    memmove(to, p, size);
    return size;
}

static int write_streams(const cw_tiled *t, const cw_table *tables, u32 k, int coder, unsigned log, cw_buffer *out, cw_scratch *s)
{
    u64 sizes[8], room = stream_room(t->n, t->tiles, coder);
    unsigned streams = CW_STREAMS(coder);
    u8 *memory = cw_scratch_take(s, room * streams);
    if (!memory) return 0;
    if (coder == CW_HUFFMAN) {
        huff_code(*codes)[256] = cw_scratch_take(s, k * sizeof *codes);
        if (!codes) return 0;
        for (u32 i = 0; i < k; i++) {
            u16 bits[256] = {0};
            if (tables[i].lo < tables[i].hi) cw_huff_codes(&tables[i], bits);
            for (int c = 0; c < 256; c++) codes[i][c] = (u64)bits[c] << (-tables[i].value[c] & 63) | tables[i].value[c];
        }
        for (unsigned lane = 0; lane < streams; lane += 2) {
            u8 *to[2] = {memory + lane * room, memory + (lane + 1) * room};
            huffman_streams(t, (huff_codes)codes, lane, to, sizes + lane);
        }
    } else {
        ans_encoder *enc = cw_scratch_take(s, k * sizeof *enc);
        if (!enc) return 0;
        for (u32 i = 0; i < k; i++) ans_encoder_build(&enc[i], &tables[i], log);
        for (unsigned lane = 0; lane < streams; lane++) sizes[lane] = ans_stream(t, enc, log, lane, memory + lane * room, room);
    }
    for (unsigned lane = 0; lane < streams; lane++) cw_put_varint(out, sizes[lane]);
    for (unsigned lane = 0; lane < streams; lane++) cw_put(out, memory + lane * room, sizes[lane]);
    return 1;
}

/* ---- the section ------------------------------------------------------------------------------------------------------------------ */

static int write_map(const cw_tiled *t, u32 k, int coder, cw_buffer *out, cw_scratch *s)
{
    unsigned width = 32 - (unsigned)__builtin_clz(k - 1);
    u64 packed = (t->tiles * width + 7) / 8;
    cw_buffer coded = {0};
    u8 *steps = cw_scratch_take(s, t->tiles);
    if (!steps) return 0;
    u32 counts[256] = {0};
    for (u64 i = 0; i < t->tiles; i++) counts[steps[i] = (u8)((t->map[i] + k - (i ? t->map[i - 1] : 0)) % k)]++;
    u32 start[2] = {0, (u32)t->tiles};
    u8 zero = 0;
    cw_tiled inner = {steps, t->tiles, 1, start, &zero};
    cw_table table;
    unsigned log = coder == CW_ANS ? CW_ANS_LOG : CW_HUFF_LOG;
    cw_table_from_counts(&table, counts, coder, log);
    cw_buffer bits = {0};
    cw_tables_write(&table, 1, coder, &bits);
    cw_put_u8(&coded, 0);
    cw_put_varint(&coded, 1);
    cw_put_u8(&coded, (u8)log);
    cw_put_varint(&coded, bits.size);
    cw_put(&coded, bits.data, bits.size);
    int ok = write_streams(&inner, &table, 1, coder, log, &coded, s) && !coded.failed && !bits.failed;
    if (ok && coded.size < packed) {
        cw_put_u8(out, 1);
        cw_put_varint(out, coded.size);
        cw_put(out, coded.data, coded.size);
    } else if (ok) {
        cw_put_u8(out, 0);
        cw_put_varint(out, packed);
        u8 *to = cw_reserve(out, packed);
        if (to) {
            memset(to, 0, packed);
            for (u64 i = 0, at = 0; i < t->tiles; i++)
                for (unsigned b = 0; b < width; b++, at++) to[at >> 3] |= (u8)((t->map[i] >> b & 1) << (at & 7));
            out->size += packed;
        }
    }
    cw_buffer_free(&coded);
    cw_buffer_free(&bits);
    return ok;
}

int cw_entropy_encode(const cw_plane *planes, u32 n_planes, int coder, unsigned th, unsigned tw, u32 max_tables, const cw_plan *plan,
                      int *used_plan, cw_buffer *out, cw_scratch *s, cw_err *e)
{
    cw_tiled t = {0};
    unsigned log = coder == CW_ANS ? CW_ANS_LOG : CW_HUFF_LOG;
    for (u32 i = 0; i < n_planes; i++) {
        t.n += planes[i].rows * planes[i].cols;
        t.tiles += cw_tiles_of(&planes[i], th, tw);
    }
    if (t.n >> 32) return cw_fail(e, CW_BAD_CALL, "block", t.n, (u64)1 << 32, 0);
    t.symbols = cw_scratch_take(s, t.n);
    t.start = cw_scratch_take(s, (t.tiles + 1) * sizeof *t.start);
    t.map = cw_scratch_take(s, t.tiles);
    u32(*counts)[256] = cw_scratch_take(s, CW_OWN_TABLES * sizeof *counts);
    cw_cost_row *costs = cw_scratch_take(s, 256 * sizeof *costs);
    cw_table *tables = cw_scratch_take(s, CW_OWN_TABLES * sizeof *tables);
    if (!t.symbols || !t.start || !t.map || !counts || !costs || !tables) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    cw_tiles_gather(&t, planes, n_planes, th, tw);

    /* one table for all, or several? */
    u32 whole[256] = {0};
    u64 best, split = UINT64_MAX;
    int k = cw_tables_worth(t.n, t.tiles, n_planes, max_tables);
    if (k > 1) {
        k = cw_tiles_cluster(&t, k, coder == CW_ANS, counts, costs);
        split = t.tiles * 16 * 5 / 2; /* the map: about two and a half bits a tile */
        for (int i = 0; i < k; i++) {
            split += cost_of(counts[i], NULL, coder, log) + 16 * 8 * 40;
            for (int c = 0; c < 256; c++) whole[c] += counts[i][c];
        }
    } else {
        count(t.symbols, t.n, whole);
    }
    best = cost_of(whole, NULL, coder, log) + 16 * 8 * 40;
    if (split < best) best = split;
    else k = 1;
    if (k == 1) {
        memset(t.map, 0, t.tiles);
        memcpy(counts[0], whole, sizeof whole);
    }

    const cw_table *use = tables;
    if (plan && plan->has_tables && plan->coder == coder && plan->tables <= CW_OWN_TABLES && plan->log <= CW_ANS_LOG) {
        /* the plan's tables save their description; take them if the data does not pay for it */
        u8 *own = cw_scratch_take(s, t.tiles);
        u32(*of_plan)[256] = cw_scratch_take(s, CW_OWN_TABLES * sizeof *of_plan);
        if (!own || !of_plan) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        memcpy(own, t.map, t.tiles);
        costs_from_tables(costs, plan->table, (int)plan->tables, coder, plan->log);
        cw_tiles_assign(&t, costs, (int)plan->tables, 1);
        u64 planned = plan->tables > 1 ? t.tiles * 16 * 5 / 2 : 0;
        cw_tiles_count(&t, of_plan, (int)plan->tables, 1);
        for (u32 i = 0; i < plan->tables; i++) {
            planned += cost_of(of_plan[i], &plan->table[i], coder, plan->log);
            for (int c = 0; c < 256; c++)
                if (of_plan[i][c] && !can_code(&plan->table[i], c)) planned = best;
        }
        if (planned < best) {
            use = plan->table;
            k = (int)plan->tables;
            log = plan->log;
            *used_plan = 1;
        } else {
            memcpy(t.map, own, t.tiles);
        }
    }

    if (use == tables) {
        cw_buffer bits = {0};
        for (int i = 0; i < k; i++) cw_table_from_counts(&tables[i], counts[i], coder, log);
        cw_tables_write(tables, (u32)k, coder, &bits);
        cw_put_u8(out, 0);
        cw_put_varint(out, (u64)k);
        cw_put_u8(out, (u8)log);
        cw_put_varint(out, bits.size);
        cw_put(out, bits.data, bits.size);
        out->failed |= bits.failed;
        cw_buffer_free(&bits);
    } else {
        cw_put_u8(out, 1);
        cw_put_varint(out, (u64)k);
    }
    int ok = (k == 1 || write_map(&t, (u32)k, coder, out, s)) && write_streams(&t, use, (u32)k, coder, log, out, s);
    if (!ok || out->failed) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    return CW_OK;
}
