/* Prediction by several predictors, forwards and back: see mixed.h and "mixed" in docs/format/frame.md. */
#include "entropy.h"
#include "mixed.h"

#define INLINE __attribute__((always_inline)) static inline

/* ---- the definition, one pixel at a time ------------------------------------------------------------------------------------------------- */

INLINE u8 mean8(u8 a, u8 b) { return (u8)((a + b + 1) >> 1); }
INLINE u8 beyond8(u8 from, u8 to, u8 than) /* from + to - than, between 0 and 255 */
{
    int v = from + to - than;
    return (u8)(v < 0 ? 0 : v > 255 ? 255 : v);
}

INLINE u8 predicted8(int kind, u8 w, u8 n, u8 nw, u8 ww, u8 nn)
{
    u8 med = med8(w, n, nw);
    switch (kind) {
    case 0: return med;
    case 1: return mean8(w, n);
    case 2: return mean8(med, beyond8(w, w, ww));
    case 3: return mean8(med, beyond8(n, n, nn));
    case 4: return mean8(mean8(med, beyond8(w, w, ww)), mean8(med, beyond8(n, n, nn)));
    case 5: return beyond8(w, n, nw);
    case 6: return mean8(mean8(w, n), beyond8(w, n, nw));
    default: return mean8(w, med);
    }
}

/* What a factor takes of the base channel's residual. */
INLINE u8 part8(int quarters, u8 base) { return (u8)((quarters * (int)(int8_t)base + 2) >> 2); }

/* ---- back ---------------------------------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

typedef struct { __m128i x, before, n; } mixed_chain; /* the diagonals of the last step and the one before it, and the last step's n */

/* ENTER: row 0 gets the byte at `p`, every other row what the one above it has. The 15 bytes before `p` may be read.
 * ROUNDED: a * b / 2^15, rounded, a half upwards. */
#define TARGET
#define NAME(x) x##_any
#define ENTER(v, p) _mm_or_si128(_mm_slli_si128(v, 1), _mm_cvtsi32_si128(*(p)))
#define ROUNDED(a, b) _mm_srai_epi16(_mm_add_epi16(_mm_srai_epi16(_mm_mullo_epi16(_mm_srai_epi16(a, 8), b), 4), _mm_set1_epi16(4)), 3)
#include "predict_mixed.inc"
#undef TARGET
#undef NAME
#undef ENTER
#undef ROUNDED

#define TARGET __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#define ENTER(v, p) _mm_alignr_epi8(v, _mm_loadu_si128((const __m128i *)((p) - 15)), 15)
#define ROUNDED(a, b) _mm_mulhrs_epi16(a, b)
#include "predict_mixed.inc"

static void undo(cw_mixed_band *m, u32 n, u32 base, u64 width, u64 stride, int top)
{
    if (cw_fast_cpu()) undo_avx2(m, n, base, width, stride, top);
    else undo_any(m, n, base, width, stride, top);
}

#else

static void undo(cw_mixed_band *m, u32 n, u32 base, u64 width, u64 stride, int top)
{
    for (u32 c = 0; c < n; c++) {
        const u8 *up = top ? NULL : m[c].band.above, *up2 = top ? NULL : m[c].above2;
        for (u64 y = 0; y < 16; y++) {
            const u8 *z = m[c].band.from + y * m[c].band.stride, *base_z = m[base].band.from + y * m[base].band.stride;
            u8 *row = m[c].band.to + y * stride;
            for (u64 x = 0; x < width; x++) {
                u64 group = (x + y) / 16;
                u8 p = x ? row[x - 1] : 0, r = unzigzag8(z[x]);
                if (c != base) r = (u8)(r + part8(cw_mixed_quarters(m[c].factors[group]), unzigzag8(base_z[x])));
                if (up) p = x ? predicted8(m[c].kinds[group], p, up[x], up[x - 1], x > 1 ? row[x - 2] : p, up2 ? up2[x] : up[x]) : up[0];
                row[x] = (u8)(p + r);
            }
            up2 = up;
            up = row;
        }
    }
}

#endif

void cw_mixed_undo_bands(cw_mixed_band *m, u32 n, u32 base, u64 width, u64 stride, int top)
{
    if (!width) return;
    undo(m, n, base, width, stride, top);
    for (u32 c = 0; c < n; c++) {
        memcpy(m[c].band.above, m[c].band.to + 15 * stride, width);
        memcpy(m[c].above2, m[c].band.to + 14 * stride, width);
    }
}

/* ---- forwards ------------------------------------------------------------------------------------------------------------------------------- */

INLINE void apply_row(int kind, const u8 *row, const u8 *up, const u8 *up2, u64 width, u8 *restrict to)
{
    to[0] = (u8)(row[0] - up[0]);
    if (width > 1) to[1] = (u8)(row[1] - predicted8(kind, row[0], up[1], up[0], row[0], up2[1]));
    for (u64 x = 2; x < width; x++) to[x] = (u8)(row[x] - predicted8(kind, row[x - 1], up[x], up[x - 1], row[x - 2], up2[x]));
}

/* Differences from every predictor, a plane for each. */
INLINE void differences(const u8 *codes, u64 width, u64 rows, u8 *to)
{
    for (int kind = 0; kind < CW_MIXED_KINDS; kind++)
        for (u64 y = 0; y < rows; y++, to += width) {
            const u8 *row = codes + y * width, *up = row - width, *up2 = y > 1 ? up - width : up;
            if (y == 0) {
                to[0] = row[0];
                for (u64 x = 1; x < width; x++) to[x] = (u8)(row[x] - row[x - 1]);
                continue;
            }
#define KIND(k) \
    case k: apply_row(k, row, up, up2, width, to); break;
            switch (kind) { KIND(0) KIND(1) KIND(2) KIND(3) KIND(4) KIND(5) KIND(6) default: apply_row(7, row, up, up2, width, to); }
#undef KIND
        }
}

static void differences_any(const u8 *codes, u64 width, u64 rows, u8 *to) { differences(codes, width, rows, to); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void differences_avx2(const u8 *codes, u64 width, u64 rows, u8 *to) { differences(codes, width, rows, to); }
#endif

/* The part of a row that is in a group. */
typedef struct { u64 from, to; } span;
static span span_of(u64 width, u64 y, u64 group)
{
    u64 j = y & 15, end = 16 * group + 16 - j;
    return (span){16 * group > j ? 16 * group - j : 0, CW_MIN(end, width)};
}

/* About how many sixteenths of a bit a group's differences take, `parts` of the base channel's taken off. */
static u32 cost_of(const u8 *differences, const u8 *base, const u8 *parts, const u8 *weight, u64 width, u64 rows, u64 band, u64 group)
{
    u32 sum = 0;
    for (u64 y = 16 * band; y < CW_MIN(16 * band + 16, rows); y++) {
        span s = span_of(width, y, group);
        const u8 *d = differences + y * width, *b = base + y * width;
        for (u64 x = s.from; x < s.to; x++) sum += weight[(u8)(d[x] - (parts ? parts[b[x]] : 0))];
    }
    return sum;
}

#define KIND_BITS(k) (16u * ((k) ? 3u : 1u))
#define FACTOR_BITS(k) (16u * ((k) ? 3u : 1u))

void cw_mixed_apply(const u8 *codes, u32 channels, u32 base, u64 width, u64 rows, u8 *to, u8 *kinds, u8 *factors, u8 *work)
{
    u64 n = rows * width, bands = cw_mixed_bands(rows), groups = cw_mixed_groups(width);
    u8 weight[256], parts[CW_MIXED_FACTORS][256], *of_base = work + CW_MIXED_KINDS * n;
    for (u32 d = 0; d < 256; d++) {
        weight[d] = (u8)(cw_log2_16(2 + (d < 128 ? d : 256 - d)) - 16);
        for (u32 f = 0; f < CW_MIXED_FACTORS; f++) parts[f][d] = part8(cw_mixed_quarters((u8)f), (u8)d);
    }
    for (u32 k = 0; k < channels; k++) {
        u32 c = k == 0 ? base : k <= base ? k - 1 : k; /* the base first */
#if defined(__x86_64__)
        if (cw_fast_cpu()) differences_avx2(codes + c * n, width, rows, work);
        else
#endif
            differences_any(codes + c * n, width, rows, work);
        for (u64 band = 0; band < bands; band++)
            for (u64 group = 0; group < groups; group++) {
                u32 lowest = UINT32_MAX, cost;
                u8 kind = 0, factor = 0;
                for (u8 i = 0; i < CW_MIXED_KINDS; i++)
                    if ((cost = cost_of(work + i * n, of_base, NULL, weight, width, rows, band, group) + KIND_BITS(i)) < lowest) lowest = cost, kind = i;
                const u8 *chosen = work + kind * n;
                lowest += FACTOR_BITS(0) - KIND_BITS(kind);
                for (u8 f = 1; k && f < CW_MIXED_FACTORS; f++)
                    if ((cost = cost_of(chosen, of_base, parts[f], weight, width, rows, band, group) + FACTOR_BITS(f)) < lowest) lowest = cost, factor = f;
                kinds[(c * bands + band) * groups + group] = kind;
                factors[(c * bands + band) * groups + group] = factor;
                for (u64 y = 16 * band; y < CW_MIN(16 * band + 16, rows); y++) {
                    span s = span_of(width, y, group);
                    for (u64 x = s.from; x < s.to; x++) {
                        u8 d = chosen[y * width + x];
                        if (!k) of_base[y * width + x] = d;
                        else d = (u8)(d - parts[factor][of_base[y * width + x]]);
                        to[c * n + y * width + x] = zigzag8(d);
                    }
                }
            }
    }
}
