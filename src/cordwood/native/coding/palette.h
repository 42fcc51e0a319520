/* The way into a palette: elements to codes. */
#ifndef CW_PALETTE_H
#define CW_PALETTE_H

#include "cw.h"

typedef struct {
    u32 itemsize, palettes;
    u64 inner;
    u32 *counts;          /* [palettes] */
    u32 stride;           /* values of palette c start at values + c * stride * itemsize */
    u8 *values;
    u32 slots_log;
    u16 *slots;           /* [palettes << slots_log]: code, or EMPTY */
    int repeats;          /* a value has several codes */
} cw_inverse;

/* Finds the distinct values of every palette, in numeric order. CW_PALETTE_MISS when there are too many. */
CW_API int cw_inverse_collect(cw_inverse *v, const u8 *data, u64 n, u32 itemsize, u32 palettes, u64 inner, unsigned bits, cw_err *e);
/* For given values: copies them from a finish's table. */
CW_API int cw_inverse_from_finish(cw_inverse *v, const cw_finish *fin, unsigned bits, cw_err *e);
/* n elements of one palette, `step` elements apart, to codes of 8 or 16 bits. CW_PALETTE_MISS when a value is not there. */
CW_API int cw_inverse_run(const cw_inverse *v, const u8 *from, u64 n, u64 step, u32 palette, unsigned bits, u8 *codes, cw_err *e);
CW_API void cw_inverse_free(cw_inverse *v);

#endif
