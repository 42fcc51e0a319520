/* Prediction forwards, its undoing where that is done a pixel at a time, and delta. Undoing for images of bytes is in predict_bands.c. */
#include "predict.h"

static inline u32 zigzag32(u32 d) { return d << 1 ^ (0 - (d >> 31)); }
static inline u32 unzigzag32(u32 z) { return z >> 1 ^ (0 - (z & 1)); }
static inline u64 zigzag64(u64 d) { return d << 1 ^ (0 - (d >> 63)); }
static inline u64 unzigzag64(u64 z) { return z >> 1 ^ (0 - (z & 1)); }

void cw_med_undo16(u16 *data, u64 rows, u64 width)
{
    for (u64 y = 0; width && y < rows; y++) {
        u16 *row = data + y * width, *up = row - width;
        row[0] = (u16)(unzigzag16(row[0]) + (y ? up[0] : 0));
        for (u64 x = 1; x < width; x++) row[x] = (u16)(unzigzag16(row[x]) + (y ? med16(row[x - 1], up[x], up[x - 1]) : row[x - 1]));
    }
}

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
__attribute__((target("avx2"))) static void apply8_avx2(const u8 *codes, u64 width, u64 stride, u64 rows, u8 *restrict to) { APPLY_ROWS(8, u8) }
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
