/* The door to Python: arguments in, the GIL released, errors out as tuples that cordwood.codecs turns into exceptions.
 *
 * An error tuple is (item, reason, field, found, expected, offset, block). Nothing here decides anything about formats. */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include "cw.h"
#include "packers.h"
#include "palette.h"

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Cordwood's files are little-endian, and so must be the machine: big-endian hosts are not supported."
#endif

enum { OUT_SIZE = 200 };

static PyObject *error_tuple(Py_ssize_t item, const cw_err *e)
{
    if (e->reason == CW_NOMEM) return PyErr_NoMemory();
    return Py_BuildValue("(nisKKKL)", item, e->reason, e->field ? e->field : "", (unsigned long long)e->found,
                         (unsigned long long)e->expected, (unsigned long long)e->offset, (long long)e->block);
}

/* ---- plans --------------------------------------------------------------------------------------------------------------------- */

typedef struct { cw_plan *plan; Py_buffer *view; Py_ssize_t n; } plan_list;

static void plans_release(plan_list *p)
{
    for (Py_ssize_t i = 0; i < p->n; i++) {
        cw_plan_free(&p->plan[i]);
        PyBuffer_Release(&p->view[i]);
    }
    free(p->plan);
    free(p->view);
}

/* plans: a tuple of (hash, assets). 0 on success; *error is an error tuple when the assets are bad. */
static int plans_read(plan_list *p, PyObject *plans, PyObject **error)
{
    memset(p, 0, sizeof *p);
    Py_ssize_t n = PyTuple_Size(plans);
    if (n < 0) return -1;
    p->plan = calloc((size_t)n + 1, sizeof *p->plan);
    p->view = calloc((size_t)n + 1, sizeof *p->view);
    if (!p->plan || !p->view) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long hash;
        PyObject *assets;
        cw_err e = {0};
        if (!PyArg_ParseTuple(PyTuple_GetItem(plans, i), "KO", &hash, &assets)) return -1;
        if (PyObject_GetBuffer(assets, &p->view[i], PyBUF_SIMPLE)) return -1;
        p->n = i + 1;
        if (cw_plan_parse(&p->plan[i], hash, p->view[i].buf, (size_t)p->view[i].len, &e)) {
            *error = error_tuple(i, &e);
            return -1;
        }
    }
    return 0;
}

/* ---- decoding ------------------------------------------------------------------------------------------------------------------- */

typedef struct {
    cw_decode_job *jobs;
    Py_buffer *frames, *outs;
    Py_ssize_t n;
    const plan_list *plans;
    const cw_normalize *normalize;
    u64 limit;
    cw_err *errors;          /* [n] */
    atomic_flag *failed;     /* [n] */
} batch;

static void prepare_one(void *ctx, u64 i)
{
    batch *b = ctx;
    cw_decode_job *j = &b->jobs[i];
    cw_err *e = &b->errors[i];
    j->limit = b->limit;
    j->out = b->outs[i].buf;
    if (cw_decode_prepare(j, b->frames[i].buf, (u64)b->frames[i].len, b->plans->plan, (size_t)b->plans->n, b->normalize, e)) return;
    u64 bytes = j->frame.elements * j->finish.out_size;
    if (bytes != (u64)b->outs[i].len) {
        cw_fail(e, OUT_SIZE, "out", (u64)b->outs[i].len, bytes, 0);
        return;
    }
    cw_decode_fill(j, e);
}

static void decode_unit(void *ctx, u64 unit)
{
    batch *b = ctx;
    Py_ssize_t lo = 0, hi = b->n - 1;
    while (lo < hi) { /* the last job whose first unit is not after this one */
        Py_ssize_t mid = (lo + hi + 1) / 2;
        if (b->jobs[mid].first_unit <= unit) lo = mid;
        else hi = mid - 1;
    }
    cw_decode_job *j = &b->jobs[lo];
    cw_err e = {0};
    cw_scratch *s = cw_scratch_borrow();
    if (!s) cw_fail(&e, CW_NOMEM, "memory", 0, 0, 0);
    else cw_decode_block(j, unit - j->first_unit, s, &e);
    if (e.reason && !atomic_flag_test_and_set(&b->failed[lo])) b->errors[lo] = e;
    if (s) cw_scratch_return(s);
}

static int read_normalize(PyObject *obj, cw_normalize *to, void **memory)
{
    Py_buffer lut, b, d;
    int axis, size;
    float a;
    if (!PyArg_ParseTuple(obj, "y*iify*y*", &lut, &axis, &size, &a, &b, &d)) return -1;
    u32 palettes = (u32)(b.len / 4);
    int ok = palettes >= 1 && b.len == d.len && axis >= 0 && (size == 2 || size == 4) && lut.len == (Py_ssize_t)palettes * 256 * size;
    memset(to, 0, sizeof *to);
    u8 *m = ok ? calloc(1, (size_t)lut.len + (2 + 3 * (size_t)palettes) * sizeof(float)) : NULL;
    if (m) {
        memcpy(m, lut.buf, (size_t)lut.len);
        to->axis = axis;
        to->palettes = palettes;
        to->finish = (cw_finish){.kind = CW_FINISH_LUT, .out_size = (u8)size, .code_size = 1, .lut = m, .lut_entries = 256, .palettes = palettes, .inner = 1,
                                 .affine_terms = (float *)(m + lut.len)};
        cw_finish_try_affine(&to->finish, a, b.buf, d.buf);
        *memory = m;
    } else if (ok) {
        PyErr_NoMemory();
    } else {
        PyErr_SetString(PyExc_ValueError, "normalize: tables of another size than expected");
    }
    PyBuffer_Release(&lut);
    PyBuffer_Release(&b);
    PyBuffer_Release(&d);
    return m ? 0 : -1;
}

/* decode_batch(frames, outs, plans, normalize, threads, limit) -> None or an error tuple */
static PyObject *decode_batch(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *frames, *outs, *plan_tuple, *normalize_arg, *result = NULL;
    int threads;
    unsigned long long limit;
    if (!PyArg_ParseTuple(args, "O!O!O!OiK", &PyTuple_Type, &frames, &PyTuple_Type, &outs, &PyTuple_Type, &plan_tuple, &normalize_arg, &threads, &limit))
        return NULL;
    Py_ssize_t n = PyTuple_Size(frames), held_frames = 0, held_outs = 0;
    if (PyTuple_Size(outs) != n) {
        PyErr_SetString(PyExc_ValueError, "as many outs as frames are needed");
        return NULL;
    }
    plan_list plans;
    cw_normalize normalize;
    void *normalize_memory = NULL;
    batch b = {.n = n, .plans = &plans, .limit = limit};
    size_t room = (size_t)n + 1;
    b.jobs = calloc(room, sizeof *b.jobs);
    b.frames = calloc(room, sizeof *b.frames);
    b.outs = calloc(room, sizeof *b.outs);
    b.errors = calloc(room, sizeof *b.errors);
    b.failed = calloc(room, sizeof *b.failed);
    if (plans_read(&plans, plan_tuple, &result)) goto done;
    if (!b.jobs || !b.frames || !b.outs || !b.errors || !b.failed) {
        PyErr_NoMemory();
        goto done;
    }
    if (normalize_arg != Py_None) {
        if (read_normalize(normalize_arg, &normalize, &normalize_memory)) goto done;
        b.normalize = &normalize;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyObject_GetBuffer(PyTuple_GetItem(frames, i), &b.frames[i], PyBUF_SIMPLE)) goto done;
        held_frames++;
        if (PyObject_GetBuffer(PyTuple_GetItem(outs, i), &b.outs[i], PyBUF_WRITABLE)) goto done;
        held_outs++;
        atomic_flag_clear(&b.failed[i]);
    }
    Py_BEGIN_ALLOW_THREADS
    cw_parallel((u64)n, threads, prepare_one, &b);
    u64 units = 0;
    int good = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        b.jobs[i].first_unit = units;
        units += b.jobs[i].frame.blocks;
        good &= !b.errors[i].reason;
    }
    if (good) cw_parallel(units, threads, decode_unit, &b);
    Py_END_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n && !result; i++)
        if (b.errors[i].reason) {
            result = error_tuple(i, &b.errors[i]);
            if (!result) goto done;
        }
    if (!result) {
        Py_INCREF(Py_None);
        result = Py_None;
    }
done:
    for (Py_ssize_t i = 0; i < held_frames; i++) PyBuffer_Release(&b.frames[i]);
    for (Py_ssize_t i = 0; i < held_outs; i++) PyBuffer_Release(&b.outs[i]);
    for (Py_ssize_t i = 0; b.jobs && i < n; i++) cw_decode_free(&b.jobs[i]);
    plans_release(&plans);
    free(normalize_memory);
    free(b.jobs);
    free(b.frames);
    free(b.outs);
    free(b.errors);
    free(b.failed);
    return result;
}

/* parse(frame) -> a dict of header fields, or an error tuple */
static PyObject *parse(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "y*", &view)) return NULL;
    cw_frame *f = malloc(sizeof *f);
    cw_err e = {0};
    PyObject *result = NULL;
    if (!f) {
        PyErr_NoMemory();
    } else if (cw_frame_parse(f, view.buf, (u64)view.len, &e)) {
        result = error_tuple(0, &e);
    } else {
        PyObject *dims = PyTuple_New(f->rank);
        for (unsigned i = 0; dims && i < f->rank; i++) PyTuple_SetItem(dims, i, PyLong_FromUnsignedLongLong(f->dims[i]));
        PyObject *plan = f->has_plan ? PyLong_FromUnsignedLongLong(f->plan_hash) : (Py_INCREF(Py_None), Py_None);
        if (dims && plan)
            result = Py_BuildValue(
                "{s(ii)si sO sK sO si sL si si s(iiiii) si s(ii) sK si si s(iii) sK sK sK}", "version", f->major, f->minor, "dtype", f->dtype,
                "shape", dims, "nbytes", (unsigned long long)f->nbytes, "plan_hash", plan, "value", f->value, "minimum", (long long)f->minimum,
                "bits", f->bits, "shift", f->shift, "palette", f->palette.bits, f->palette.axis, f->palette.source, (int)f->palette.palettes,
                (int)f->palette.count, "predict", f->predict, "image", f->image.geometry, f->image.color, "lag", (unsigned long long)f->lag,
                "planes", f->planes, "coder", f->coder, "entropy", f->entropy, f->tile_h, f->tile_w, "block", (unsigned long long)f->block,
                "blocks", (unsigned long long)f->blocks, "header_size", (unsigned long long)f->header_size);
        Py_XDECREF(dims);
        Py_XDECREF(plan);
    }
    free(f);
    PyBuffer_Release(&view);
    return result;
}

/* ---- encoding --------------------------------------------------------------------------------------------------------------------- */

/* Reads (dtype, shape, settings, formula): settings are the numbers of a cw_recipe in order. */
static int read_recipe(PyObject *dims_arg, PyObject *settings, cw_recipe *r, u64 *dims)
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
    unsigned long long lag, block;
    int max_tables;
    if (!PyArg_ParseTuple(settings, "bbbbbbbbbbKbbbbbbiiK", &r->dtype, &r->value, &r->pack_bits, &r->align_top, &r->palette_bits, &r->palette_axis,
                          &r->palette_source, &r->predict, &r->geometry, &r->color, &lag, &r->planes, &r->coder, &r->mode, &r->entropy, &r->tile_h,
                          &r->tile_w, &max_tables, &r->level, &block))
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

static int data_fits(const cw_recipe *r, Py_ssize_t size)
{
    const cw_dtype *d = cw_dtype_of(r->dtype);
    u64 n = (u64)d->itemsize * d->components;
    for (unsigned i = 0; i < r->rank; i++)
        if (r->dims[i] >> 48 || __builtin_mul_overflow(n, r->dims[i], &n)) return 0;
    return n == (u64)size && n >> 56 == 0;
}

/* encode(data, shape, settings, formula, plans, threads) -> bytes or an error tuple */
static PyObject *encode(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data, formula;
    PyObject *dims_arg, *settings, *plan_tuple, *result = NULL;
    int threads;
    if (!PyArg_ParseTuple(args, "y*O!O!y*O!i", &data, &PyTuple_Type, &dims_arg, &PyTuple_Type, &settings, &formula, &PyTuple_Type, &plan_tuple, &threads))
        return NULL;
    cw_recipe r = {.data = data.buf, .formula = formula.buf, .formula_size = (size_t)formula.len};
    u64 dims[CW_MAX_RANK];
    plan_list plans = {0};
    cw_buffer out = {0};
    cw_err e = {0};
    if (plans_read(&plans, plan_tuple, &result) || read_recipe(dims_arg, settings, &r, dims)) goto done;
    if (!data_fits(&r, data.len)) {
        PyErr_SetString(PyExc_ValueError, "the buffer's size is not the shape's");
        goto done;
    }
    if (plans.n) r.plan = &plans.plan[0];
    Py_BEGIN_ALLOW_THREADS
    cw_encode(&r, threads, &out, &e);
    Py_END_ALLOW_THREADS
    result = e.reason ? error_tuple(0, &e) : PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
done:
    cw_buffer_free(&out);
    plans_release(&plans);
    PyBuffer_Release(&data);
    PyBuffer_Release(&formula);
    return result;
}

/* learn_tables([(data, shape, settings, formula), ...], coder, max_tables) -> bytes (the assets' tables) or an error tuple */
static PyObject *learn_tables(PyObject *self, PyObject *args)
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
        int bad = read_recipe(dims_arg, settings, &r, dims);
        if (!bad && !data_fits(&r, data.len)) {
            PyErr_SetString(PyExc_ValueError, "the buffer's size is not the shape's");
            bad = 1;
        }
        if (!bad) {
            Py_BEGIN_ALLOW_THREADS
            cw_learner_add(l, &r, &e);
            Py_END_ALLOW_THREADS
        }
        PyBuffer_Release(&data);
        PyBuffer_Release(&formula);
        if (bad) goto done;
        if (e.reason) {
            result = error_tuple(i, &e);
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
static PyObject *train_dictionary(PyObject *self, PyObject *args)
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
static PyObject *distinct(PyObject *self, PyObject *args)
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

static PyObject *crc32c(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "y*", &view)) return NULL;
    u32 crc;
    Py_BEGIN_ALLOW_THREADS
    crc = cw_crc32c(view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *check_plan(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "y*", &view)) return NULL;
    cw_plan plan;
    cw_err e = {0};
    PyObject *result;
    if (cw_plan_parse(&plan, 0, view.buf, (size_t)view.len, &e)) {
        result = error_tuple(0, &e);
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    cw_plan_free(&plan);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *fast_cpu(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyBool_FromLong(cw_fast_cpu());
}

static PyMethodDef methods[] = {
    {"decode_batch", decode_batch, METH_VARARGS, "decode_batch(frames, outs, plans, normalize, threads, limit) -> None | error tuple"},
    {"parse", parse, METH_VARARGS, "parse(frame) -> dict of header fields | error tuple"},
    {"encode", encode, METH_VARARGS, "encode(data, shape, settings, formula, plans, threads) -> bytes | error tuple"},
    {"learn_tables", learn_tables, METH_VARARGS, "learn_tables(samples, coder, max_tables) -> bytes | error tuple"},
    {"train_dictionary", train_dictionary, METH_VARARGS, "train_dictionary(samples, sizes, room) -> bytes"},
    {"distinct", distinct, METH_VARARGS, "distinct(data, itemsize, palettes, inner, bits) -> tuple of bytes | None"},
    {"crc32c", crc32c, METH_VARARGS, "crc32c(buffer) -> int"},
    {"check_plan", check_plan, METH_VARARGS, "check_plan(assets) -> None | error tuple"},
    {"fast_cpu", fast_cpu, METH_NOARGS, "fast_cpu() -> bool: are the AVX2/BMI2/FMA paths in use?"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Frames, filters, entropy coding, checksums.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    cw_crc32c_init();
    return PyModule_Create(&definition);
}
