/* Which table for which tile: tiles are clustered by what they cost to code. */
#include "tiles.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

void cw_tiles_gather(cw_tiled *t, const cw_plane *planes, u32 n_planes, unsigned th, unsigned tw)
{
    u8 *to = t->symbols;
    u64 tile = 0;
    for (u32 i = 0; i < n_planes; i++) {
        const cw_plane *p = &planes[i];
        for (u64 y = 0; y < p->rows; y += (u64)1 << th)
            for (u64 x = 0; x < p->cols; x += (u64)1 << tw) {
                u64 h = CW_MIN((u64)1 << th, p->rows - y), w = CW_MIN((u64)1 << tw, p->cols - x);
                const u8 *from = p->data + y * p->stride + x;
                t->start[tile++] = (u32)(to - t->symbols);
                if (w == 16) /* the usual width, known to the compiler: no call for sixteen bytes */
                    for (u64 k = 0; k < h; k++, to += 16, from += p->stride) memcpy(to, from, 16);
                else
                    for (u64 k = 0; k < h; k++, to += w, from += p->stride) memcpy(to, from, w);
            }
    }
    t->start[tile] = (u32)(to - t->symbols);
}

/* Every tile takes the table that is cheapest for it, with what the map costs added: `steps` from the table of the tile before. A tile is summed in runs short enough for 16 bits. */
#define ASSIGN_BODY                                                                              \
    for (u64 tile = 0; tile < t->tiles; tile += every) {                                         \
        u32 total[CW_OWN_TABLES] = {0};                                                            \
        for (u64 i = t->start[tile], last = t->start[tile + 1]; i < last;) {                     \
            cw_cost_row sum = {0}, other = {0};                                                     \
            u64 end = CW_MIN(i + 256, last);                                                     \
            for (; i + 2 <= end; i += 2) sum += costs[t->symbols[i]], other += costs[t->symbols[i + 1]]; \
            if (i < end) sum += costs[t->symbols[i++]];                                          \
            sum += other;                                                                        \
            for (int k = 0; k < CW_OWN_TABLES; k++) total[k] += sum[k];                            \
        }                                                                                        \
        int best = 0, before = tile ? t->map[tile - 1] : 0;                                      \
        for (int k = 0; steps && k < tables; k++) total[k] += steps[(k + tables - before) % tables]; \
        for (int k = 1; k < tables; k++)                                                         \
            if (total[k] < total[best]) best = k;                                                \
        t->map[tile] = (u8)best;                                                                 \
    }

static void assign_any(cw_tiled *t, const cw_cost_row *costs, int tables, const u32 *steps, u64 every) { ASSIGN_BODY }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void assign_avx2(cw_tiled *t, const cw_cost_row *costs, int tables, const u32 *steps, u64 every) { ASSIGN_BODY }
#endif

static void assign(cw_tiled *t, const cw_cost_row *costs, int tables, const u32 *steps, u64 every)
{
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        assign_avx2(t, costs, tables, steps, every);
        return;
    }
#endif
    assign_any(t, costs, tables, steps, every);
}

void cw_tiles_assign(cw_tiled *t, const cw_cost_row *costs, int tables, u64 every) { assign(t, costs, tables, NULL, every); }

/* Again, with what steps of the map cost by how many there are of each now. */
static void assign_by_steps(cw_tiled *t, const cw_cost_row *costs, int tables)
{
    u32 counts[CW_OWN_TABLES], steps[CW_OWN_TABLES], whole = cw_log2_16((u32)CW_MIN(t->tiles + (u64)tables, (u64)UINT32_MAX));
    for (int k = 0; k < tables; k++) counts[k] = 1;
    for (u64 i = 0; i < t->tiles; i++) counts[(t->map[i] + tables - (i ? t->map[i - 1] : 0)) % tables]++;
    for (int k = 0; k < tables; k++) steps[k] = whole - CW_MIN(whole, cw_log2_16(counts[k]));
    assign(t, costs, tables, steps, 1);
}

/* Costs from counts, with a little weight for symbols that a cluster has not met. */
static void costs_from_counts(cw_cost_row *costs, u32 (*counts)[256], int n)
{
    memset(costs, 0, 256 * sizeof *costs);
    for (int k = 0; k < n; k++) {
        u64 total = 0;
        for (int s = 0; s < 256; s++) total += counts[k][s];
        unsigned down = 0; /* keeps 16 * total + 256 within 32 bits */
        while ((total >> down) >= (u64)1 << 27) down++;
        u32 whole = cw_log2_16((u32)(16 * (total >> down) + 256));
        for (int s = 0; s < 256; s++) {
            u32 count = counts[k][s] >> down, part = count ? cw_log2_16(16 * count + 1) : 0; /* most are 0, and so is their logarithm */
            costs[s][k] = (u16)CW_MIN(whole - part, 15u * 16);
        }
    }
}

void cw_tiles_count(const cw_tiled *t, u32 (*counts)[256], int n, u64 every)
{
    u32 bank[4][CW_OWN_TABLES][256]; /* four of each, so that equal neighbours do not wait for each other */
    for (int b = 0; b < 4; b++) memset(bank[b], 0, (size_t)n * sizeof *bank[b]);
    for (u64 tile = 0; tile < t->tiles; tile += every) {
        unsigned k = t->map[tile];
        u32 *c0 = bank[0][k], *c1 = bank[1][k], *c2 = bank[2][k], *c3 = bank[3][k];
        u64 i = t->start[tile], end = t->start[tile + 1];
        for (; i + 8 <= end; i += 8) {
            u64 eight = cw_load64(t->symbols + i);
            c0[eight & 255]++, c1[eight >> 8 & 255]++, c2[eight >> 16 & 255]++, c3[eight >> 24 & 255]++;
            c0[eight >> 32 & 255]++, c1[eight >> 40 & 255]++, c2[eight >> 48 & 255]++, c3[eight >> 56]++;
        }
        for (; i < end; i++) c0[t->symbols[i]]++;
    }
    for (int k = 0; k < n; k++)
        for (int s = 0; s < 256; s++) counts[k][s] = bank[0][k][s] + bank[1][k][s] + bank[2][k][s] + bank[3][k][s];
}

static u64 weigh_any(const u8 *symbols, u64 n, const u8 *weight)
{
    u64 sum = 0, i = 0;
    for (; i + 8 <= n; i += 8) { /* symbols come eight at a time: half as many loads */
        u64 eight = cw_load64(symbols + i);
        u32 some = 0;
        for (int b = 0; b < 64; b += 8) some += weight[eight >> b & 255];
        sum += some;
    }
    for (; i < n; i++) sum += weight[symbols[i]];
    return sum;
}

#if defined(__x86_64__)
/* A shuffle looks up sixteen weights. Symbols of other sixteens have bit 7 set by then, which makes their look-up 0. Most symbols are
 * small: the upper twelve sixteens are asked only where one is there. */
__attribute__((target("avx2"))) static u64 weigh_avx2(const u8 *symbols, u64 n, const u8 *weight)
{
    __m256i sums = _mm256_setzero_si256(), high = _mm256_set1_epi8((char)0xc0);
    u64 i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(symbols + i)), w = _mm256_setzero_si256();
        int sixteens = _mm256_testz_si256(v, high) ? 4 : 16;
        for (int k = 0; k < sixteens; k++) {
            __m256i sixteen = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(weight + 16 * k)));
            __m256i at = _mm256_adds_epu8(_mm256_sub_epi8(v, _mm256_set1_epi8((char)(16 * k))), _mm256_set1_epi8(0x70));
            w = _mm256_or_si256(w, _mm256_shuffle_epi8(sixteen, at));
        }
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(w, _mm256_setzero_si256()));
    }
    u64 sum[4];
    memcpy(sum, &sums, sizeof sum);
    return sum[0] + sum[1] + sum[2] + sum[3] + weigh_any(symbols + i, n - i, weight);
}
#endif

static u64 weigh(const u8 *symbols, u64 n, const u8 *weight)
{
#if defined(__x86_64__)
    if (cw_fast_cpu()) return weigh_avx2(symbols, n, weight);
#endif
    return weigh_any(symbols, n, weight);
}

/* First guess: tiles in order of how much they hold (the sum of the symbols' bit lengths), cut into equal parts. */
static void guess(cw_tiled *t, int tables)
{
    u8 weight[256];
    for (u32 s = 0; s < 256; s++) weight[s] = (u8)(cw_log2_16(s + 1) / 4);
    u32 bins[256] = {0}, part[256];
    for (u64 tile = 0; tile < t->tiles; tile++) {
        u64 n = t->start[tile + 1] - t->start[tile];
        u64 level = n ? weigh(t->symbols + t->start[tile], n, weight) * 8 / n : 0;
        t->map[tile] = (u8)CW_MIN(level, (u64)255);
        bins[t->map[tile]]++;
    }
    u64 below = 0;
    for (int b = 0; b < 256; b++) {
        part[b] = (u32)((below + bins[b] / 2) * (u64)tables / t->tiles);
        below += bins[b];
    }
    for (u64 tile = 0; tile < t->tiles; tile++) t->map[tile] = (u8)CW_MIN(part[t->map[tile]], (u32)tables - 1);
}

/* k-means with coding cost as the distance. Leaves counts of the clusters that are used, numbered without gaps. */
int cw_tiles_cluster(cw_tiled *t, int tables, int thorough, u32 (*counts)[256], cw_cost_row *costs)
{
    int rounds = thorough ? 10 : 2;
    guess(t, tables);
    /* a part of the tiles says enough about the clusters; at last every tile chooses */
    u64 part = t->tiles >= 512 ? thorough ? 2 : 4 : 1;
    for (int round = 0; round < rounds; round++) {
        cw_tiles_count(t, counts, tables, part);
        costs_from_counts(costs, counts, tables);
        cw_tiles_assign(t, costs, tables, round < rounds - 1 ? part : 1);
    }
    if (thorough) assign_by_steps(t, costs, tables);
    u8 number[CW_OWN_TABLES], used[CW_OWN_TABLES] = {0};
    int n = 0;
    for (u64 tile = 0; tile < t->tiles; tile++) used[t->map[tile]] = 1;
    for (int k = 0; k < tables; k++) number[k] = (u8)(used[k] ? n++ : 0);
    for (u64 tile = 0; tile < t->tiles; tile++) t->map[tile] = number[t->map[tile]];
    cw_tiles_count(t, counts, n, 1);
    return n;
}

static int within(u64 n, u64 tiles, u32 max_tables)
{
    n = CW_MIN(n, CW_MIN(tiles, (u64)CW_MIN(max_tables, CW_OWN_TABLES)));
    return (int)CW_MAX(n, (u64)1);
}

/* How many tables pay in a frame: each costs about 40 bytes and gains where tiles differ, the less the more there are; the planes of wide codes
 * always differ. */
int cw_tables_worth(u64 symbols, u64 tiles, u32 planes, u32 max_tables)
{
    u64 of_tiles = CW_MIN(CW_MIN(symbols / 2048, 2 + symbols / 16384), tiles / 4);
    return within(CW_MAX(of_tiles, CW_MIN(symbols / 512, (u64)planes)), tiles, max_tables);
}

/* ---- tables for a plan ------------------------------------------------------------------------------------------------------------- */

struct cw_learner { cw_buffer symbols, starts; };

cw_learner *cw_learner_new(void) { return calloc(1, sizeof(cw_learner)); }

void cw_learner_free(cw_learner *l)
{
    cw_buffer_free(&l->symbols);
    cw_buffer_free(&l->starts);
    free(l);
}

int cw_learner_take(cw_learner *l, const cw_plane *planes, u32 n_planes, unsigned th, unsigned tw, cw_err *e)
{
    cw_tiled t = {0};
    for (u32 i = 0; i < n_planes; i++) {
        t.n += planes[i].rows * planes[i].cols;
        t.tiles += cw_tiles_of(&planes[i], th, tw);
    }
    u32 before = (u32)l->symbols.size;
    if (t.n == 0 || t.n + before >= UINT32_MAX) return CW_OK; /* nothing to see, or enough seen */
    t.symbols = cw_reserve(&l->symbols, t.n);
    t.start = (u32 *)cw_reserve(&l->starts, (t.tiles + 1) * sizeof *t.start);
    if (!t.symbols || !t.start) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    cw_tiles_gather(&t, planes, n_planes, th, tw);
    for (u64 i = 0; i < t.tiles; i++) t.start[i] += before;
    l->symbols.size += t.n;
    l->starts.size += t.tiles * sizeof *t.start;
    return CW_OK;
}

int cw_learner_tables(cw_learner *l, int coder, u32 max_tables, cw_buffer *out)
{
    unsigned log = coder == CW_ANS ? CW_ANS_LOG : CW_HUFF_LOG;
    u32 end = (u32)l->symbols.size;
    cw_put(&l->starts, &end, sizeof end);
    cw_tiled t = {l->symbols.data, end, l->starts.size / sizeof end - 1, (u32 *)l->starts.data, malloc(l->starts.size)};
    u32(*counts)[256] = malloc(CW_OWN_TABLES * sizeof *counts);
    cw_cost_row *costs = malloc(256 * sizeof *costs);
    cw_table *tables = malloc(CW_OWN_TABLES * sizeof *tables);
    int ok = t.tiles > 0 && t.map && counts && costs && tables && !l->starts.failed;
    if (ok) {
        int most = within(CW_MIN(t.n / 2048, t.tiles / 4), t.tiles, max_tables); /* they cost nothing in frames */
        int k = cw_tiles_cluster(&t, most, 1, counts, costs);
        for (int i = 0; i < k; i++) {
            u64 total = 0;
            for (int s = 0; s < 256; s++) total += counts[i][s];
            /* every symbol can be coded: other arrays will hold what these did not */
            for (int s = 0; s < 256; s++) counts[i][s] = (u32)CW_MAX(counts[i][s], 1 + total / 65536);
            cw_table_from_counts(&tables[i], counts[i], coder, log);
        }
        cw_buffer bits = {0};
        cw_tables_write(tables, (u32)k, coder, &bits);
        cw_put_u8(out, (u8)coder);
        cw_put_u8(out, (u8)log);
        cw_put_varint(out, (u64)k);
        cw_put_varint(out, bits.size);
        cw_put(out, bits.data, bits.size);
        ok = !bits.failed && !out->failed;
        cw_buffer_free(&bits);
    }
    free(t.map);
    free(counts);
    free(costs);
    free(tables);
    return ok;
}
