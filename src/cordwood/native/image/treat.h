/* What a loader asks of an image beyond its elements: a part of it in another size, floats instead of bytes, channels last. */
#ifndef CW_TREAT_H
#define CW_TREAT_H

#include "cw.h"
#include "resize.h"

typedef struct {
    u8 source_last, out_last;   /* channels are the last dimension: as stored; in the caller's memory (never the other way round) */
    u8 boxed, normalized;
    u64 out_h, out_w;           /* with boxes: the size of what comes out of them, */
    u64 source_h, source_w;     /* and of the images that they were drawn for; 0: of each its own */
    cw_normalize normalize;
    float *terms;               /* of an affine normalisation, for eight pixels: what is taken off, and its factor in two parts */
} cw_treat;

/* Terms for interleaved channels, where the normalisation is affine; they are freed with free(). 0, or -1 without memory. */
CW_API int cw_treat_prepare(cw_treat *t);
/* The decoder's own last step does all of it: no pass over the image is needed. */
static inline int cw_treat_fused(const cw_treat *t) { return !t || (!t->boxed && t->source_last == t->out_last && !(t->normalized && t->source_last)); }
/* The three dimensions that come out of a frame, and their bytes an element; 0 if such a frame cannot be treated so. */
CW_API u32 cw_treat_shape(const cw_treat *t, const cw_frame *f, u64 dims[3]);
/* From the decoded frame to `out`, past the caches if the batch is larger than they are. */
CW_API int cw_treat_image(const cw_treat *t, const cw_frame *f, const u8 *decoded, const cw_box *box, int past_caches, u8 *out, cw_scratch *s, cw_err *e);

#endif
