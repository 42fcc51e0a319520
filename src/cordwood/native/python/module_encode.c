/* Encoding for Python: arrays to frames, and what a plan learns from samples. */
#include "module_plans.h"
#include "packers.h"
#include "palette.h"

#include <stdlib.h>

static int data_fits(u8 dtype, const u64 *dims, unsigned rank, Py_ssize_t size)
{
    const cw_dtype *d = cw_dtype_of(dtype);
    u64 n = (u64)d->itemsize * d->components;
    for (unsigned i = 0; i < rank; i++)
        if (dims[i] >> 48 || __builtin_mul_overflow(n, dims[i], &n)) return 0;
    return n == (u64)size && n >> 56 == 0;
}

int cw_shape_read(PyObject *shape, u8 dtype, u64 *dims, unsigned *rank, Py_ssize_t size)
{
    Py_ssize_t n = PyTuple_Size(shape);
    if (n < 0) return -1;
    if (n > CW_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "an array of %zd dimensions; at most %d can be encoded", n, CW_MAX_RANK);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        dims[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(shape, i));
        if (PyErr_Occurred()) return -1;
    }
    *rank = (unsigned)n;
    if (data_fits(dtype, dims, *rank, size)) return 0;
    PyErr_SetString(PyExc_ValueError, "the buffer's size is not the shape's");
    return -1;
}

/* encode(data, shape, encoder, threads) -> bytes or an error tuple */
PyObject *cw_py_encode(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data;
    PyObject *shape, *capsule, *result = NULL;
    u64 dims[CW_MAX_RANK];
    unsigned rank;
    int threads;
    if (!PyArg_ParseTuple(args, "y*O!Oi", &data, &PyTuple_Type, &shape, &capsule, &threads)) return NULL;
    const cw_encoder *enc = cw_encoder_of(capsule);
    cw_buffer out = {0};
    cw_err e = {0};
    if (enc && !cw_shape_read(shape, enc->alternative[0].recipe.dtype, dims, &rank, data.len)) {
        Py_BEGIN_ALLOW_THREADS
        cw_encode_best(enc, data.buf, dims, rank, threads, &out, &e);
        Py_END_ALLOW_THREADS
        result = e.reason ? cw_error_tuple(0, &e) : PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    }
    cw_buffer_free(&out);
    PyBuffer_Release(&data);
    return result;
}

/* learn_tables([(data, shape), ...], encoder, coder, max_tables) -> bytes (the assets' tables for its first alternative) or an error tuple */
PyObject *cw_py_learn_tables(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *samples, *capsule, *result = NULL;
    int coder, max_tables;
    if (!PyArg_ParseTuple(args, "O!Oii", &PyTuple_Type, &samples, &capsule, &coder, &max_tables)) return NULL;
    const cw_encoder *enc = cw_encoder_of(capsule);
    cw_learner *l = enc ? cw_learner_new() : NULL;
    if (!l) return enc ? PyErr_NoMemory() : NULL;
    cw_err e = {0};
    for (Py_ssize_t i = 0; i < PyTuple_Size(samples); i++) {
        Py_buffer data;
        PyObject *shape;
        u64 dims[CW_MAX_RANK];
        unsigned rank;
        if (!PyArg_ParseTuple(PyTuple_GetItem(samples, i), "y*O!", &data, &PyTuple_Type, &shape)) goto done;
        cw_recipe r = enc->alternative[0].recipe;
        int bad = cw_shape_read(shape, r.dtype, dims, &rank, data.len);
        if (!bad) {
            r.data = data.buf;
            r.dims = dims;
            r.rank = (u8)rank;
            Py_BEGIN_ALLOW_THREADS
            cw_learner_add(l, &r, &e);
            Py_END_ALLOW_THREADS
        }
        PyBuffer_Release(&data);
        if (bad) goto done;
        if (e.reason) {
            result = cw_error_tuple(i, &e);
            goto done;
        }
    }
    cw_buffer out = {0};
    if (cw_learner_tables(l, coder, (u32)max_tables, &out)) result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    else result = PyBytes_FromStringAndSize("", 0); /* nothing in the samples takes a table */
    cw_buffer_free(&out);
done:
    cw_learner_free(l);
    return result;
}

/* train_dictionary(samples, sizes, room) -> bytes, empty when the samples give none */
PyObject *cw_py_train_dictionary(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer samples;
    PyObject *sizes_arg, *result = NULL;
    Py_ssize_t room;
    if (!PyArg_ParseTuple(args, "y*O!n", &samples, &PyTuple_Type, &sizes_arg, &room)) return NULL;
    Py_ssize_t n = PyTuple_Size(sizes_arg);
    size_t *sizes = calloc((size_t)n + 1, sizeof *sizes), sum = 0;
    u8 *to = malloc(room > 0 ? (size_t)room : 1);
    if (!sizes || !to || room <= 0) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        sizes[i] = PyLong_AsSize_t(PyTuple_GetItem(sizes_arg, i));
        if (PyErr_Occurred()) goto done;
        if (sizes[i] > (size_t)samples.len - sum) {
            PyErr_SetString(PyExc_ValueError, "sizes do not fit the samples");
            goto done;
        }
        sum += sizes[i];
    }
    size_t got;
    Py_BEGIN_ALLOW_THREADS
    got = cw_zstd_train(to, (size_t)room, samples.buf, sizes, (unsigned)n);
    Py_END_ALLOW_THREADS
    result = PyBytes_FromStringAndSize((const char *)to, (Py_ssize_t)got);
done:
    free(sizes);
    free(to);
    PyBuffer_Release(&samples);
    return result;
}

/* distinct(data, itemsize, palettes, inner, bits) -> tuple of bytes (values in numeric order, a palette each), or None: too many */
PyObject *cw_py_distinct(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data;
    int itemsize, bits;
    unsigned palettes;
    unsigned long long inner;
    if (!PyArg_ParseTuple(args, "y*iIKi", &data, &itemsize, &palettes, &inner, &bits)) return NULL;
    cw_inverse v = {0};
    cw_err e = {0};
    PyObject *result = NULL;
    if ((itemsize != 2 && itemsize != 4 && itemsize != 8) || palettes < 1 || palettes > 65536 || inner < 1 || (bits != 8 && bits != 16)) {
        PyErr_SetString(PyExc_ValueError, "distinct: sizes out of range");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    cw_inverse_collect(&v, data.buf, (u64)data.len / (u64)itemsize, (u32)itemsize, palettes, inner, (unsigned)bits, &e);
    Py_END_ALLOW_THREADS
    if (e.reason == CW_PALETTE_MISS) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else if (e.reason) {
        PyErr_NoMemory();
    } else if ((result = PyTuple_New(palettes))) {
        for (unsigned c = 0; c < palettes; c++) {
            const char *from = (const char *)v.values + (size_t)c * v.stride * v.itemsize;
            PyTuple_SetItem(result, c, PyBytes_FromStringAndSize(from, (Py_ssize_t)v.counts[c] * itemsize));
        }
    }
done:
    cw_inverse_free(&v);
    PyBuffer_Release(&data);
    return result;
}
