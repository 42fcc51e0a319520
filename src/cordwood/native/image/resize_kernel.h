/* What the resizing of bytes and that of floats share: which pixels an output is made of, and the shape of their two passes. */
#ifndef CW_RESIZE_KERNEL_H
#define CW_RESIZE_KERNEL_H

#include "resize.h"

/* Output i of a line is the sum of weight[i * room + k] times input first[i] + k, for k < count[i]; `first` never goes back (when
 * mirrored: never forward). */
typedef struct {
    u64 n, room;
    u32 *first, *count;            /* [n]; count is at least 1 */
    u32 most;                      /* the largest count */
    double *weight;                /* [n][room], the first count[i] of each sum up to 1 */
} cw_taps;

/* Elements that a pass across may write, and that lines made by the driver have, beyond those it was asked for. */
#define CW_LINE_SLACK 32

#define CW_ROWS_TOGETHER 8

/* One kind of element. A plan is made once an image, from scratch memory; NULL when that is not to be had. */
typedef struct {
    size_t size;                   /* bytes of an element */
    /* Along a row of which `readable` elements may be looked at. */
    void *(*plan_across)(const cw_taps *t, u64 readable, cw_scratch *s);
    void (*across)(const void *plan, const u8 *const *rows, unsigned n, u8 *const *to); /* n: 1 to CW_ROWS_TOGETHER */
    /* From several rows, rows[k] being input row first[i] + k; rows has room for one more. */
    void *(*plan_down)(const cw_taps *t, cw_scratch *s);
    void (*down)(const void *plan, u64 i, const u8 **rows, u64 width, u8 *to);
    void (*reverse)(const u8 *from, u64 n, u8 *to);
    /* n pixels of interleaved channels to planes that are `stride` elements apart. */
    void (*split)(const u8 *from, u64 n, u64 channels, u8 *to, u64 stride);
    void (*fill)(u8 *to, u64 n, float value);
} cw_resize_kernel;

CW_API int cw_resize_with(const cw_resize_kernel *k, const u8 *from, u64 channels, u64 height, u64 width, int interleaved, const cw_box *box,
                          u64 out_h, u64 out_w, u8 *to, cw_scratch *s);

#endif
