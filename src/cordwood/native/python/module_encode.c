/* Encoding for Python: arrays to frames, and what a plan learns from samples. */
#include "module.h"
#include "packers.h"
#include "palette.h"

#include <stdlib.h>

static int data_fits(const cw_recipe *r, Py_ssize_t size)
{
    const cw_dtype *d = cw_dtype_of(r->dtype);
    u64 n = (u64)d->itemsize * d->components;
    for (unsigned i = 0; i < r->rank; i++)
        if (r->dims[i] >> 48 || __builtin_mul_overflow(n, r->dims[i], &n)) return 0;
    return n == (u64)size && n >> 56 == 0;
}

int cw_settings_read(PyObject *settings, cw_recipe *r)
{
    unsigned long long lag, block;
    int max_tables;
    if (!PyArg_ParseTuple(settings, "bbbbbbbbbbKbbbbbbiibK", &r->dtype, &r->value, &r->pack_bits, &r->align_top, &r->palette_bits, &r->palette_axis,
                          &r->palette_source, &r->predict, &r->geometry, &r->color, &lag, &r->planes, &r->coder, &r->mode, &r->entropy, &r->tile_h,
                          &r->tile_w, &max_tables, &r->level, &r->saving, &block))
        return -1;
    r->lag = lag;
    r->block = block;
    r->max_tables = (u32)max_tables;
    if (!cw_dtype_of(r->dtype)) {
        PyErr_SetString(PyExc_ValueError, "unknown dtype number");
        return -1;
    }
    return 0;
}

int cw_shape_read(PyObject *dims_arg, cw_recipe *r, u64 *dims, Py_ssize_t size)
{
    Py_ssize_t rank = PyTuple_Size(dims_arg);
    if (rank < 0) return -1;
    if (rank > CW_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "an array of %zd dimensions; at most %d can be encoded", rank, CW_MAX_RANK);
        return -1;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
        dims[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(dims_arg, i));
        if (PyErr_Occurred()) return -1;
    }
    r->rank = (u8)rank;
    r->dims = dims;
    if (!data_fits(r, size)) {
        PyErr_SetString(PyExc_ValueError, "the buffer's size is not the shape's");
        return -1;
    }
    return 0;
}

/* encode(data, shape, settings, formula, plans, threads) -> bytes or an error tuple */
PyObject *cw_py_encode(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data, formula;
    PyObject *dims_arg, *settings, *plan_tuple, *result = NULL;
    int threads;
    if (!PyArg_ParseTuple(args, "y*O!O!y*O!i", &data, &PyTuple_Type, &dims_arg, &PyTuple_Type, &settings, &formula, &PyTuple_Type, &plan_tuple, &threads))
        return NULL;
    cw_recipe r = {.data = data.buf, .formula = formula.buf, .formula_size = (size_t)formula.len};
    u64 dims[CW_MAX_RANK];
    cw_plan_list plans = {0};
    cw_buffer out = {0};
    cw_err e = {0};
    if (cw_plans_read(&plans, plan_tuple, &result) || cw_settings_read(settings, &r) || cw_shape_read(dims_arg, &r, dims, data.len)) goto done;
    if (plans.n) r.plan = &plans.plan[0];
    Py_BEGIN_ALLOW_THREADS
    cw_encode(&r, threads, &out, &e);
    Py_END_ALLOW_THREADS
    result = e.reason ? cw_error_tuple(0, &e) : PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
done:
    cw_buffer_free(&out);
    cw_plans_release(&plans);
    PyBuffer_Release(&data);
    PyBuffer_Release(&formula);
    return result;
}

/* learn_tables([(data, shape, settings, formula), ...], coder, max_tables) -> bytes (the assets' tables) or an error tuple */
PyObject *cw_py_learn_tables(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *samples, *result = NULL;
    int coder, max_tables;
    if (!PyArg_ParseTuple(args, "O!ii", &PyTuple_Type, &samples, &coder, &max_tables)) return NULL;
    cw_learner *l = cw_learner_new();
    if (!l) return PyErr_NoMemory();
    cw_err e = {0};
    for (Py_ssize_t i = 0; i < PyTuple_Size(samples); i++) {
        Py_buffer data, formula;
        PyObject *dims_arg, *settings;
        u64 dims[CW_MAX_RANK];
        if (!PyArg_ParseTuple(PyTuple_GetItem(samples, i), "y*O!O!y*", &data, &PyTuple_Type, &dims_arg, &PyTuple_Type, &settings, &formula)) goto done;
        cw_recipe r = {.data = data.buf, .formula = formula.buf, .formula_size = (size_t)formula.len};
        int bad = cw_settings_read(settings, &r) || cw_shape_read(dims_arg, &r, dims, data.len);
        if (!bad) {
            Py_BEGIN_ALLOW_THREADS
            cw_learner_add(l, &r, &e);
            Py_END_ALLOW_THREADS
        }
        PyBuffer_Release(&data);
        PyBuffer_Release(&formula);
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
