/* The state of encoding one array, shared by values.c (elements to codes) and encode.c (codes to a frame). */
#ifndef CW_ENCODE_H
#define CW_ENCODE_H

#include "cw.h"
#include "palette.h"

typedef struct {
    const cw_recipe *r;
    cw_frame f;            /* the header to be */
    cw_inverse inverse;
    cw_finish fin;         /* of a formula or a plan's palette */
    void *fin_memory;
    cw_buffer *blocks;     /* [f.blocks] */
    u32 *crc;
    int *used_plan;        /* [f.blocks] */
    cw_err *errors;        /* [f.blocks] */
    cw_learner *learner;   /* set: planes are collected, not written */
    u64 *estimate;         /* set: [f.blocks] sizes are estimated, nothing is written */
    u8 is_short;
} cw_encoding;

/* Look at the whole array and settle the value stage in c->f; a palette may miss (CW_PALETTE_MISS). */
CW_API void cw_values_narrow(cw_encoding *c);
CW_API int cw_values_palette(cw_encoding *c, cw_err *e);
/* Codes of n elements: first, first + step, ... */
CW_API int cw_values_codes(const cw_encoding *c, u64 first, u64 n, u64 step, u8 *codes, cw_err *e);

#endif
