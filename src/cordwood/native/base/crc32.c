/* CRC-32, the checksum of zip archives (reflected polynomial 0xEDB88320). With carry-less multiplication four lanes of
 * 128 bits are folded at once: a lane times x^512 is added to the data 64 bytes on, which leaves the remainder as it is.
 * The method and its constants are those of Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ". */
#include "cw.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <smmintrin.h>
#include <wmmintrin.h>
#define HAS_FOLDING (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
#endif

static u32 slice[8][256];
static int folding;

void cw_crc32_init(void)
{
    cw_crc_slices(slice, 0xEDB88320u);
#ifdef HAS_FOLDING
    folding = HAS_FOLDING && !getenv("CORDWOOD_PORTABLE");
#endif
}

#ifdef HAS_FOLDING
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define FOLD(x, k, y) \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), y)

/* n is at least 64 and a multiple of 16 */
__attribute__((target("pclmul,sse4.1"))) static u32 by_folding(u32 c, const u8 *p, size_t n)
{
    const __m128i by512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i low = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i a = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)c));
    __m128i b = LOAD(p + 16), d = LOAD(p + 32), e = LOAD(p + 48);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = FOLD(a, by512, LOAD(p));
        b = FOLD(b, by512, LOAD(p + 16));
        d = FOLD(d, by512, LOAD(p + 32));
        e = FOLD(e, by512, LOAD(p + 48));
    }
    a = FOLD(a, by128, b);
    a = FOLD(a, by128, d);
    a = FOLD(a, by128, e);
    for (; n >= 16; p += 16, n -= 16) a = FOLD(a, by128, LOAD(p));
    /* 128 bits to 64, then to 32 by Barrett's reduction */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by128, 0x10));
    b = _mm_srli_si128(a, 4);
    a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low), _mm_set_epi64x(0, 0x0163cd6124), 0x00), b);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    b = _mm_clmulepi64_si128(_mm_and_si128(a, low), barrett, 0x10);
    b = _mm_clmulepi64_si128(_mm_and_si128(b, low), barrett, 0x00);
    return (u32)_mm_extract_epi32(_mm_xor_si128(a, b), 1);
}
#endif

u32 cw_crc32(u32 crc, const void *data, size_t n)
{
    const u8 *p = data;
    u32 c = ~crc;
#ifdef HAS_FOLDING
    if (folding && n >= 64) {
        size_t folded = n & ~(size_t)15;
        c = by_folding(c, p, folded);
        p += folded;
        n -= folded;
    }
#endif
    return ~cw_crc_sliced(slice, c, p, n);
}
