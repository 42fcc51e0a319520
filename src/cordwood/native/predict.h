/* Prediction in images (med) and along lines (delta), and its undoing. */
#ifndef CW_PREDICT_H
#define CW_PREDICT_H

#include "cw.h"

/* A plane of codes with room around it: `data` is the first code of the first row; there are CW_MARGIN_LEFT writable bytes before every
 * row and CW_MARGIN_RIGHT after it, and the rows are filled up to a multiple of 16. 16-bit planes need none of this. */
#define CW_MARGIN_LEFT 16
#define CW_MARGIN_RIGHT 32

static inline u64 cw_plane_stride(u64 width) { return (CW_MARGIN_LEFT + width + CW_MARGIN_RIGHT + 15) & ~(u64)15; }
static inline u64 cw_plane_bytes(u64 rows, u64 width) { return ((rows + 15) & ~(u64)15) * cw_plane_stride(width) + 64; }

CW_API void cw_med_undo8(u8 *const *planes, u32 n, u64 rows, u64 width, u64 stride); /* residuals to codes, in place, n planes */
CW_API void cw_med_undo16(u16 *data, u64 rows, u64 width);                         /* contiguous, in place */
CW_API void cw_med_apply8(const u8 *codes, u64 width, u64 stride, u64 rows, u8 *to);  /* codes to residuals, `to` contiguous */
CW_API void cw_med_apply16(const u16 *codes, u64 width, u64 rows, u16 *to);
CW_API void cw_delta_undo(u8 *codes, u64 n, u64 lag, unsigned bits);               /* in place */
CW_API void cw_delta_apply(const u8 *codes, u64 n, u64 lag, unsigned bits, u8 *to);

#endif
