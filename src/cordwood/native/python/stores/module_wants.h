/* What a caller of store_read wants of one frame of every sample: where it goes, and what is done with it on the way. */
#ifndef CW_MODULE_WANTS_H
#define CW_MODULE_WANTS_H

#include "module_store.h"
#include "treat.h"

typedef struct {
    u32 frame;          /* number among the frame leaves */
    u32 accepted;       /* dtypes that may go into the array, a bit each */
    u64 per;            /* samples in each array, along its first dimension; 0: an array is one sample's, which has no such dimension */
    Py_buffer *outs;
    u64 *each;          /* bytes of a sample in each of them */
    Py_ssize_t held;
    PyObject *list;     /* instead of buffers: bytes of any length are put here at the end */
    int texts;          /* as str, where they are UTF-8 */
    PyObject *make;     /* instead of buffers: gives arrays of any shape memory, at the end */
    u32 rank;           /* of these */
    u64 *dims;          /* [samples][rank] */
    u8 **bytes;         /* [samples], NULL where there is no frame; whoever reads owns them */
    u64 *sizes;         /* [samples] */
    int treated;
    cw_treat treat;
    void *tables;       /* of the normalisation */
    cw_box *boxes;      /* [samples] */
} cw_want;

#define CW_SMALL_ARRAY ((u64)16 << 10) /* bytes of an array of any shape: larger ones are decoded where they belong, which is asked for before */

/* given: (frame, accepted, per, out, treat), where out is a tuple of arrays (each may be None where per is 0), or a list that receives bytes, or
 * texts if treat is True, or a function for arrays of `treat` dimensions: of the dimensions of each sample as bytes, i64 [samples][dimensions], all -1
 * where a sample has none, it makes a tuple of arrays that all elements fit in, one sample after the other; else treat is None or (normalisation or None, source_last, out_last, boxes or None, out_h, out_w, source_h, source_w, fill); boxes: i64
 * [samples][5], top, left, height, width, mirrored. -1 with an exception set. */
CW_API int cw_want_read(cw_want *w, PyObject *given, const cw_store *s, Py_ssize_t samples);
CW_API void cw_wants_release(cw_want *wants, Py_ssize_t n);

/* Where a sample's array goes, and the buffer that it is in. */
CW_API u8 *cw_want_out(const cw_want *w, u64 sample, const Py_buffer **view);
CW_API int cw_want_fits(const cw_want *w, const Py_buffer *view, const cw_frame *f);
CW_API const cw_box *cw_want_box(const cw_want *w, u64 sample);
/* Whether an array can be one whose shape and size the frame tells; notes the shape. */
CW_API int cw_want_takes(const cw_want *w, u64 sample, const cw_frame *f);
/* Gives the caller's list the bytes of every sample, or None; or the caller's function the shapes, and what it makes the arrays. */
CW_API int cw_want_fill(const cw_want *w, u64 samples);

#endif
