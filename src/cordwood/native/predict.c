/* Undoing the median predictor needs the pixel to the left, so a row is a chain of dependent steps. Sixteen rows at once are not:
 * when row j is always one column behind row j-1, everything a pixel needs is in the previous steps' vectors. So one vector
 * holds a diagonal: lane j is column t-j of row j. Residuals come in and codes go out through 16x16 transposes. */
#include "predict.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- the definition, one pixel at a time ---------------------------------------------------------------------------------- */

#define DEFINE_MED(bits, T)                                                                                   \
    static inline T med##bits(T w, T n, T nw)                                                                 \
    {                                                                                                         \
        T lo = w < n ? w : n, hi = w < n ? n : w, over = (T)(nw > lo ? nw - lo : 0);                          \
        T p = (T)(hi > over ? hi - over : 0);                                                                 \
        return p > lo ? p : lo;                                                                               \
    }                                                                                                         \
    static inline T unzigzag##bits(T z) { return (T)((T)(z >> 1) ^ (T)(0 - (z & 1))); }                       \
    static inline T zigzag##bits(T d) { return (T)((T)(d << 1) ^ (T)(0 - (T)(d >> (bits - 1)))); }

DEFINE_MED(8, u8)
DEFINE_MED(16, u16)

static inline u32 zigzag32(u32 d) { return d << 1 ^ (0 - (d >> 31)); }
static inline u32 unzigzag32(u32 z) { return z >> 1 ^ (0 - (z & 1)); }
static inline u64 zigzag64(u64 d) { return d << 1 ^ (0 - (d >> 63)); }
static inline u64 unzigzag64(u64 z) { return z >> 1 ^ (0 - (z & 1)); }

#define UNDO_ROWS(bits, T)                                                                        \
    for (u64 y = 0; y < rows; y++) {                                                              \
        T *row = data + y * stride, *up = row - stride;                                           \
        row[0] = (T)(unzigzag##bits(row[0]) + (y ? up[0] : 0));                                   \
        for (u64 x = 1; x < width; x++)                                                           \
            row[x] = (T)(unzigzag##bits(row[x]) + (y ? med##bits(row[x - 1], up[x], up[x - 1]) : row[x - 1])); \
    }

void cw_med_undo16(u16 *data, u64 rows, u64 width)
{
    u64 stride = width;
    if (width) UNDO_ROWS(16, u16)
}

#if defined(__x86_64__)

static inline void transpose16(__m128i *v)
{
    __m128i t[16];
    /* four rounds of interleaving rows i and i+8 make a transpose */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 8; i++) t[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]), t[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
        for (int i = 0; i < 8; i++) v[2 * i] = _mm_unpacklo_epi8(t[i], t[i + 8]), v[2 * i + 1] = _mm_unpackhi_epi8(t[i], t[i + 8]);
    }
}

/* One step: x is the diagonal before, n the one above it, r the residuals. */
#define STEP_BODY(V, op)                                                                              \
    V lo = op##min_epu8(w, n), hi = op##max_epu8(w, n);                                               \
    x = op##add_epi8(op##max_epu8(lo, op##subs_epu8(hi, op##subs_epu8(nw, lo))), r);

/* Sixteen rows; `up` is the row above or NULL at the top. */
static void undo_band(u8 *data, u64 width, u64 stride, const u8 *up)
{
    const __m128i low_byte = _mm_cvtsi32_si128(255), ones = _mm_set1_epi8(1), zero = _mm_setzero_si128();
    __m128i x = zero, n = zero, first_column = low_byte;
    for (u64 t0 = 0; t0 < width + 15; t0 += 16) {
        __m128i v[16], above = up ? _mm_loadu_si128((const __m128i *)(up + t0)) : zero;
        for (int j = 0; j < 16; j++) v[j] = _mm_loadu_si128((const __m128i *)(data + j * stride + t0 - j));
        transpose16(v);
        for (int i = 0; i < 16; i++) {
            /* v[i]: zigzag residuals of step t0 + i, one a lane */
            __m128i r = _mm_xor_si128(_mm_and_si128(_mm_srli_epi16(v[i], 1), _mm_set1_epi8(127)),
                                      _mm_sub_epi8(zero, _mm_and_si128(v[i], ones)));
            __m128i nw = n, w = x;
            __m128i entering = up ? _mm_and_si128(above, low_byte) : _mm_and_si128(x, low_byte);
            above = _mm_srli_si128(above, 1);
            n = _mm_or_si128(_mm_slli_si128(x, 1), entering);
            /* a lane in column 0 has no left neighbour: it takes the one above */
            w = _mm_or_si128(_mm_andnot_si128(first_column, w), _mm_and_si128(first_column, n));
            first_column = _mm_slli_si128(first_column, 1);
            STEP_BODY(__m128i, _mm_)
            v[i] = x;
        }
        transpose16(v);
        for (int j = 0; j < 16; j++) _mm_storeu_si128((__m128i *)(data + j * stride + t0 - j), v[j]);
    }
}

static void undo_plane(u8 *data, u64 rows, u64 width, u64 stride)
{
    for (u64 y = 0; y < rows; y += 16) undo_band(data + y * stride, width, stride, y ? data + (y - 1) * stride : NULL);
}

/* With AVX2 the two halves of a vector are two planes: the chain of dependent steps is as long as before and does twice the work. */
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline void transpose16_pair(__m256i *v)
{
    __m256i t[16];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 8; i++) t[2 * i] = _mm256_unpacklo_epi8(v[i], v[i + 8]), t[2 * i + 1] = _mm256_unpackhi_epi8(v[i], v[i + 8]);
        for (int i = 0; i < 8; i++) v[2 * i] = _mm256_unpacklo_epi8(t[i], t[i + 8]), v[2 * i + 1] = _mm256_unpackhi_epi8(t[i], t[i + 8]);
    }
}

AVX2 static inline __m256i load_pair(const u8 *a, const u8 *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)), _mm_loadu_si128((const __m128i *)b), 1);
}

AVX2 static void undo_band_pair(u8 *a, u8 *b, u64 width, u64 stride, int top)
{
    const __m256i low_byte = _mm256_set_epi64x(0, 255, 0, 255), zero = _mm256_setzero_si256();
    __m256i x = zero, n = zero, first_column = low_byte;
    for (u64 t0 = 0; t0 < width + 15; t0 += 16) {
        __m256i v[16], above = top ? zero : load_pair(a - stride + t0, b - stride + t0);
        for (int j = 0; j < 16; j++) v[j] = load_pair(a + j * stride + t0 - j, b + j * stride + t0 - j);
        transpose16_pair(v);
        for (int i = 0; i < 16; i++)
            v[i] = _mm256_xor_si256(_mm256_and_si256(_mm256_srli_epi16(v[i], 1), _mm256_set1_epi8(127)),
                                    _mm256_sub_epi8(zero, _mm256_and_si256(v[i], _mm256_set1_epi8(1))));
        if (t0 == 0 || top) { /* columns 0, and the row that has none above */
            for (int i = 0; i < 16; i++) {
                __m256i r = v[i], nw = n, w = x;
                __m256i entering = _mm256_and_si256(top ? x : above, low_byte);
                above = _mm256_srli_si256(above, 1);
                n = _mm256_or_si256(_mm256_slli_si256(x, 1), entering);
                w = _mm256_blendv_epi8(w, n, first_column);
                first_column = _mm256_slli_si256(first_column, 1);
                STEP_BODY(__m256i, _mm256_)
                v[i] = x;
            }
        } else {
#define INNER(i)                                                                       \
    {                                                                                  \
        __m256i r = v[i], nw = n, w = x;                                               \
        n = _mm256_alignr_epi8(x, _mm256_slli_si256(above, 15 - i), 15);               \
        STEP_BODY(__m256i, _mm256_)                                                    \
        v[i] = x;                                                                      \
    }
            INNER(0) INNER(1) INNER(2) INNER(3) INNER(4) INNER(5) INNER(6) INNER(7)
            INNER(8) INNER(9) INNER(10) INNER(11) INNER(12) INNER(13) INNER(14) INNER(15)
#undef INNER
        }
        transpose16_pair(v);
        for (int j = 0; j < 16; j++) {
            _mm_storeu_si128((__m128i *)(a + j * stride + t0 - j), _mm256_castsi256_si128(v[j]));
            _mm_storeu_si128((__m128i *)(b + j * stride + t0 - j), _mm256_extracti128_si256(v[j], 1));
        }
    }
}

void cw_med_undo8(u8 *const *planes, u32 n, u64 rows, u64 width, u64 stride)
{
    u32 i = 0;
    if (!width) return;
    if (cw_fast_cpu())
        for (; i + 2 <= n; i += 2)
            for (u64 y = 0; y < rows; y += 16) undo_band_pair(planes[i] + y * stride, planes[i + 1] + y * stride, width, stride, y == 0);
    for (; i < n; i++) undo_plane(planes[i], rows, width, stride);
}

#else

static void undo_plane(u8 *data, u64 rows, u64 width, u64 stride)
{
    UNDO_ROWS(8, u8)
}

void cw_med_undo8(u8 *const *planes, u32 n, u64 rows, u64 width, u64 stride)
{
    for (u32 i = 0; width && i < n; i++) undo_plane(planes[i], rows, width, stride);
}

#endif

/* Forwards every neighbour is known: plain loops that the compiler makes vectors of. */
#define APPLY_ROWS(bits, T)                                                                                       \
    for (u64 y = 0; y < rows; y++, to += width) {                                                                 \
        const T *row = codes + y * stride, *up = row - stride;                                                    \
        to[0] = zigzag##bits((T)(row[0] - (y ? up[0] : 0)));                                                      \
        if (y)                                                                                                    \
            for (u64 x = 1; x < width; x++) to[x] = zigzag##bits((T)(row[x] - med##bits(row[x - 1], up[x], up[x - 1]))); \
        else                                                                                                      \
            for (u64 x = 1; x < width; x++) to[x] = zigzag##bits((T)(row[x] - row[x - 1]));                       \
    }

static void apply8_any(const u8 *codes, u64 width, u64 stride, u64 rows, u8 *restrict to) { APPLY_ROWS(8, u8) }
#if defined(__x86_64__)
AVX2 static void apply8_avx2(const u8 *codes, u64 width, u64 stride, u64 rows, u8 *restrict to) { APPLY_ROWS(8, u8) }
#endif

void cw_med_apply8(const u8 *codes, u64 width, u64 stride, u64 rows, u8 *restrict to)
{
    if (!width) return;
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        apply8_avx2(codes, width, stride, rows, to);
        return;
    }
#endif
    apply8_any(codes, width, stride, rows, to);
}

void cw_med_apply16(const u16 *codes, u64 width, u64 rows, u16 *restrict to)
{
    u64 stride = width;
    if (width) APPLY_ROWS(16, u16)
}

/* ---- delta ---------------------------------------------------------------------------------------------------------------------- */

#define DELTA(bits, T)                                                                                                  \
    static void delta_undo##bits(T *c, u64 n, u64 lag)                                                                  \
    {                                                                                                                   \
        for (u64 i = 0; i < n; i++) c[i] = (T)(unzigzag##bits(c[i]) + (i >= lag ? c[i - lag] : 0));                     \
    }                                                                                                                   \
    static void delta_apply##bits(const T *c, u64 n, u64 lag, T *to)                                                    \
    {                                                                                                                   \
        for (u64 i = 0; i < n; i++) to[i] = zigzag##bits((T)(c[i] - (i >= lag ? c[i - lag] : 0)));                      \
    }

DELTA(8, u8)
DELTA(16, u16_any)
DELTA(32, u32_any)
DELTA(64, u64_any)

void cw_delta_undo(u8 *codes, u64 n, u64 lag, unsigned bits)
{
    switch (bits) {
    case 8: delta_undo8(codes, n, lag); break;
    case 16: delta_undo16((u16_any *)codes, n, lag); break;
    case 32: delta_undo32((u32_any *)codes, n, lag); break;
    default: delta_undo64((u64_any *)codes, n, lag);
    }
}

void cw_delta_apply(const u8 *codes, u64 n, u64 lag, unsigned bits, u8 *to)
{
    switch (bits) {
    case 8: delta_apply8(codes, n, lag, to); break;
    case 16: delta_apply16((const u16_any *)codes, n, lag, (u16_any *)to); break;
    case 32: delta_apply32((const u32_any *)codes, n, lag, (u32_any *)to); break;
    default: delta_apply64((const u64_any *)codes, n, lag, (u64_any *)to);
    }
}
