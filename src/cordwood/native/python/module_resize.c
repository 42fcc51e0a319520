/* Crop, resize and mirror a batch of images that are in memory; where images come from a store, reading them does it on the way. */
#include "module.h"
#include "resize.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
    const u8 *from;
    u8 *to;
    const cw_box *boxes;
    u64 channels, height, width, out_h, out_w, image_size, out_size;
    int floats, interleaved;
    atomic_int failed;
} batch;

static void resize_one(void *ctx, u64 i)
{
    batch *b = ctx;
    cw_scratch *s = cw_scratch_borrow();
    if (!s) {
        atomic_store(&b->failed, 1);
        return;
    }
    const u8 *from = b->from + i * b->image_size;
    u8 *to = b->to + i * b->out_size;
    int rc = b->floats ? cw_resize_f32((const f32_any *)from, b->channels, b->height, b->width, b->interleaved, &b->boxes[i], b->out_h, b->out_w, (f32_any *)to, s)
                       : cw_resize_u8(from, b->channels, b->height, b->width, b->interleaved, &b->boxes[i], b->out_h, b->out_w, to, s);
    if (rc) atomic_store(&b->failed, 1);
    cw_scratch_return(s);
}

static int refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "resize: %s", what);
    return -1;
}

static int is_format(const Py_buffer *view, const char *one, const char *other)
{
    return view->format && (strcmp(view->format, one) == 0 || strcmp(view->format, other) == 0);
}

/* Everything that is used later: shapes that agree, sides that resizing can do, and boxes that are boxes. */
static int check(batch *b, const Py_buffer *images, const Py_buffer *boxes, const Py_buffer *out, float fill, cw_box *read)
{
    if (images->ndim != 4 || out->ndim != 4 || boxes->ndim != 2) return refuse("images and out have four dimensions, boxes has two");
    b->floats = is_format(images, "f", "<f");
    if (!b->floats && !is_format(images, "B", "<B")) return refuse("images are of uint8 or float32");
    if (strcmp(images->format, out->format ? out->format : "") != 0) return refuse("out is of another type than images");
    if (!is_format(boxes, "l", "q") || boxes->itemsize != 8) return refuse("boxes are of int64");
    Py_ssize_t n = images->shape[0];
    if (out->shape[0] != n || boxes->shape[0] != n || boxes->shape[1] != 5) return refuse("every image has a box of five numbers and a place in out");
    const Py_ssize_t *sides = images->shape + (b->interleaved ? 1 : 2);
    b->channels = (u64)images->shape[b->interleaved ? 3 : 1];
    b->height = (u64)sides[0];
    b->width = (u64)sides[1];
    b->out_h = (u64)out->shape[2];
    b->out_w = (u64)out->shape[3];
    if ((u64)out->shape[1] != b->channels || b->channels == 0) return refuse("out has another number of channels than images, or none");
    const u64 all[] = {b->height, b->width, b->out_h, b->out_w};
    for (int i = 0; i < 4; i++)
        if (all[i] == 0 || all[i] > CW_LARGEST_SIDE) return refuse("a side of an image is 0, or too large");
    for (Py_ssize_t i = 0; i < n; i++)
        if (cw_box_read(&read[i], (const i64 *)boxes->buf + i * 5, fill)) return refuse("a box is top, left, height, width (both at least 1), flip (0 or 1)");
    b->from = images->buf;
    b->to = out->buf;
    b->boxes = read;
    b->image_size = n ? (u64)(images->len / n) : 0;
    b->out_size = n ? (u64)(out->len / n) : 0;
    return 0;
}

/* resize(images, boxes, out, interleaved, fill, threads): out is [n, channels, height, width] whatever the images are */
PyObject *cw_py_resize(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *given[3], *result = NULL;
    Py_buffer view[3] = {{0}};
    float fill;
    int threads;
    batch b = {0};
    if (!PyArg_ParseTuple(args, "OOOpfi", &given[0], &given[1], &given[2], &b.interleaved, &fill, &threads)) return NULL;
    cw_box *read = NULL;
    for (int i = 0; i < 3; i++)
        if (PyObject_GetBuffer(given[i], &view[i], PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (i == 2 ? PyBUF_WRITABLE : 0))) goto done;
    read = calloc((size_t)view[1].len / (5 * sizeof(i64)) + 1, sizeof *read); /* a box for every five numbers there may be */
    if (!read) {
        PyErr_NoMemory();
        goto done;
    }
    if (check(&b, &view[0], &view[1], &view[2], fill, read)) goto done;
    Py_BEGIN_ALLOW_THREADS
    cw_parallel((u64)view[0].shape[0], threads, resize_one, &b);
    Py_END_ALLOW_THREADS
    if (atomic_load(&b.failed)) {
        PyErr_NoMemory();
        goto done;
    }
    Py_INCREF(Py_None);
    result = Py_None;
done:
    for (int i = 0; i < 3; i++)
        if (view[i].obj) PyBuffer_Release(&view[i]);
    free(read);
    return result;
}
