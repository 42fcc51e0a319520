#include "planes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline u16 rotate16(u16 v, int back) { return (u16)(back ? v >> 1 | v << 15 : v << 1 | v >> 15); }
static inline u32 rotate32(u32 v, int back) { return back ? v >> 1 | v << 31 : v << 1 | v >> 31; }
static inline u64 rotate64(u64 v, int back) { return back ? v >> 1 | v << 63 : v << 1 | v >> 63; }

static inline u8 rotate8(u8 v, int back) { return (u8)(back ? v >> 1 | v << 7 : v << 1 | v >> 7); }

static u64 merge2_vector(const u8 *const *p, u64 n, int rotated, u8 *to)
{
    u64 i = 0;
#if defined(__SSE2__)
    for (; i + 16 <= n; i += 16, to += 32) {
        __m128i a = _mm_loadu_si128((const __m128i *)(p[0] + i)), b = _mm_loadu_si128((const __m128i *)(p[1] + i));
        __m128i v[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
        for (int k = 0; k < 2; k++) {
            if (rotated) v[k] = _mm_or_si128(_mm_srli_epi16(v[k], 1), _mm_slli_epi16(v[k], 15));
            _mm_storeu_si128((__m128i *)to + k, v[k]);
        }
    }
#else
    (void)p, (void)n, (void)rotated, (void)to;
#endif
    return i;
}

static u64 merge4_vector(const u8 *const *p, u64 n, int rotated, u8 *to)
{
    u64 i = 0;
#if defined(__SSE2__)
    for (; i + 16 <= n; i += 16, to += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(p[0] + i)), b = _mm_loadu_si128((const __m128i *)(p[1] + i));
        __m128i c = _mm_loadu_si128((const __m128i *)(p[2] + i)), d = _mm_loadu_si128((const __m128i *)(p[3] + i));
        __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b), cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
        __m128i v[4] = {_mm_unpacklo_epi16(ab0, cd0), _mm_unpackhi_epi16(ab0, cd0), _mm_unpacklo_epi16(ab1, cd1), _mm_unpackhi_epi16(ab1, cd1)};
        for (int k = 0; k < 4; k++) {
            if (rotated) v[k] = _mm_or_si128(_mm_srli_epi32(v[k], 1), _mm_slli_epi32(v[k], 31));
            _mm_storeu_si128((__m128i *)to + k, v[k]);
        }
    }
#else
    (void)p, (void)n, (void)rotated, (void)to;
#endif
    return i;
}

void cw_planes_merge(const u8 *const *p, u64 n, unsigned size, int rotated, u8 *codes)
{
    if (size == 1) {
        for (u64 i = 0; i < n; i++) codes[i] = rotated ? rotate8(p[0][i], 1) : p[0][i];
    } else if (size == 2) {
        for (u64 i = merge2_vector(p, n, rotated, codes); i < n; i++) {
            u16 v = (u16)(p[0][i] | p[1][i] << 8);
            if (rotated) v = rotate16(v, 1);
            memcpy(codes + 2 * i, &v, 2);
        }
    } else if (size == 4) {
        for (u64 i = merge4_vector(p, n, rotated, codes); i < n; i++) {
            u32 v = (u32)p[0][i] | (u32)p[1][i] << 8 | (u32)p[2][i] << 16 | (u32)p[3][i] << 24;
            if (rotated) v = rotate32(v, 1);
            memcpy(codes + 4 * i, &v, 4);
        }
    } else if (size == 8) {
        for (u64 i = 0; i < n; i++) {
            u64 v = 0;
            for (unsigned b = 0; b < 8; b++) v |= (u64)p[b][i] << (8 * b);
            if (rotated) v = rotate64(v, 1);
            memcpy(codes + 8 * i, &v, 8);
        }
    }
}

void cw_planes_split(const u8 *codes, u64 n, unsigned size, int rotated, u8 *const *p)
{
    if (size == 2) {
        u8 *restrict a = p[0], *restrict b = p[1];
        for (u64 i = 0; i < n; i++) {
            u16 v = cw_load16(codes + 2 * i);
            if (rotated) v = rotate16(v, 0);
            a[i] = (u8)v, b[i] = (u8)(v >> 8);
        }
    } else if (size == 4) {
        u8 *restrict a = p[0], *restrict b = p[1], *restrict c = p[2], *restrict d = p[3];
        for (u64 i = 0; i < n; i++) {
            u32 v = cw_load32(codes + 4 * i);
            if (rotated) v = rotate32(v, 0);
            a[i] = (u8)v, b[i] = (u8)(v >> 8), c[i] = (u8)(v >> 16), d[i] = (u8)(v >> 24);
        }
    } else if (size == 8) {
        for (u64 i = 0; i < n; i++) {
            u64 v = cw_load64(codes + 8 * i);
            if (rotated) v = rotate64(v, 0);
            for (unsigned b = 0; b < 8; b++) p[b][i] = (u8)(v >> (8 * b));
        }
    }
}
