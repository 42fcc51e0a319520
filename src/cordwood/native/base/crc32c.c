/* CRC-32C. With the crc32 instruction (SSE4.2, ARMv8) three lanes run at once, because the instruction takes three
 * cycles but a new one starts every cycle; the lanes are joined by multiplying with x^(8 * bytes of a lane) in GF(2), which is linear
 * and so becomes four table look-ups. */
#include "cw.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC64(c, v) ((u32)_mm_crc32_u64((c), (v)))
#define CRC32(c, v) _mm_crc32_u32((c), (v))
#define CRC8(c, v) _mm_crc32_u8((c), (v))
#define HAS_CRC __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__)
#include <arm_acle.h>
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC64(c, v) __crc32cd((c), (v))
#define CRC32(c, v) __crc32cw((c), (v))
#define CRC8(c, v) __crc32cb((c), (v))
#if defined(__linux__)
#include <sys/auxv.h>
#define HAS_CRC (getauxval(AT_HWCAP) >> 7 & 1) /* HWCAP_CRC32 */
#else
#define HAS_CRC 1 /* every Apple processor has it */
#endif
#endif

/* Bytes of a lane: three long ones and their data stay in the first-level cache; what is left goes by shorter ones. */
#define LONG_LANE 1360
#define MIDDLE_LANE 336
#define SHORT_LANE 88

typedef struct { u32 by[4][256]; } skipping;
static u32 slice[8][256];
static skipping skip_long, skip_middle, skip_short;
static int hardware;

static void skipping_init(skipping *s, size_t lane)
{
    static const u8 zeros[LONG_LANE];
    for (int t = 0; t < 4; t++)
        for (u32 i = 0; i < 256; i++) s->by[t][i] = cw_crc_sliced(slice, i << (8 * t), zeros, lane);
}

void cw_crc32c_init(void)
{
    cw_crc_slices(slice, 0x82F63B78u);
    skipping_init(&skip_long, LONG_LANE);
    skipping_init(&skip_middle, MIDDLE_LANE);
    skipping_init(&skip_short, SHORT_LANE);
#ifdef HAS_CRC
    hardware = HAS_CRC && !getenv("CORDWOOD_PORTABLE");
#endif
}

#ifdef HAS_CRC
static inline u32 skip_lane(const skipping *s, u32 c)
{
    return s->by[0][c & 255] ^ s->by[1][c >> 8 & 255] ^ s->by[2][c >> 16 & 255] ^ s->by[3][c >> 24];
}

#define THREE_LANES(LANE, s)                                      \
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {         \
        u32 a = c, b = 0, d = 0;                                  \
        for (size_t i = 0; i < LANE; i += 8) {                    \
            a = CRC64(a, cw_load64(p + i));                       \
            b = CRC64(b, cw_load64(p + LANE + i));                \
            d = CRC64(d, cw_load64(p + 2 * LANE + i));            \
        }                                                         \
        c = skip_lane(s, skip_lane(s, a) ^ b) ^ d;                \
    }

CRC_TARGET static u32 by_instruction(u32 c, const u8 *p, size_t n)
{
    THREE_LANES(LONG_LANE, &skip_long)
    THREE_LANES(MIDDLE_LANE, &skip_middle)
    THREE_LANES(SHORT_LANE, &skip_short)
    for (; n >= 8; n -= 8, p += 8) c = CRC64(c, cw_load64(p));
    if (n >= 4) c = CRC32(c, cw_load32(p)), n -= 4, p += 4;
    for (; n; n--) c = CRC8(c, *p++);
    return c;
}
#endif

#ifdef HAS_CRC
/* The same while the bytes are copied: they are looked at anyway, and come from memory once. */
#define THREE_LANES_COPIED(LANE, s, STORE)                                     \
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE, to += 3 * LANE) {      \
        u32 a = c, b = 0, d = 0;                                               \
        for (size_t i = 0; i < LANE; i += 8) {                                 \
            u64 x = cw_load64(p + i), y = cw_load64(p + LANE + i), z = cw_load64(p + 2 * LANE + i); \
            STORE(to + i, x);                                                  \
            STORE(to + LANE + i, y);                                           \
            STORE(to + 2 * LANE + i, z);                                       \
            a = CRC64(a, x);                                                   \
            b = CRC64(b, y);                                                   \
            d = CRC64(d, z);                                                   \
        }                                                                      \
        c = skip_lane(s, skip_lane(s, a) ^ b) ^ d;                             \
    }

CRC_TARGET static u32 copied_by_instruction(u32 c, const u8 *restrict p, size_t n, u8 *restrict to)
{
    THREE_LANES_COPIED(LONG_LANE, &skip_long, cw_store64)
    THREE_LANES_COPIED(MIDDLE_LANE, &skip_middle, cw_store64)
    THREE_LANES_COPIED(SHORT_LANE, &skip_short, cw_store64)
    for (; n >= 8; n -= 8, p += 8, to += 8) {
        u64 x = cw_load64(p);
        cw_store64(to, x);
        c = CRC64(c, x);
    }
    for (; n; n--) c = CRC8(c, *to++ = *p++);
    return c;
}
#if defined(__x86_64__)
/* And past the caches, where they would only be in the way: lines that are written whole need not be read first. */
#define STORE_PAST(to, x) _mm_stream_si64((long long *)(void *)(to), (long long)(x))
CRC_TARGET static u32 copied_past(u32 c, const u8 *restrict p, size_t n, u8 *restrict to)
{
    THREE_LANES_COPIED(LONG_LANE, &skip_long, STORE_PAST)
    _mm_sfence(); /* other threads see it from here on */
    return copied_by_instruction(c, p, n, to);
}
#endif
#endif

u32 cw_copy_crc32c(void *to, const void *from, size_t n, int past_caches)
{
    (void)past_caches;
#if defined(HAS_CRC) && defined(__x86_64__)
    if (hardware && past_caches && !((uintptr_t)to & 7)) return ~copied_past(~0u, from, n, to);
#endif
#ifdef HAS_CRC
    if (hardware) return ~copied_by_instruction(~0u, from, n, to);
#endif
    memcpy(to, from, n);
    return cw_crc32c(to, n);
}

u32 cw_crc32c(const void *data, size_t n)
{
#ifdef HAS_CRC
    if (hardware) return ~by_instruction(~0u, data, n);
#endif
    return ~cw_crc_sliced(slice, ~0u, data, n);
}
