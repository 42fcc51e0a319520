/* Crop, resize and mirror one image in one call: what augmentation at decode time is made of. */
#ifndef CW_RESIZE_H
#define CW_RESIZE_H

#include "cw.h"

/* What becomes the output: a part of the image, mirrored left to right when `flip`. A box that hangs over the image's edges
 * finds `fill` there. Made by cw_box_read, which checks it. */
typedef struct {
    i64 top, left;
    u64 height, width;
    float fill;
    u8 flip;
} cw_box;

/* Sizes up to here: no product of two of them, and no place in a box, leaves 64 bits. */
#define CW_LARGEST_SIDE ((u64)1 << 30)

/* From five numbers: top, left, height, width, flip. CW_OK, or CW_BAD_CALL when they make no box. */
CW_API int cw_box_read(cw_box *box, const i64 *five, float fill);

/* The box of an image [channels][height][width], or [height][width][channels] when `interleaved`, resized to [channels][out_h][out_w].
 *
 * Sizes are at least 1 and at most CW_LARGEST_SIDE, channels at least 1. The filter is a triangle, as wide as one input pixel or, when
 * shrinking, as one output pixel (antialiased bilinear); what lies outside the box is not looked at.
 * u8: the bytes of Pillow's image.crop(box).resize((out_w, out_h), BILINEAR). f32: that of torch's interpolate(mode="bilinear",
 * antialias=True), but for rounding. An axis whose size stays is copied. CW_OK or CW_NOMEM; memory is taken from `s`, which the caller resets. */
CW_API int cw_resize_u8(const u8 *from, u64 channels, u64 height, u64 width, int interleaved, const cw_box *box, u64 out_h, u64 out_w,
                        u8 *to, cw_scratch *s);
CW_API int cw_resize_f32(const f32_any *from, u64 channels, u64 height, u64 width, int interleaved, const cw_box *box, u64 out_h, u64 out_w,
                         f32_any *to, cw_scratch *s);

#endif
