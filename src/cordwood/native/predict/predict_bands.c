/* Undoing the median predictor needs the pixel to the left, so a row is a chain of dependent steps. Sixteen rows at once are not:
 * when row j is always one column behind row j-1, everything a pixel needs is in the previous steps' vectors. So one vector
 * holds a diagonal: lane j is column t-j of row j. Codes leave through 16x16 transposes; residuals come along diagonals already,
 * or through transposes too. A vector of 32 bytes holds two planes: the chain of dependent steps does twice the work. */
#include "entropy.h"
#include "predict.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Four rounds of interleaving vectors i and i+8. */
#define DEFINE_TRANSPOSE(TARGET, name, V, op)                                                                                    \
    TARGET static inline void name(V *v)                                                                                         \
    {                                                                                                                            \
        V t[16];                                                                                                                 \
        for (int round = 0; round < 2; round++) {                                                                                \
            for (int i = 0; i < 8; i++) t[2 * i] = op##unpacklo_epi8(v[i], v[i + 8]), t[2 * i + 1] = op##unpackhi_epi8(v[i], v[i + 8]); \
            for (int i = 0; i < 8; i++) v[2 * i] = op##unpacklo_epi8(t[i], t[i + 8]), v[2 * i + 1] = op##unpackhi_epi8(t[i], t[i + 8]); \
        }                                                                                                                        \
    }
#define ANY_X86 __attribute__((always_inline))
#define AVX2 __attribute__((target("avx2")))

DEFINE_TRANSPOSE(ANY_X86, transpose16, __m128i, _mm_)
DEFINE_TRANSPOSE(AVX2, transpose16_pair, __m256i, _mm256_)

/* One step of 16 rows: x is the diagonal before, n the one above it, r the residuals; `entering` is the new n, row 0's from outside.
 * In column 0, which `first` sees to, a row has no left neighbour and takes the one above. */
#define STEP(V, op, x, n, r, entering, first)                                                 \
    {                                                                                         \
        V w = x, nw = n;                                                                      \
        n = entering;                                                                         \
        first                                                                                 \
        V lo = op##min_epu8(w, n), hi = op##max_epu8(w, n);                                   \
        x = op##add_epi8(op##max_epu8(lo, op##subs_epu8(hi, op##subs_epu8(nw, lo))), r);      \
    }

typedef struct { __m128i x, n; } chain;

/* Sixteen steps. The first row of all has nothing above it and takes its left neighbour: what enters above it is that. */
ANY_X86 static inline void steps(chain *c, const __m128i *r, __m128i *v, __m128i above, int top, int first)
{
    const __m128i low = _mm_cvtsi32_si128(255);
    __m128i x = c->x, n = c->n, column = first ? low : _mm_setzero_si128();
    for (int i = 0; i < 16; i++) {
        STEP(__m128i, _mm_, x, n, r[i], _mm_or_si128(_mm_slli_si128(x, 1), _mm_and_si128(top ? x : above, low)),
             w = _mm_or_si128(_mm_andnot_si128(column, w), _mm_and_si128(column, n));)
        v[i] = x;
        above = _mm_srli_si128(above, 1);
        column = _mm_slli_si128(column, 1);
    }
    c->x = x, c->n = n;
}

/* The residuals of steps t to t+15, where they lie or as made from rows. */
ANY_X86 static inline const __m128i *residuals(const cw_band *b, u64 t, __m128i *made)
{
    if (!b->stride) return (const __m128i *)(b->from + 16 * t);
    for (int j = 0; j < 16; j++) made[j] = _mm_loadu_si128((const __m128i *)(b->from + (u64)j * b->stride + t - (u64)j));
    transpose16(made);
    for (int j = 0; j < 16; j++)
        made[j] = _mm_xor_si128(_mm_and_si128(_mm_srli_epi16(made[j], 1), _mm_set1_epi8(127)),
                                _mm_sub_epi8(_mm_setzero_si128(), _mm_and_si128(made[j], _mm_set1_epi8(1))));
    return made;
}

#define ABOVE(b) _mm_loadu_si128((const __m128i *)((b).above + t))

static void undo_one(const cw_band *b, u64 width, u64 stride, int top)
{
    chain c = {_mm_setzero_si128(), _mm_setzero_si128()};
    for (u64 t = 0; t < width + 15; t += 16) {
        __m128i made[16], v[16];
        steps(&c, residuals(b, t, made), v, ABOVE(*b), top, t == 0);
        transpose16(v);
        for (int j = 0; j < 16; j++) _mm_storeu_si128((__m128i *)(b->to + (u64)j * stride + t - (u64)j), v[j]);
    }
}

#define PAIR(a, b) _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1)
#define SIXTEEN(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)

/* Two planes, and with `third` three: two chains side by side take hardly longer than one. */
AVX2 __attribute__((always_inline)) static inline void undo_some(const cw_band *b, u64 width, u64 stride, int top, int third)
{
    const cw_band b0 = b[0], b1 = b[1], b2 = b[third ? 2 : 0];
    const __m256i low = _mm256_set_epi64x(0, 255, 0, 255);
    __m256i x = _mm256_setzero_si256(), n = x;
    chain c = {_mm_setzero_si128(), _mm_setzero_si128()};
    for (u64 t = 0; t < width + 15; t += 16) {
        __m128i made[3][16], v2[16], above2 = ABOVE(b2);
        const __m128i *r0 = residuals(&b0, t, made[0]), *r1 = residuals(&b1, t, made[1]), *r2 = third ? residuals(&b2, t, made[2]) : NULL;
        __m256i v[16], above = PAIR(ABOVE(b0), ABOVE(b1));
        if (t == 0 || top) {
            __m256i column = t ? _mm256_setzero_si256() : low;
            for (int i = 0; i < 16; i++) {
                STEP(__m256i, _mm256_, x, n, PAIR(r0[i], r1[i]), _mm256_or_si256(_mm256_slli_si256(x, 1), _mm256_and_si256(top ? x : above, low)),
                     w = _mm256_blendv_epi8(w, n, column);)
                v[i] = x;
                above = _mm256_srli_si256(above, 1);
                column = _mm256_slli_si256(column, 1);
            }
            if (third) steps(&c, r2, v2, above2, top, t == 0);
        } else {
#define INNER(i)                                                                                                            \
    STEP(__m256i, _mm256_, x, n, PAIR(r0[i], r1[i]), _mm256_alignr_epi8(x, _mm256_slli_si256(above, 15 - i), 15), )         \
    v[i] = x;                                                                                                               \
    if (third) {                                                                                                            \
        STEP(__m128i, _mm_, c.x, c.n, r2[i], _mm_alignr_epi8(c.x, _mm_slli_si128(above2, 15 - i), 15), )                    \
        v2[i] = c.x;                                                                                                        \
    }
            SIXTEEN(INNER)
#undef INNER
        }
        u8 *to0 = b0.to + t, *to1 = b1.to + t, *to2 = b2.to + t;
        transpose16_pair(v);
        for (int j = 0; j < 16; j++, to0 += stride - 1, to1 += stride - 1) {
            _mm_storeu_si128((__m128i *)to0, _mm256_castsi256_si128(v[j]));
            _mm_storeu_si128((__m128i *)to1, _mm256_extracti128_si256(v[j], 1));
        }
        if (!third) continue;
        transpose16(v2);
        for (int j = 0; j < 16; j++, to2 += stride - 1) _mm_storeu_si128((__m128i *)to2, v2[j]);
    }
}

AVX2 static void undo_two(const cw_band *b, u64 width, u64 stride, int top) { undo_some(b, width, stride, top, 0); }
AVX2 static void undo_three(const cw_band *b, u64 width, u64 stride, int top) { undo_some(b, width, stride, top, 1); }

static void undo(const cw_band *b, u32 n, u64 width, u64 stride, int top)
{
    u32 i = 0;
    if (cw_fast_cpu()) {
        for (; n - i == 2 || n - i > 3; i += 2) undo_two(b + i, width, stride, top);
        for (; n - i == 3; i += 3) undo_three(b + i, width, stride, top);
    }
    for (; i < n; i++) undo_one(b + i, width, stride, top);
}

#else

static void undo(const cw_band *b, u32 n, u64 width, u64 stride, int top)
{
    for (; n--; b++) {
        u64 down = b->stride ? b->stride : CW_DIAGONAL(1, 0), right = b->stride ? 1 : CW_DIAGONAL(0, 1);
        const u8 *up = top ? NULL : b->above;
        for (u64 y = 0; y < 16; y++) {
            const u8 *z = b->from + y * down;
            u8 *row = b->to + y * stride;
            for (u64 x = 0; x < width; x++) {
                u8 r = b->stride ? unzigzag8(z[x * right]) : z[x * right];
                row[x] = (u8)(r + (!x ? up ? up[0] : 0 : up ? med8(row[x - 1], up[x], up[x - 1]) : row[x - 1]));
            }
            up = row;
        }
    }
}

#endif

void cw_med_undo_bands(const cw_band *planes, u32 n, u64 width, u64 stride, int top)
{
    if (!width) return;
    undo(planes, n, width, stride, top);
    for (u32 i = 0; i < n; i++) memcpy(planes[i].above, planes[i].to + 15 * stride, width);
}
