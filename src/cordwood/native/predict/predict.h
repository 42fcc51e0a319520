/* Prediction in images (med) and along lines (delta), and its undoing. */
#ifndef CW_PREDICT_H
#define CW_PREDICT_H

#include "cw.h"

/* The definition, one pixel at a time. */
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

/* Sixteen rows of a plane of bytes. `from`: residuals, rows `stride` bytes apart, or along diagonals where `stride` is 0 (see entropy.h).
 * `to`: codes. `above`: the row before, then the last of these. Around every row in `to`, in `from` unless along diagonals, and behind
 * `above` there is writable memory: CW_MARGIN_LEFT bytes before it and CW_MARGIN_RIGHT after it. */
typedef struct { const u8 *from; u64 stride; u8 *to, *above; } cw_band;
#define CW_MARGIN_LEFT 16
#define CW_MARGIN_RIGHT 32

static inline u64 cw_plane_stride(u64 width) { return (CW_MARGIN_LEFT + width + CW_MARGIN_RIGHT + 15) & ~(u64)15; }
static inline u64 cw_plane_bytes(u64 rows, u64 width) { return ((rows + 15) & ~(u64)15) * cw_plane_stride(width) + 64; }

/* `stride`: between rows in `to`; `top`: there is no row above */
CW_API void cw_med_undo_bands(const cw_band *planes, u32 n, u64 width, u64 stride, int top);
CW_API void cw_med_undo16(u16 *data, u64 rows, u64 width);                         /* contiguous, in place */
CW_API void cw_med_apply8(const u8 *codes, u64 width, u64 stride, u64 rows, u8 *to);  /* codes to residuals, `to` contiguous */
CW_API void cw_med_apply16(const u16 *codes, u64 width, u64 rows, u16 *to);
CW_API void cw_delta_undo(u8 *codes, u64 n, u64 lag, unsigned bits);               /* in place */
CW_API void cw_delta_apply(const u8 *codes, u64 n, u64 lag, unsigned bits, u8 *to);

#endif
