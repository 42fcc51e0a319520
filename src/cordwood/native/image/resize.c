/* Resizing, whatever the elements are: a pass across every row of the box, then a pass down the rows it gave. A row is made right before the
 * first output row that needs it and forgotten after the last one, so that what the second pass reads is in the nearest cache. */
#include "resize_kernel.h"

#include <math.h>

int cw_box_read(cw_box *box, const i64 *five, float fill)
{
    const i64 side = (i64)CW_LARGEST_SIDE;
    for (int i = 0; i < 2; i++)
        if (five[i] < -side || five[i] > side || five[2 + i] < 1 || five[2 + i] > side) return CW_BAD_CALL;
    if (five[4] != 0 && five[4] != 1) return CW_BAD_CALL;
    *box = (cw_box){.top = five[0], .left = five[1], .height = (u64)five[2], .width = (u64)five[3], .fill = fill, .flip = (u8)five[4]};
    return CW_OK;
}

/* a * b * c elements of `size` bytes, or NULL; no product is believed. */
static void *take(cw_scratch *s, u64 a, u64 b, u64 c, size_t size)
{
    u64 n;
    if (__builtin_mul_overflow(a, b, &n) || __builtin_mul_overflow(n, c, &n) || __builtin_mul_overflow(n, (u64)size, &n)) return NULL;
    return n > SIZE_MAX ? NULL : cw_scratch_take(s, (size_t)n);
}

static inline double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Operation by operation what Pillow does, so that the same doubles come out. */
static int taps_make(cw_taps *t, u64 in, u64 out, int mirrored, cw_scratch *s)
{
    double scale = (double)in / (double)out, widened = scale < 1 ? 1 : scale, narrowed = 1 / widened;
    t->n = out;
    t->room = (u64)ceil(widened) * 2 + 1;
    t->most = 1;
    t->first = take(s, out, 1, 1, sizeof *t->first);
    t->count = take(s, out, 1, 1, sizeof *t->count);
    t->weight = take(s, out, t->room, 1, sizeof *t->weight);
    if (!t->first || !t->count || !t->weight) return CW_NOMEM;
    for (u64 i = 0; i < out; i++) {
        double center = ((double)i + 0.5) * scale;
        i64 first = (i64)(center - widened + 0.5), end = (i64)(center + widened + 0.5);
        first = CW_MAX(first, 0);
        end = CW_MIN(end, (i64)in);
        u64 at = mirrored ? out - 1 - i : i;
        u32 count = (u32)(end - first);
        double *weight = t->weight + at * t->room, sum = 0;
        for (u32 k = 0; k < count; k++) {
            weight[k] = triangle(((double)(k + first) - center + 0.5) * narrowed);
            sum += weight[k];
        }
        if (sum != 0)
            for (u32 k = 0; k < count; k++) weight[k] /= sum;
        t->first[at] = (u32)first;
        t->count[at] = count;
        t->most = CW_MAX(t->most, count);
    }
    return CW_OK;
}

/* The box with what hangs over the image's edges, as an image of its own. */
static int pad(const cw_resize_kernel *k, const u8 **from, u64 channels, u64 *height, u64 *width, int interleaved, cw_box *box, cw_scratch *s)
{
    i64 end_row = CW_MIN(box->top + (i64)box->height, (i64)*height), end_column = CW_MIN(box->left + (i64)box->width, (i64)*width);
    i64 row = CW_MAX(box->top, 0), column = CW_MAX(box->left, 0);
    u64 together = interleaved ? channels : 1, planes = interleaved ? 1 : channels, line = box->width * together;
    u8 *padded = take(s, channels, box->height, box->width, k->size);
    if (!padded) return CW_NOMEM;
    k->fill(padded, planes * box->height * line, box->fill);
    for (u64 c = 0; c < planes && row < end_row && column < end_column; c++)
        for (i64 y = row; y < end_row; y++)
            memcpy(padded + ((c * box->height + (u64)(y - box->top)) * line + (u64)(column - box->left) * together) * k->size,
                   *from + ((c * *height + (u64)y) * *width + (u64)column) * together * k->size, (size_t)(end_column - column) * together * k->size);
    *from = padded;
    *height = box->height;
    *width = box->width;
    box->top = box->left = 0;
    return CW_OK;
}

/* The image, seen from the box's first pixel. */
typedef struct {
    const cw_resize_kernel *k;
    const u8 *from;                /* the first pixel of the box */
    u64 channels, height, width;   /* of the whole image: how far rows and planes are apart */
    u64 left;                      /* how much of a row there is before the box */
    u64 box_h, box_w;
    int interleaved, flip;
} view;

static const u8 *planar_row(const view *v, u64 channel, u64 row) { return v->from + (channel * v->height + row) * v->width * v->k->size; }
static const u8 *interleaved_row(const view *v, u64 row) { return v->from + row * v->width * v->channels * v->k->size; }

/* Nothing to resize, and nothing to mirror where channels are interleaved. */
static void crop(const view *v, u8 *to)
{
    const cw_resize_kernel *k = v->k;
    u64 line = v->box_w * k->size, plane = v->box_h * v->box_w;
    for (u64 y = 0; y < v->box_h; y++, to += line) {
        if (v->interleaved) k->split(interleaved_row(v, y), v->box_w, v->channels, to, plane);
        for (u64 c = 0; !v->interleaved && c < v->channels; c++) {
            u8 *row = to + c * plane * k->size;
            if (v->flip) k->reverse(planar_row(v, c, y), v->box_w, row);
            else memcpy(row, planar_row(v, c, y), line);
        }
    }
}

/* The latest rows, as the pass down takes them; `kept` is a power of two. */
typedef struct { u8 *memory; u64 kept, stride; } row_ring;

static u8 *ring_row(const row_ring *r, const view *v, u64 channel, u64 row)
{
    return r->memory + ((row & (r->kept - 1)) * v->channels + channel) * r->stride * v->k->size;
}

/* n rows of the box, all channels: taken apart if they are interleaved, then resized, mirrored or copied. */
static void make_rows(const view *v, const void *plan, u64 row, unsigned n, u8 *apart, u64 apart_stride, const row_ring *ring)
{
    const cw_resize_kernel *k = v->k;
    int in_place = v->interleaved && !plan && !v->flip;
    for (unsigned i = 0; v->interleaved && i < n; i++) {
        if (in_place) k->split(interleaved_row(v, row + i), v->box_w, v->channels, ring_row(ring, v, 0, row + i), ring->stride);
        else k->split(interleaved_row(v, row + i), v->box_w, v->channels, apart + i * v->channels * apart_stride * k->size, apart_stride);
    }
    for (u64 c = 0; c < v->channels && !in_place; c++) {
        const u8 *from[CW_ROWS_TOGETHER];
        u8 *to[CW_ROWS_TOGETHER];
        for (unsigned i = 0; i < n; i++) {
            from[i] = v->interleaved ? apart + (i * v->channels + c) * apart_stride * k->size : planar_row(v, c, row + i);
            /* the plan counts from the beginning of the image's row, so that it may look at all of it */
            if (plan && !v->interleaved) from[i] -= v->left * k->size;
            to[i] = ring_row(ring, v, c, row + i);
        }
        if (plan) k->across(plan, from, n, to);
        for (unsigned i = 0; i < n && !plan; i++) {
            if (v->flip) k->reverse(from[i], v->box_w, to[i]);
            else memcpy(to[i], from[i], v->box_w * k->size);
        }
    }
}

static int resize(const view *v, u64 out_h, u64 out_w, u8 *to, cw_scratch *s)
{
    const cw_resize_kernel *k = v->k;
    cw_taps down = {.most = 1};
    void *plan_across = NULL, *plan_down = NULL;
    u64 apart_stride = v->box_w + CW_LINE_SLACK;
    if (v->box_w != out_w) {
        cw_taps across;
        if (taps_make(&across, v->box_w, out_w, v->flip, s)) return CW_NOMEM;
        for (u64 i = 0; !v->interleaved && i < out_w; i++) across.first[i] += (u32)v->left;
        plan_across = k->plan_across(&across, v->interleaved ? apart_stride : v->width, s);
        if (!plan_across) return CW_NOMEM;
    }
    if (v->box_h != out_h) {
        if (taps_make(&down, v->box_h, out_h, 0, s)) return CW_NOMEM;
        plan_down = k->plan_down(&down, s);
        if (!plan_down) return CW_NOMEM;
    }
    row_ring ring = {.kept = 1, .stride = out_w + CW_LINE_SLACK};
    while (ring.kept < (u64)down.most + CW_ROWS_TOGETHER - 1) ring.kept *= 2;
    const u8 **rows = take(s, (u64)down.most + 1, 1, 1, sizeof *rows);
    ring.memory = take(s, ring.kept, ring.stride, v->channels, k->size);
    u8 *apart = v->interleaved ? take(s, apart_stride, v->channels, CW_ROWS_TOGETHER, k->size) : NULL;
    if (!rows || !ring.memory || (v->interleaved && !apart)) return CW_NOMEM;
    if (apart) memset(apart, 0, apart_stride * v->channels * CW_ROWS_TOGETHER * k->size); /* the slack is looked at, though not used */
    int as_they_are = !plan_across && !v->flip && !v->interleaved; /* rows of the image itself */
    u64 made = 0;
    for (u64 y = 0; y < out_h; y++) {
        u64 first = plan_down ? down.first[y] : y, count = plan_down ? down.count[y] : 1;
        for (made = CW_MAX(made, first); !as_they_are && made < first + count;) {
            unsigned n = (unsigned)CW_MIN(v->box_h - made, CW_ROWS_TOGETHER);
            make_rows(v, plan_across, made, n, apart, apart_stride, &ring);
            made += n;
        }
        for (u64 c = 0; c < v->channels; c++) {
            u8 *row = to + (c * out_h + y) * out_w * k->size;
            for (u64 j = 0; j < count; j++) rows[j] = as_they_are ? planar_row(v, c, first + j) : ring_row(&ring, v, c, first + j);
            if (plan_down) k->down(plan_down, y, rows, out_w, row);
            else memcpy(row, rows[0], out_w * k->size);
        }
    }
    return CW_OK;
}

int cw_resize_with(const cw_resize_kernel *k, const u8 *from, u64 channels, u64 height, u64 width, int interleaved, const cw_box *given,
                   u64 out_h, u64 out_w, u8 *to, cw_scratch *s)
{
    cw_box box = *given;
    interleaved = interleaved && channels > 1;
    if (box.top < 0 || box.left < 0 || box.top + (i64)box.height > (i64)height || box.left + (i64)box.width > (i64)width) {
        int rc = pad(k, &from, channels, &height, &width, interleaved, &box, s);
        if (rc) return rc;
    }
    u64 together = interleaved ? channels : 1;
    view v = {.k = k, .channels = channels, .height = height, .width = width, .left = (u64)box.left, .box_h = box.height, .box_w = box.width,
              .from = from + ((u64)box.top * width + (u64)box.left) * together * k->size, .interleaved = interleaved, .flip = box.flip};
    if (box.height == out_h && box.width == out_w && !(interleaved && box.flip)) {
        crop(&v, to);
        return CW_OK;
    }
    return resize(&v, out_h, out_w, to, s);
}
