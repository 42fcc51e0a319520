/* Encoding many arrays in one call, and checksums of many rows in one call: what writing a store spends its time on. */
#include "module_plans.h"

#include <stdlib.h>

#define WORTH_SHARING ((Py_ssize_t)1 << 20) /* bytes of an array whose blocks several threads may take */

typedef struct {
    const cw_encoder *encoder;
    u64 dims[CW_MAX_RANK];
    unsigned rank;
    Py_buffer data;
    cw_err error;
} item;

/* Items are encoded in waves: as many frames as a wave has items are in memory beside the results, and the next wave writes where this one did. */
#define WAVE(threads) ((threads) > 1 ? 8 * (Py_ssize_t)(threads) : 1)

typedef struct { item *items; cw_buffer *outs; int threads; } wave;

static void encode_item(void *ctx, u64 i)
{
    wave *w = ctx;
    item *t = &w->items[i];
    w->outs[i].size = 0;
    cw_encode_best(t->encoder, t->data.buf, t->dims, t->rank, t->data.len >= WORTH_SHARING ? w->threads : 1, &w->outs[i], &t->error);
}

static int read_item(item *t, PyObject *given)
{
    PyObject *shape, *capsule;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "encode_batch: an item is (data, shape, encoder)");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "y*O!O", &t->data, &PyTuple_Type, &shape, &capsule)) {
        t->data = (Py_buffer){0}; /* the parser released what it had taken */
        return -1;
    }
    t->encoder = cw_encoder_of(capsule);
    return t->encoder ? cw_shape_read(shape, t->encoder->alternative[0].recipe.dtype, t->dims, &t->rank, t->data.len) : -1;
}

/* encode_batch(items, threads) -> a list: for every item bytes, or an error tuple */
PyObject *cw_py_encode_batch(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *given, *result = NULL;
    int threads;
    if (!PyArg_ParseTuple(args, "O!i", &PyTuple_Type, &given, &threads)) return NULL;
    Py_ssize_t n = PyTuple_Size(given), most = CW_MIN(WAVE(threads), n);
    item *items = calloc((size_t)n + 1, sizeof *items);
    cw_buffer *outs = calloc((size_t)most + 1, sizeof *outs);
    if (!items || !outs) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_item(&items[i], PyTuple_GetItem(given, i))) goto done;
    result = PyList_New(n);
    for (Py_ssize_t first = 0; result && first < n; first += most) {
        wave w = {.items = items + first, .outs = outs, .threads = threads};
        Py_ssize_t count = CW_MIN(most, n - first);
        Py_BEGIN_ALLOW_THREADS
        cw_parallel((u64)count, threads, encode_item, &w);
        Py_END_ALLOW_THREADS
        for (Py_ssize_t i = 0; result && i < count; i++) {
            cw_err *error = &w.items[i].error;
            PyObject *one = error->reason ? cw_error_tuple(first + i, error) : PyBytes_FromStringAndSize((const char *)outs[i].data, (Py_ssize_t)outs[i].size);
            if (error->reason) cw_buffer_free(&outs[i]); /* it may have failed to grow, and would go on failing */
            if (!one || PyList_SetItem(result, first + i, one)) {
                Py_DECREF(result);
                result = NULL;
            }
        }
    }
done:
    for (Py_ssize_t i = 0; outs && i < most; i++) cw_buffer_free(&outs[i]);
    for (Py_ssize_t i = 0; items && i < n; i++)
        if (items[i].data.obj) PyBuffer_Release(&items[i].data);
    free(items);
    free(outs);
    return result;
}

/* crc32c_rows(data, row_size, covered, first) -> bytes: for row i the u32 CRC-32C of (first + i as u64, its first `covered` bytes) */
PyObject *cw_py_crc32c_rows(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data;
    Py_ssize_t row_size, covered;
    unsigned long long first;
    if (!PyArg_ParseTuple(args, "y*nnK", &data, &row_size, &covered, &first)) return NULL;
    PyObject *result = NULL;
    u8 *row = NULL;
    if (row_size < 1 || covered < 0 || covered > row_size || data.len % row_size) {
        PyErr_SetString(PyExc_ValueError, "crc32c_rows: the data are not whole rows");
        goto done;
    }
    Py_ssize_t n = data.len / row_size;
    row = malloc((size_t)covered + 8);
    result = row ? PyBytes_FromStringAndSize(NULL, n * 4) : PyErr_NoMemory();
    if (!result) goto done;
    char *to = PyBytes_AsString(result);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
        cw_store64(row, first + (u64)i);
        memcpy(row + 8, (const u8 *)data.buf + i * row_size, (size_t)covered);
        cw_store32(to + i * 4, cw_crc32c(row, (size_t)covered + 8));
    }
    Py_END_ALLOW_THREADS
done:
    free(row);
    PyBuffer_Release(&data);
    return result;
}

/* frame_tags(frames) -> (a u32 a frame, a byte a frame): the tag by which a row knows a frame, 0 where there is none, and whether it is a short one. A tag is
 * the checksum of a full frame's header, which is the header's end, or that of all bytes of a short one. */
PyObject *cw_py_frame_tags(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *frames;
    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &frames)) return NULL;
    Py_ssize_t n = PyList_Size(frames);
    PyObject *tags = PyBytes_FromStringAndSize(NULL, n * 4), *shorts = PyBytes_FromStringAndSize(NULL, n), *result = NULL;
    for (Py_ssize_t i = 0; tags && shorts && i < n; i++) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(frames, i), &data, &size)) goto done;
        u32 tag = 0, header = size >= 14 ? cw_load32(data + 6) : 0;
        int is_short = size > 0 && data[0] != 'C';
        if (is_short) tag = cw_crc32c(data, (size_t)size);
        else if (size && (header < 14 || header > (u64)size)) {
            PyErr_SetString(PyExc_ValueError, "frame_tags: a frame without a whole header");
            goto done;
        } else if (size) tag = cw_load32(data + header - 4);
        cw_store32(PyBytes_AsString(tags) + 4 * i, tag);
        PyBytes_AsString(shorts)[i] = (char)is_short;
    }
    if (tags && shorts) result = Py_BuildValue("(OO)", tags, shorts);
done:
    Py_XDECREF(tags);
    Py_XDECREF(shorts);
    return result;
}
