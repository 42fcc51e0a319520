/* Resizing floats. Products and sums are rounded one by one, tap after tap, in the portable path and in vectors: no fused steps, so both
 * give the same floats. */
#include "resize_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#endif

/* ---- across: eight rows at once, in vectors that hold a column of them -------------------------------------------------------- */

typedef struct {
    u64 n, room;
    const u32 *first, *count;
    float *weight;                 /* [n][room] */
    u64 begin, end;                /* the columns that outputs are made of */
    float *columns;                /* [end - begin][8], or NULL */
} across_plan;

static void *plan_across(const cw_taps *t, u64 readable, cw_scratch *s)
{
    across_plan *p = cw_scratch_take(s, sizeof *p);
    if (!p) return NULL;
    *p = (across_plan){.n = t->n, .room = t->room, .first = t->first, .count = t->count, .begin = readable};
    p->weight = cw_scratch_take(s, t->n * t->room * sizeof *p->weight);
    if (!p->weight) return NULL;
    for (u64 x = 0; x < t->n; x++) {
        for (u32 i = 0; i < t->count[x]; i++) p->weight[x * t->room + i] = (float)t->weight[x * t->room + i];
        p->begin = CW_MIN(p->begin, (u64)t->first[x]);
        p->end = CW_MAX(p->end, (u64)t->first[x] + t->count[x]);
    }
    if (!cw_fast_cpu() || readable < 8) return p;
    p->begin = CW_MIN(p->begin, readable - 8); /* at least eight columns, so that the last eight can be taken together */
    p->end = CW_MAX(p->end, p->begin + 8);
    p->columns = cw_scratch_take(s, (p->end - p->begin) * 8 * sizeof *p->columns);
    return p->columns ? p : NULL;
}

#if defined(__x86_64__)
AVX2 static inline void transpose8(__m256 *v)
{
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]), t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            v[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            v[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) t[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20), t[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
    for (int i = 0; i < 8; i++) v[i] = t[i];
}

AVX2 static void across_fast(const across_plan *p, const u8 *const rows[8], u8 *const to[8])
{
    __m256 v[8];
    for (u64 x = p->begin; x < p->end; x += 8) {
        u64 at = CW_MIN(x, p->end - 8);
        for (int i = 0; i < 8; i++) v[i] = _mm256_loadu_ps((const float *)(rows[i] + 4 * at));
        transpose8(v);
        for (int i = 0; i < 8; i++) _mm256_store_ps(p->columns + (at - p->begin + (u64)i) * 8, v[i]);
    }
    for (u64 x = 0; x < p->n; x += 8) {
        for (u64 i = 0; i < 8; i++) {
            u64 output = CW_MIN(x + i, p->n - 1); /* what is beyond the last goes to the slack */
            const float *weight = p->weight + output * p->room, *column = p->columns + (p->first[output] - p->begin) * 8;
            __m256 sum = _mm256_mul_ps(_mm256_set1_ps(weight[0]), _mm256_load_ps(column));
            for (u32 k = 1; k < p->count[output]; k++)
                sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(weight[k]), _mm256_load_ps(column + 8 * (size_t)k)));
            v[i] = sum;
        }
        transpose8(v);
        for (int i = 0; i < 8; i++) _mm256_storeu_ps((float *)(to[i] + 4 * x), v[i]);
    }
}
#endif

static void across(const void *plan, const u8 *const *rows, unsigned n, u8 *const *to)
{
    const across_plan *p = plan;
#if defined(__x86_64__)
    if (p->columns) {
        const u8 *eight[8];
        u8 *there[8];
        for (unsigned i = 0; i < 8; i++) eight[i] = rows[CW_MIN(i, n - 1)], there[i] = to[CW_MIN(i, n - 1)]; /* the last one again */
        across_fast(p, eight, there);
        return;
    }
#endif
    for (unsigned row = 0; row < n; row++)
        for (u64 x = 0; x < p->n; x++) {
            const float *weight = p->weight + x * p->room;
            const f32_any *from = (const f32_any *)rows[row] + p->first[x];
            float sum = weight[0] * from[0];
            for (u32 i = 1; i < p->count[x]; i++) sum += weight[i] * from[i];
            ((f32_any *)to[row])[x] = sum;
        }
}

/* ---- down ------------------------------------------------------------------------------------------------------------------ */

typedef struct { u64 room; const u32 *count; float *weight; } down_plan;

static void *plan_down(const cw_taps *t, cw_scratch *s)
{
    down_plan *p = cw_scratch_take(s, sizeof *p);
    if (!p) return NULL;
    *p = (down_plan){.room = t->room, .count = t->count, .weight = cw_scratch_take(s, t->n * t->room * sizeof *p->weight)};
    if (!p->weight) return NULL;
    for (u64 y = 0; y < t->n; y++)
        for (u32 i = 0; i < t->count[y]; i++) p->weight[y * p->room + i] = (float)t->weight[y * t->room + i];
    return p;
}

/* Sixty-four columns at a time, whose sums stay in registers or in the nearest cache. */
#define DOWN_BODY                                                                                     \
    for (u64 x = 0; x < width; x += 64) {                                                             \
        float sum[64];                                                                                \
        u32 n = (u32)CW_MIN(width - x, 64u);                                                          \
        for (u32 i = 0; i < n; i++) sum[i] = weight[0] * ((const f32_any *)rows[0])[x + i];           \
        for (u32 k = 1; k < count; k++)                                                               \
            for (u32 i = 0; i < n; i++) sum[i] += weight[k] * ((const f32_any *)rows[k])[x + i];      \
        memcpy(to + 4 * x, sum, 4 * (size_t)n);                                                       \
    }

#if defined(__x86_64__)
AVX2 static void down_fast(const float *weight, u32 count, const u8 **rows, u64 width, u8 *to) { DOWN_BODY }
#endif

static void down(const void *plan, u64 y, const u8 **rows, u64 width, u8 *to)
{
    const down_plan *p = plan;
    const float *weight = p->weight + y * p->room;
    u32 count = p->count[y];
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        down_fast(weight, count, rows, width, to);
        return;
    }
#endif
    DOWN_BODY
}

/* ---- mirroring, taking channels apart -------------------------------------------------------------------------------------- */

#define REVERSE_BODY for (u64 i = 0; i < n; i++) ((u32_any *)to)[i] = ((const u32_any *)from)[n - 1 - i];

#if defined(__x86_64__)
AVX2 static void reverse_fast(const u8 *restrict from, u64 n, u8 *restrict to) { REVERSE_BODY }
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
    for (u64 c = 0; c < channels; c++)
        for (u64 i = 0; i < n; i++) ((u32_any *)to)[c * stride + i] = ((const u32_any *)from)[i * channels + c];
}

static void fill(u8 *to, u64 n, float value)
{
    for (u64 i = 0; i < n; i++) ((f32_any *)to)[i] = value;
}

static const cw_resize_kernel kernel = {
    .size = 4, .plan_across = plan_across, .across = across, .plan_down = plan_down, .down = down, .reverse = reverse, .split = split, .fill = fill,
};

int cw_resize_f32(const f32_any *from, u64 channels, u64 height, u64 width, int interleaved, const cw_box *box, u64 out_h, u64 out_w, f32_any *to,
                  cw_scratch *s)
{
    return cw_resize_with(&kernel, (const u8 *)from, channels, height, width, interleaved, box, out_h, out_w, (u8 *)to, s);
}
