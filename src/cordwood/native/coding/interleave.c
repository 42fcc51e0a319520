/* Three planes of bytes to pixels of three: how photographs lie in memory that were read from files. */
#include "cw.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Sixteen pixels are three vectors. Byte i of them is of plane i % 3, pixel i / 3; 128 gives zero, for the other planes. */
__attribute__((target("avx2"))) static u64 interleave_fast(const u8 *a, const u8 *b, const u8 *c, u64 n, u8 *out)
{
    u8 order[3][3][16];
    for (int v = 0; v < 3; v++)
        for (int i = 0; i < 16; i++)
            for (int p = 0; p < 3; p++) order[v][p][i] = (u8)((16 * v + i) % 3 == p ? (16 * v + i) / 3 : 128);
    __m128i shuffle[3][3];
    memcpy(shuffle, order, sizeof shuffle);
    u64 x = 0;
    for (; x + 16 <= n; x += 16) {
        __m128i pa = _mm_loadu_si128((const __m128i *)(a + x)), pb = _mm_loadu_si128((const __m128i *)(b + x));
        __m128i pc = _mm_loadu_si128((const __m128i *)(c + x));
        for (int v = 0; v < 3; v++)
            _mm_storeu_si128((__m128i *)(out + 3 * x + 16 * v),
                             _mm_or_si128(_mm_shuffle_epi8(pa, shuffle[v][0]),
                                          _mm_or_si128(_mm_shuffle_epi8(pb, shuffle[v][1]), _mm_shuffle_epi8(pc, shuffle[v][2]))));
    }
    return x;
}
#endif

void cw_interleave3(const u8 *a, const u8 *b, const u8 *c, u64 stride, u64 rows, u64 n, u8 *out)
{
    for (; rows--; a += stride, b += stride, c += stride, out += 3 * n) {
        u64 x = 0;
#if defined(__x86_64__)
        if (cw_fast_cpu()) x = interleave_fast(a, b, c, n, out);
#endif
        for (; x < n; x++) out[3 * x] = a[x], out[3 * x + 1] = b[x], out[3 * x + 2] = c[x];
    }
}
