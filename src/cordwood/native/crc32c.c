/* CRC-32C. With the crc32 instruction (SSE4.2, ARMv8) three lanes run at once, because the instruction takes three
 * cycles but a new one starts every cycle; the lanes are joined by multiplying with x^(8*LANE) in GF(2), which is linear
 * and so becomes four table look-ups. */
#include "cw.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC64(c, v) ((u32)_mm_crc32_u64((c), (v)))
#define CRC8(c, v) _mm_crc32_u8((c), (v))
#define HAS_CRC __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__)
#include <arm_acle.h>
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC64(c, v) __crc32cd((c), (v))
#define CRC8(c, v) __crc32cb((c), (v))
#if defined(__linux__)
#include <sys/auxv.h>
#define HAS_CRC (getauxval(AT_HWCAP) >> 7 & 1) /* HWCAP_CRC32 */
#else
#define HAS_CRC 1 /* every Apple processor has it */
#endif
#endif

#define LANE 1360 /* bytes of a lane; three lanes and their data stay in the first-level cache */

static u32 slice[8][256];
static u32 skip[4][256];
static int hardware;

void cw_crc32c_init(void)
{
    cw_crc_slices(slice, 0x82F63B78u);
    static const u8 zeros[LANE];
    for (int t = 0; t < 4; t++)
        for (u32 i = 0; i < 256; i++) skip[t][i] = cw_crc_sliced(slice, i << (8 * t), zeros, LANE);
#ifdef HAS_CRC
    hardware = HAS_CRC && !getenv("CORDWOOD_PORTABLE");
#endif
}

#ifdef HAS_CRC
static inline u32 skip_lane(u32 c)
{
    return skip[0][c & 255] ^ skip[1][c >> 8 & 255] ^ skip[2][c >> 16 & 255] ^ skip[3][c >> 24];
}

CRC_TARGET static u32 by_instruction(u32 c, const u8 *p, size_t n)
{
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {
        u32 a = c, b = 0, d = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            a = CRC64(a, cw_load64(p + i));
            b = CRC64(b, cw_load64(p + LANE + i));
            d = CRC64(d, cw_load64(p + 2 * LANE + i));
        }
        c = skip_lane(skip_lane(a) ^ b) ^ d;
    }
    for (; n >= 8; n -= 8, p += 8) c = CRC64(c, cw_load64(p));
    for (; n; n--) c = CRC8(c, *p++);
    return c;
}
#endif

u32 cw_crc32c(const void *data, size_t n)
{
#ifdef HAS_CRC
    if (hardware) return ~by_instruction(~0u, data, n);
#endif
    return ~cw_crc_sliced(slice, ~0u, data, n);
}
