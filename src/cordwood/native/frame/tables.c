/* Coding tables: their description in bytes, making them from counts, and unfolding them for decoding. */
#include "entropy.h"
#include "predict.h"

/* ---- descriptions ------------------------------------------------------------------------------------------------------- */

typedef struct { const u8 *p; u64 bits, at; } bit_reader;

/* The next up to 57 bits, zeros after the end. */
static inline u64 peek(const bit_reader *b)
{
    u64 byte = b->at >> 3, size = b->bits >> 3, v = 0;
    if (size - byte >= 8) v = cw_load64(b->p + byte);
    else memcpy(&v, b->p + byte, size - byte);
    return v >> (b->at & 7);
}

static inline int next_bits(bit_reader *b, unsigned n, u32 *v)
{
    if (n > b->bits - b->at) return 0;
    *v = (u32)(peek(b) & (((u64)1 << n) - 1));
    b->at += n;
    return 1;
}

/* Ones up to a zero: how many. At most 26 are meant. */
static inline int next_unary(bit_reader *b, u32 *v)
{
    *v = (u32)__builtin_ctzll(~peek(b) | (u64)1 << 63); /* ctz of 0 is undefined */
    if (*v > 26 || *v >= b->bits - b->at) return 0;
    b->at += *v + 1;
    return 1;
}

static int read_one(cw_table *t, int coder, unsigned log, bit_reader *b)
{
    u32 lo, hi, full = coder == CW_ANS ? 1u << log : 1u << CW_HUFF_LOG;
    memset(t, 0, sizeof *t);
    if (!next_bits(b, 8, &lo) || !next_bits(b, 8, &hi) || lo > hi) return 0;
    t->lo = (u16)lo;
    t->hi = (u16)hi;
    if (lo == hi) {
        t->value[lo] = coder == CW_ANS ? (u16)full : 0;
        return 1;
    }
    int previous = 4, top = coder == CW_ANS ? 13 : CW_HUFF_LOG;
    u32 sum = 0;
    for (u32 symbol = lo; symbol <= hi; symbol++) {
        u32 u = 0, low = 0;
        if (!next_unary(b, &u)) return 0;
        int level = previous + ((int)(u >> 1) ^ -(int)(u & 1));
        if (level < 0 || level > top) return 0;
        previous = level;
        if (coder == CW_HUFFMAN) {
            t->value[symbol] = (u16)level;
            if (level) sum += 1u << (CW_HUFF_LOG - level);
        } else if (level) {
            if (!next_bits(b, (unsigned)level - 1, &low)) return 0;
            t->value[symbol] = (u16)(1u << (level - 1) | low);
            sum += t->value[symbol];
        }
        if (sum > full) return 0;
    }
    return sum == full;
}

int cw_tables_read(cw_table *t, u32 n, int coder, unsigned log, const u8 *bits, u64 bytes, u64 offset, cw_err *e)
{
    if (coder == CW_ANS ? log < 5 || log > 12 : log != CW_HUFF_LOG)
        return cw_fail(e, CW_TABLE, "table log", log, CW_HUFF_LOG, offset);
    bit_reader b = {bits, bytes * 8, 0};
    for (u32 i = 0; i < n; i++)
        if (!read_one(&t[i], coder, log, &b)) return cw_fail(e, CW_TABLE, "table description", i, n, offset + b.at / 8);
    u32 rest;
    if (b.bits - b.at > 7 || !next_bits(&b, (unsigned)(b.bits - b.at), &rest) || rest)
        return cw_fail(e, CW_TABLE, "end of the table descriptions", b.at, b.bits, offset + b.at / 8);
    return CW_OK;
}

typedef struct { cw_buffer *out; u64 acc; unsigned n; } bit_writer;

static void put_bits(bit_writer *w, u32 v, unsigned n)
{
    w->acc |= (u64)v << w->n;
    w->n += n;
    for (; w->n >= 8; w->n -= 8, w->acc >>= 8) cw_put_u8(w->out, (u8)w->acc);
}

void cw_tables_write(const cw_table *t, u32 n, int coder, cw_buffer *out)
{
    bit_writer w = {out, 0, 0};
    for (; n--; t++) {
        put_bits(&w, t->lo, 8);
        put_bits(&w, t->hi, 8);
        int previous = 4;
        for (u32 symbol = t->lo; t->lo < t->hi && symbol <= t->hi; symbol++) {
            u32 v = t->value[symbol];
            int level = coder == CW_HUFFMAN ? (int)v : v ? 32 - __builtin_clz(v) : 0, d = level - previous;
            u32 u = d < 0 ? (u32)(-2 * d - 1) : (u32)(2 * d);
            put_bits(&w, (1u << u) - 1, u);
            put_bits(&w, 0, 1);
            if (coder == CW_ANS && level > 1) put_bits(&w, v & ((1u << (level - 1)) - 1), (unsigned)level - 1);
            previous = level;
        }
    }
    if (w.n) put_bits(&w, 0, 8 - w.n);
}

/* ---- from counts ---------------------------------------------------------------------------------------------------------- */

/* Frequencies that sum to 2^log, every symbol that occurs at least 1, close to the counts. The rest after rounding goes where
 * it costs least: changing f by one costs about count/f bits. All in integers, so that every machine writes the same bytes. */
static void normalize(u16 *f, const u32 *counts, unsigned log)
{
    u64 total = 0, sum = 0;
    u32 full = 1u << log;
    for (int i = 0; i < 256; i++) total += counts[i];
    for (int i = 0; i < 256; i++) {
        u64 v = counts[i] ? (counts[i] * (u64)full + total / 2) / total : 0;
        f[i] = (u16)(counts[i] && !v ? 1 : v);
        sum += f[i];
    }
    for (; sum < full; sum++) {
        int best = -1;
        for (int i = 0; i < 256; i++) /* largest count / (2f + 1) */
            if (counts[i] && (best < 0 || (u64)counts[i] * (2u * f[best] + 1) > (u64)counts[best] * (2u * f[i] + 1))) best = i;
        f[best]++;
    }
    for (; sum > full; sum--) {
        int best = -1;
        for (int i = 0; i < 256; i++) /* smallest count / (2f - 1) */
            if (f[i] > 1 && (best < 0 || (u64)counts[i] * (2u * f[best] - 1) < (u64)counts[best] * (2u * f[i] - 1))) best = i;
        f[best]--;
    }
}

/* Huffman lengths of at most 11 bits: the plain tree by two queues, then overlong codes are moved up and the Kraft sum is
 * repaired by lengthening the longest short ones. Lengths go to symbols in order of count. */
static void huffman_lengths(u16 *length, const u32 *counts)
{
    int order[256], n = 0;
    memset(length, 0, 256 * sizeof *length);
    for (int s = 255; s >= 0; s--) { /* insertion sort by count, then symbol. From above: small residuals are the frequent ones, so it is mostly sorted */
        if (!counts[s]) continue;
        int j = n++;
        for (; j > 0 && counts[order[j - 1]] >= counts[s]; j--) order[j] = order[j - 1];
        order[j] = s;
    }
    if (n == 1) return;
    u64 weight[512];
    int parent[512], depth[512];
    for (int i = 0; i < n; i++) weight[i] = counts[order[i]];
    int leaf = 0, node = n, next = n;
    for (; next < 2 * n - 1; next++) {
        int pair[2];
        for (int k = 0; k < 2; k++)
            pair[k] = leaf < n && (node == next || weight[leaf] <= weight[node]) ? leaf++ : node++;
        weight[next] = weight[pair[0]] + weight[pair[1]];
        parent[pair[0]] = parent[pair[1]] = next;
    }
    int of_length[64] = {0};
    depth[2 * n - 2] = 0;
    for (int i = 2 * n - 3; i >= 0; i--) {
        depth[i] = depth[parent[i]] + 1;
        if (i < n) of_length[CW_MIN(depth[i], CW_HUFF_LOG)]++;
    }
    i64 excess = -(1 << CW_HUFF_LOG);
    for (int l = 1; l <= CW_HUFF_LOG; l++) excess += (i64)of_length[l] << (CW_HUFF_LOG - l);
    while (excess > 0) { /* one code of the longest length gives way: a shorter leaf becomes a pair */
        int l = CW_HUFF_LOG - 1;
        while (!of_length[l]) l--;
        of_length[CW_HUFF_LOG]--;
        of_length[l]--;
        of_length[l + 1] += 2;
        excess--;
    }
    for (int l = CW_HUFF_LOG, i = 0; l > 0; l--)
        for (int k = of_length[l]; k > 0; k--) length[order[i++]] = (u16)l;
}

void cw_table_from_counts(cw_table *t, const u32 *counts, int coder, unsigned log)
{
    int lo = 0, hi = 255;
    while (!counts[lo]) lo++;
    while (!counts[hi]) hi--;
    memset(t, 0, sizeof *t);
    t->lo = (u16)lo;
    t->hi = (u16)hi;
    if (coder == CW_ANS)
        normalize(t->value, counts, log);
    else
        huffman_lengths(t->value, counts);
}

/* ---- unfolding --------------------------------------------------------------------------------------------------------------- */

void cw_huff_codes(const cw_table *t, u16 *codes)
{
    u32 of_length[CW_HUFF_LOG + 1] = {0}, next[CW_HUFF_LOG + 1], code = 0;
    for (u32 symbol = t->lo; symbol <= t->hi; symbol++) of_length[t->value[symbol]]++;
    for (u32 length = 1; length <= CW_HUFF_LOG; length++) {
        code <<= 1;
        next[length] = code;
        code += of_length[length];
    }
    for (u32 symbol = t->lo; symbol <= t->hi; symbol++) {
        u32 length = t->value[symbol], c;
        if (!length) continue;
        c = next[length]++ << (16 - length); /* reversed in 16 bits, the code's first bit ends lowest */
        c = (c & 0x5555) << 1 | (c >> 1 & 0x5555);
        c = (c & 0x3333) << 2 | (c >> 2 & 0x3333);
        c = (c & 0x0f0f) << 4 | (c >> 4 & 0x0f0f);
        codes[symbol] = (u16)(c << 8 | c >> 8);
    }
}

/* The spread goes over the states in steps; state i is reached after i / step of them (modulo the number of states, where the odd step
 * has an inverse). So the symbols are laid out in order first, which is a matter of memset, and then read in steps of the inverse. */
static u32 ans_step(unsigned log)
{
    u32 full = 1u << log, step = (full >> 1) + (full >> 3) + 3, inverse = step;
    for (int i = 0; i < 4; i++) inverse *= 2 - step * inverse; /* Newton: each round doubles the bits that are right */
    return inverse;
}

void cw_ans_spread(const cw_table *t, unsigned log, u8 *symbols)
{
    u8 in_order[1 << 12], *to = in_order;
    u32 full = 1u << log, step = ans_step(log), at = 0;
    for (u32 symbol = t->lo; symbol <= t->hi; to += t->value[symbol++]) memset(to, (int)symbol, t->value[symbol]);
    for (u32 i = 0; i < full; i++, at = (at + step) & (full - 1)) symbols[i] = in_order[at];
}

/* Symbols in the order of their codes, and those codes, bit-reversed; the first with `l` bits is number at[l]. */
static void sort_codes(const cw_table *t, u8 *symbols /* [512] */, u16 *codes, u32 *at)
{
    u32 next[CW_HUFF_LOG + 2], code = 0;
    memset(at, 0, (CW_HUFF_LOG + 2) * sizeof *at);
    for (u32 symbol = t->lo; symbol <= t->hi; symbol++) at[t->value[symbol] + 1]++;
    at[1] = 0;
    for (u32 l = 2; l <= CW_HUFF_LOG + 1; l++) at[l] += at[l - 1];
    memcpy(next, at, sizeof next);
    next[0] = 256; /* out of the way: these have no code */
    for (u32 symbol = t->lo; symbol <= t->hi; symbol++) symbols[next[t->value[symbol]]++] = (u8)symbol;
    for (u32 l = 1; l <= CW_HUFF_LOG; l++)
        for (u32 i = at[l]; i < at[l + 1]; i++, code += 1u << (16 - l)) codes[i] = (u16)code;
    for (u32 i = 0; i < at[CW_HUFF_LOG + 1]; i++) { /* reversed in 16 bits, the code's first bit ends lowest */
        u32 c = codes[i];
        c = (c & 0x5555) << 1 | (c >> 1 & 0x5555);
        c = (c & 0x3333) << 2 | (c >> 2 & 0x3333);
        c = (c & 0x0f0f) << 4 | (c >> 4 & 0x0f0f);
        codes[i] = (u16)(c << 8 | c >> 8);
    }
}

void cw_huff_build(cw_huff_entry *to, const cw_table *t, int differences)
{
    u16 codes[256];
    u8 symbols[512];
    u32 at[CW_HUFF_LOG + 2], full = 1u << CW_HUFF_LOG;
    if (t->lo == t->hi) {
        u32 symbol = differences ? unzigzag8((u8)t->lo) : t->lo;
        for (u32 i = 0; i < full; i++) to[i] = (cw_huff_entry)(symbol << 8);
        return;
    }
    sort_codes(t, symbols, codes, at);
    if (differences)
        for (u32 i = 0; i < 256; i++) symbols[i] = unzigzag8(symbols[i]);
    /* by doubling: the table for codes of up to l bits, twice, is the table for l + 1 bits but for the codes of that length */
    to[0] = 0;
    for (u32 l = 1; l <= CW_HUFF_LOG; l++) {
        memcpy(to + (1u << (l - 1)), to, sizeof *to << (l - 1));
        for (u32 i = at[l]; i < at[l + 1]; i++) to[codes[i]] = (cw_huff_entry)(l | (u32)symbols[i] << 8);
    }
}

/* The entry of a state with this x, but for the symbol: the same for all symbols. */
static u32 ans_entry(u32 x, unsigned log)
{
    u32 nb = log - (31 - (u32)__builtin_clz(x));
    return nb | ((x << nb) - (1u << log)) << 16;
}

static u32 usual_entries[2 << CW_ANS_LOG]; /* by x, for the log that our encoder writes */

/* The states of a symbol come in rising x, from its frequency on. From both ends at once: a symbol that comes again has to wait for its
 * count, and the two ends do not wait for each other. */
static void build_ans(cw_ans_entry *to, const cw_table *t, unsigned log)
{
    u8 in_order[1 << 12], *end = in_order;
    u32 next[256], last[256], full = 1u << log, step = ans_step(log), at = 0, from_end = (0 - step) & (full - 1);
    for (u32 symbol = t->lo; symbol <= t->hi; end += t->value[symbol++]) {
        memset(end, (int)symbol, t->value[symbol]);
        next[symbol] = t->value[symbol];
        last[symbol] = 2u * t->value[symbol] - 1;
    }
    if (log == CW_ANS_LOG)
        for (u32 i = 0, k = (1u << CW_ANS_LOG) - 1; i < k; i++, k--) {
            u32 first = in_order[at], second = in_order[from_end];
            to[i] = usual_entries[next[first]++] | first << 8;
            to[k] = usual_entries[last[second]--] | second << 8;
            at = (at + step) & ((1u << CW_ANS_LOG) - 1);
            from_end = (from_end - step) & ((1u << CW_ANS_LOG) - 1);
        }
    else
        for (u32 i = 0; i < full; i++, at = (at + step) & (full - 1)) {
            u32 symbol = in_order[at];
            to[i] = ans_entry(next[symbol]++, log) | symbol << 8;
        }
}

void cw_decode_tables_build(void *to, const cw_table *t, u32 n, int coder, unsigned log)
{
    for (u32 i = 0; i < n; i++) {
        void *one = (u8 *)to + i * cw_decode_table_bytes(coder, log);
        if (coder == CW_HUFFMAN)
            cw_huff_build(one, &t[i], 0);
        else
            build_ans(one, &t[i], log);
    }
}

/* ---- what a symbol costs -------------------------------------------------------------------------------------------------------- */

static u8 fractions[256]; /* 16 * log2(1 + i / 256) */

void cw_log2_init(void)
{
    for (u32 x = 1; x < 2 << CW_ANS_LOG; x++) usual_entries[x] = ans_entry(x, CW_ANS_LOG);
    for (u32 i = 0; i < 256; i++) {
        u64 m = (u64)(256 + i) << 23; /* 1.31 fixed point, in [1, 2) */
        fractions[i] = 0;
        for (int bit = 0; bit < 4; bit++) { /* squaring doubles the logarithm: its whole part is the next bit */
            m = m * m >> 31;
            fractions[i] = (u8)(fractions[i] << 1 | m >> 32);
            m >>= m >> 32;
        }
    }
}

u32 cw_log2_16(u32 x)
{
    u32 whole = 31 - (u32)__builtin_clz(x);
    return whole << 4 | fractions[(u64)x << (31 - whole) >> 23 & 255];
}

u32 cw_table_symbol_cost(const cw_table *t, unsigned symbol, int coder, unsigned log)
{
    if (t->lo == t->hi) return symbol == t->lo ? 0 : 15 * 16;
    if (!t->value[symbol]) return 15 * 16; /* cannot be coded; dear enough never to be chosen where another table can */
    return coder == CW_HUFFMAN ? t->value[symbol] * 16u : log * 16 - cw_log2_16(t->value[symbol]);
}
