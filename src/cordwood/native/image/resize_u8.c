/* Resizing bytes in fixed point, with weights of 22 bits, as Pillow does: the sum of a pass is rounded to a byte.
 *
 * Vectors multiply 16 bits by 16, so a weight is taken in two parts, high * 256 + low, and two taps are added up by one instruction. All
 * sums are of numbers that are not negative and stay below 2^32, so the order of additions does not matter and both paths give the same bytes. */
#include "resize_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#endif

#define PRECISION 22
#define HALF ((u32)1 << (PRECISION - 1))

static inline u32 fixed(double weight) { return (u32)(0.5 + weight * (1 << PRECISION)); }
static inline u8 rounded(u32 sum) { return (u8)CW_MIN(sum >> PRECISION, 255u); }

/* ---- across ---------------------------------------------------------------------------------------------------------------- */

#define BLOCK 32               /* outputs made together */
/* Two taps of eight outputs: each lane of 128 bits looks at 16 bytes of the row and picks those of its four outputs. */
typedef struct {
    u8 pick[32];
    u16 high[16], low[16];
    u32 at[2];
} __attribute__((aligned(32))) lane_step;

typedef struct {
    u64 n, room;
    const u32 *first, *count;
    u32 *weight;                   /* [n][room] */
    lane_step *step;               /* [blocks][4][pairs], or NULL */
    u32 pairs;
    u16 *high, *low;               /* [n][chunks * 16], or NULL: many taps, 16 of one output at a time */
    u32 *at;                       /* [n] where they begin */
    u32 chunks;
} across_plan;

/* Outputs 4 * j to 4 * j + 3 of each half of a block go into lanes together, so that packing the sums puts them in order. */
static u64 output_of(u64 block, unsigned j, unsigned lane, unsigned i) { return block * BLOCK + lane * 16 + j * 4 + i; }

/* The taps 2 * pair and 2 * pair + 1 of four outputs; 0 when they do not lie within 16 bytes. */
static int fill_lane(const across_plan *p, lane_step *step, u64 block, unsigned j, unsigned lane, u32 pair, u64 readable)
{
    u64 lo = readable - 16, hi = 0;
    for (unsigned i = 0; i < 4; i++) {
        u64 x = output_of(block, j, lane, i);
        if (x >= p->n || p->count[x] <= 2 * pair) continue;
        lo = CW_MIN(lo, (u64)p->first[x] + 2 * pair);
        hi = CW_MAX(hi, (u64)p->first[x] + CW_MIN(p->count[x], 2 * pair + 2));
    }
    if (hi > lo + 16) return 0;
    step->at[lane] = (u32)lo;
    for (unsigned i = 0; i < 4; i++) {
        u64 x = output_of(block, j, lane, i);
        for (unsigned tap = 0; tap < 2; tap++) {
            unsigned to = lane * 8 + i * 2 + tap;
            u32 number = 2 * pair + tap;
            int there = x < p->n && number < p->count[x];
            u32 weight = there ? p->weight[x * p->room + number] : 0;
            step->pick[2 * to] = there ? (u8)(p->first[x] + number - lo) : 128;
            step->pick[2 * to + 1] = 128; /* a zero */
            step->high[to] = (u16)(weight >> 8);
            step->low[to] = (u16)(weight & 255);
        }
    }
    return 1;
}

/* CW_OK also when the row does not suit; p->step tells. */
static int plan_steps(across_plan *p, u32 most, u64 readable, cw_scratch *s)
{
    u64 blocks = (p->n + BLOCK - 1) / BLOCK;
    p->pairs = (most + 1) / 2;
    if (readable < 16 || most > 16) return CW_OK; /* beyond, neighbours' taps are further apart than a vector is long */
    lane_step *steps = cw_scratch_take(s, blocks * 4 * p->pairs * sizeof *steps);
    if (!steps) return CW_NOMEM;
    for (u64 i = 0; i < blocks * 4 * p->pairs; i++)
        for (unsigned lane = 0; lane < 2; lane++)
            if (!fill_lane(p, &steps[i], i / p->pairs / 4, (unsigned)(i / p->pairs % 4), lane, (u32)(i % p->pairs), readable)) return CW_OK;
    p->step = steps;
    return CW_OK;
}

static int plan_chunks(across_plan *p, u32 most, u64 readable, cw_scratch *s)
{
    p->chunks = (most + 15) / 16;
    u64 line = (u64)p->chunks * 16, n = (p->n + 3) / 4 * 4; /* they are done by fours: those beyond the last weigh nothing */
    if (readable < line) return CW_OK;
    u16 *high = cw_scratch_take(s, n * line * sizeof *high), *low = cw_scratch_take(s, n * line * sizeof *low);
    p->at = cw_scratch_take(s, n * sizeof *p->at);
    if (!high || !low || !p->at) return CW_NOMEM;
    memset(high, 0, n * line * sizeof *high);
    memset(low, 0, n * line * sizeof *low);
    memset(p->at, 0, n * sizeof *p->at);
    for (u64 x = 0; x < p->n; x++) {
        p->at[x] = (u32)CW_MIN((u64)p->first[x], readable - line);
        u64 to = x * line + (p->first[x] - p->at[x]);
        for (u32 i = 0; i < p->count[x]; i++) {
            high[to + i] = (u16)(p->weight[x * p->room + i] >> 8);
            low[to + i] = (u16)(p->weight[x * p->room + i] & 255);
        }
    }
    p->high = high;
    p->low = low;
    return CW_OK;
}

static void *plan_across(const cw_taps *t, u64 readable, cw_scratch *s)
{
    across_plan *p = cw_scratch_take(s, sizeof *p);
    if (!p) return NULL;
    *p = (across_plan){.n = t->n, .room = t->room, .first = t->first, .count = t->count};
    p->weight = cw_scratch_take(s, t->n * t->room * sizeof *p->weight);
    if (!p->weight) return NULL;
    for (u64 x = 0; x < t->n; x++)
        for (u32 i = 0; i < t->count[x]; i++) p->weight[x * t->room + i] = fixed(t->weight[x * t->room + i]);
    if (!cw_fast_cpu()) return p;
    if (plan_steps(p, t->most, readable, s)) return NULL;
    return !p->step && plan_chunks(p, t->most, readable, s) ? NULL : p;
}

#if defined(__x86_64__)

/* Eight sums to eight numbers of 32 bits below 256, but for a weight too much that packing cuts off. */
AVX2 static inline __m256i sum_of(__m256i high, __m256i low)
{
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, 8), low), PRECISION);
}

AVX2 static inline __m256i bytes_of(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
}

AVX2 static inline __attribute__((always_inline)) __m256i step_sum(const lane_step *step, u32 pairs, const u8 *row)
{
    __m256i high = _mm256_setzero_si256(), low = _mm256_set1_epi32((int)HALF);
    for (u32 i = 0; i < pairs; i++, step++) {
        __m256i seen = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row + step->at[0]))),
                                               _mm_loadu_si128((const __m128i *)(row + step->at[1])), 1);
        __m256i taps = _mm256_shuffle_epi8(seen, _mm256_load_si256((const __m256i *)step->pick));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(taps, _mm256_load_si256((const __m256i *)step->high)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(taps, _mm256_load_si256((const __m256i *)step->low)));
    }
    return sum_of(high, low);
}

#define STEPS_BODY(pairs)                                                                                                       \
    for (u64 x = 0; x < p->n; x += BLOCK, step += 4 * (pairs))                                                                  \
        _mm256_storeu_si256((__m256i *)(to + x), bytes_of(step_sum(step, pairs, row), step_sum(step + (pairs), pairs, row),     \
                                                          step_sum(step + 2 * (pairs), pairs, row), step_sum(step + 3 * (pairs), pairs, row)));

AVX2 static void across_steps(const across_plan *p, const u8 *row, u8 *to)
{
    const lane_step *step = p->step;
    u32 pairs = p->pairs;
    if (pairs == 1) STEPS_BODY(1)
    else if (pairs == 2) STEPS_BODY(2)
    else STEPS_BODY(pairs)
}

AVX2 static inline __m256i chunks_sum(const across_plan *p, u64 x, const u8 *row)
{
    __m256i high = _mm256_setzero_si256(), low = high;
    const u16 *h = p->high + x * p->chunks * 16, *l = p->low + x * p->chunks * 16;
    for (u32 i = 0; i < p->chunks; i++) {
        __m256i taps = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(row + p->at[x] + 16 * i)));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(taps, _mm256_load_si256((const __m256i *)(h + 16 * i))));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(taps, _mm256_load_si256((const __m256i *)(l + 16 * i))));
    }
    return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
}

AVX2 static void across_chunks(const across_plan *p, const u8 *row, u8 *to)
{
    for (u64 x = 0; x < p->n; x += 4) {
        __m256i front = _mm256_hadd_epi32(chunks_sum(p, x, row), chunks_sum(p, x + 1, row));
        __m256i sums = _mm256_hadd_epi32(front, _mm256_hadd_epi32(chunks_sum(p, x + 2, row), chunks_sum(p, x + 3, row)));
        __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        four = _mm_srli_epi32(_mm_add_epi32(four, _mm_set1_epi32((int)HALF)), PRECISION);
        four = _mm_packus_epi16(_mm_packus_epi32(four, four), four);
        cw_store32(to + x, (u32)_mm_cvtsi128_si32(four));
    }
}
#endif

static void across_portable(const across_plan *p, const u8 *row, u8 *to)
{
    for (u64 x = 0; x < p->n; x++) {
        u32 sum = HALF;
        for (u32 i = 0; i < p->count[x]; i++) sum += p->weight[x * p->room + i] * row[p->first[x] + i];
        to[x] = rounded(sum);
    }
}

static void across(const void *plan, const u8 *const *rows, unsigned n, u8 *const *to)
{
    const across_plan *p = plan;
    void (*run)(const across_plan *, const u8 *, u8 *) = across_portable;
#if defined(__x86_64__)
    if (p->step || p->high) run = p->step ? across_steps : across_chunks;
#endif
    for (unsigned i = 0; i < n; i++) run(p, rows[i], to[i]);
}

/* ---- down ------------------------------------------------------------------------------------------------------------------ */

typedef struct { u64 room; const u32 *count; u32 *weight; } down_plan;

static void *plan_down(const cw_taps *t, cw_scratch *s)
{
    down_plan *p = cw_scratch_take(s, sizeof *p);
    if (!p) return NULL;
    *p = (down_plan){.room = t->room + 1, .count = t->count, .weight = cw_scratch_take(s, t->n * (t->room + 1) * sizeof *p->weight)};
    if (!p->weight) return NULL;
    for (u64 y = 0; y < t->n; y++) {
        u32 *weight = p->weight + y * p->room, i = 0;
        for (; i < t->count[y]; i++) weight[i] = fixed(t->weight[y * t->room + i]);
        weight[i] = 0; /* taps are taken in pairs */
    }
    return p;
}

static void down_portable(const u32 *weight, u32 count, const u8 **rows, u64 first, u64 width, u8 *to)
{
    for (u64 x = first; x < width; x += 64) {
        u32 sum[64], n = (u32)CW_MIN(width - x, 64u);
        for (u32 i = 0; i < n; i++) sum[i] = HALF;
        for (u32 k = 0; k < count; k++)
            for (u32 i = 0; i < n; i++) sum[i] += weight[k] * rows[k][x + i];
        for (u32 i = 0; i < n; i++) to[x + i] = rounded(sum[i]);
    }
}

#if defined(__x86_64__)

#define ADD_PAIR(i, bytes)                                                            \
    {                                                                                 \
        __m256i taps_ = bytes;                                                        \
        high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(taps_, weight_high));   \
        low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(taps_, weight_low));      \
    }

AVX2 static inline __attribute__((always_inline)) __m256i down_block(const u32 *weight, u32 pairs, const u8 **rows, u64 x)
{
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32((int)HALF);
    __m256i high[4] = {zero, zero, zero, zero}, low[4] = {half, half, half, half};
    for (u32 k = 0; k < 2 * pairs; k += 2) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(rows[k] + x)), b = _mm256_loadu_si256((const __m256i *)(rows[k + 1] + x));
        __m256i weight_high = _mm256_set1_epi32((int)(weight[k] >> 8 | weight[k + 1] >> 8 << 16));
        __m256i weight_low = _mm256_set1_epi32((int)((weight[k] & 255) | (weight[k + 1] & 255) << 16));
        __m256i front = _mm256_unpacklo_epi8(a, b), back = _mm256_unpackhi_epi8(a, b);
        ADD_PAIR(0, _mm256_unpacklo_epi8(front, zero))
        ADD_PAIR(1, _mm256_unpackhi_epi8(front, zero))
        ADD_PAIR(2, _mm256_unpacklo_epi8(back, zero))
        ADD_PAIR(3, _mm256_unpackhi_epi8(back, zero))
    }
    return bytes_of(sum_of(high[0], low[0]), sum_of(high[1], low[1]), sum_of(high[2], low[2]), sum_of(high[3], low[3]));
}

/* The last block goes over columns again that the one before it has done: rows end where they end. */
#define DOWN_BODY(pairs)                                                                                                            \
    for (u64 x = 0; x < width; x += BLOCK) {                                                                                        \
        u64 at = CW_MIN(x, width - BLOCK);                                                                                          \
        _mm256_storeu_si256((__m256i *)(to + at), down_block(weight, pairs, rows, at));                                             \
    }

AVX2 static void down_fast(const u32 *weight, u32 pairs, const u8 **rows, u64 width, u8 *to)
{
    if (pairs == 1) DOWN_BODY(1)
    else if (pairs == 2) DOWN_BODY(2)
    else DOWN_BODY(pairs)
}
#endif

static void down(const void *plan, u64 y, const u8 **rows, u64 width, u8 *to)
{
    const down_plan *p = plan;
    const u32 *weight = p->weight + y * p->room;
    u32 count = p->count[y];
#if defined(__x86_64__)
    if (cw_fast_cpu() && width >= BLOCK) {
        rows[count] = rows[count - 1]; /* for an odd tap: its partner weighs nothing */
        down_fast(weight, (count + 1) / 2, rows, width, to);
        return;
    }
#endif
    down_portable(weight, count, rows, 0, width, to);
}

/* ---- mirroring, taking channels apart -------------------------------------------------------------------------------------- */

#define REVERSE_BODY for (u64 i = 0; i < n; i++) to[i] = from[n - 1 - i];
#define SPLIT_BODY                                                                   \
    for (u64 c = 0; c < channels; c++)                                               \
        for (u64 i = 0; i < n; i++) to[c * stride + i] = from[i * channels + c];

#if defined(__x86_64__)
AVX2 static void reverse_fast(const u8 *restrict from, u64 n, u8 *restrict to) { REVERSE_BODY }

/* pick_third[c][part][i]: where in vector `part` of three channel c of pixel i is. */
static const u8 pick_third[3][3][16] = {
    {{0, 3, 6, 9, 12, 15, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128}, {128, 128, 128, 128, 128, 128, 2, 5, 8, 11, 14, 128, 128, 128, 128, 128}, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1, 4, 7, 10, 13}},
    {{1, 4, 7, 10, 13, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128}, {128, 128, 128, 128, 128, 0, 3, 6, 9, 12, 15, 128, 128, 128, 128, 128}, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 2, 5, 8, 11, 14}},
    {{2, 5, 8, 11, 14, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128}, {128, 128, 128, 128, 128, 1, 4, 7, 10, 13, 128, 128, 128, 128, 128, 128}, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 3, 6, 9, 12, 15}},
};

/* Red, green and blue of 16 pixels are every third byte of three vectors. Returns how many pixels are done. */
AVX2 static u64 split3_fast(const u8 *from, u64 n, u8 *to, u64 stride)
{
    __m128i pick[3][3];
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 3; i++) pick[c][i] = _mm_loadu_si128((const __m128i *)pick_third[c][i]);
    u64 x = 0;
    for (; x + 16 <= n; x += 16) {
        __m128i part[3];
        for (int i = 0; i < 3; i++) part[i] = _mm_loadu_si128((const __m128i *)(from + 3 * x + 16 * i));
        for (int c = 0; c < 3; c++) {
            __m128i found = _mm_or_si128(_mm_shuffle_epi8(part[0], pick[c][0]), _mm_shuffle_epi8(part[1], pick[c][1]));
            _mm_storeu_si128((__m128i *)(to + c * stride + x), _mm_or_si128(found, _mm_shuffle_epi8(part[2], pick[c][2])));
        }
    }
    return x;
}
#endif

static void reverse(const u8 *from, u64 n, u8 *to)
{
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        reverse_fast(from, n, to);
        return;
    }
#endif
    REVERSE_BODY
}

static void split(const u8 *from, u64 n, u64 channels, u8 *to, u64 stride)
{
#if defined(__x86_64__)
    if (channels == 3 && cw_fast_cpu()) {
        u64 done = split3_fast(from, n, to, stride);
        from += 3 * done;
        to += done;
        n -= done;
    }
#endif
    SPLIT_BODY
}

static void fill(u8 *to, u64 n, float value) { memset(to, (int)CW_MIN(CW_MAX(value, 0.0f), 255.0f), n); }

static const cw_resize_kernel kernel = {
    .size = 1, .plan_across = plan_across, .across = across, .plan_down = plan_down, .down = down, .reverse = reverse, .split = split, .fill = fill,
};

int cw_resize_u8(const u8 *from, u64 channels, u64 height, u64 width, int interleaved, const cw_box *box, u64 out_h, u64 out_w, u8 *to,
                 cw_scratch *s)
{
    return cw_resize_with(&kernel, from, channels, height, width, interleaved, box, out_h, out_w, to, s);
}
