/* Prediction in images of bytes by several predictors: each group of pixels of a channel names the one that it takes, and how much of the
 * base channel's residuals is in its own. A group is what sixteen steps along the diagonals of a band meet (see predict_bands.c): the
 * pixels of 16 rows y with the same (x + y mod 16) / 16. */
#ifndef CW_MIXED_H
#define CW_MIXED_H

#include "predict.h"

#define CW_MIXED_KINDS 8   /* of predictors */
#define CW_MIXED_FACTORS 8 /* quarters: 0, -1, 1, -2, 2, -3, 3, -4 */

static inline u64 cw_mixed_bands(u64 rows) { return rows / 16 + (rows % 16 != 0); }
static inline u64 cw_mixed_groups(u64 width) { return (width + 30) / 16; }
static inline u32 cw_mixed_base(const cw_image *g) { return g->color == CW_COLOR_GREEN ? 1 : 0; }
static inline int cw_mixed_quarters(u8 factor) { return (int)(factor >> 1) ^ -(int)(factor & 1); }

/* A band of one channel: `kinds` and `factors` of its groups, `above2` as `above`, for the row before that. `state` is for the kernel. */
typedef struct { cw_band band; u8 *above2; const u8 *kinds, *factors; u8 state[3][16]; } cw_mixed_band;

CW_API void cw_mixed_undo_bands(cw_mixed_band *channels, u32 n, u32 base, u64 width, u64 stride, int top);

/* Codes of all channels, rows * width of each, to residuals. `kinds`, `factors`: a band's groups in a row, the bands of a channel one after
 * the other. `work`: CW_MIXED_KINDS + 1 planes of rows * width bytes. */
CW_API void cw_mixed_apply(const u8 *codes, u32 channels, u32 base, u64 width, u64 rows, u8 *to, u8 *kinds, u8 *factors, u8 *work);

#endif
