/* Decoding for Python: a batch in one call with the GIL released, and looking at a header. */
#include "module_plans.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { OUT_SHAPE = 200, OUT_DTYPE = 201 }; /* beside the reasons of cw.h: the caller's array does not fit */

typedef struct {
    cw_decode_job *jobs;
    Py_buffer *frames, *outs;
    Py_ssize_t n;
    const cw_plan_set *plans;
    const u32 *own;          /* [n]: the plan, by its number in `plans`, that a short frame is read with; if there is no such plan, it cannot be */
    const cw_normalize *normalize;
    const u32 *accepted;     /* [n]: dtypes that may go into the array, a bit each */
    u64 limit;
    atomic_ullong tables;    /* bytes of look-up tables so far */
    cw_err *errors;          /* [n] */
    atomic_flag *failed;     /* [n] */
} batch;

static int fits(const Py_buffer *out, const cw_frame *f, u32 item)
{
    if (out->ndim != f->rank || (u64)out->len != f->elements * item) return 0;
    for (int i = 0; i < out->ndim; i++)
        if ((u64)out->shape[i] != f->dims[i]) return 0;
    return 1;
}

/* Bytes of look-up tables that a frame asks for; all frames of a batch share one budget. */
static u64 table_bytes(const cw_frame *f)
{
    return f->value == CW_VALUE_PALETTE && f->elements ? (u64)f->palette.palettes * f->itemsize * (f->bits == 8 ? 256 : CW_MAX(f->palette.count, 1u)) : 0;
}

static void prepare_one(void *ctx, u64 i)
{
    batch *b = ctx;
    cw_decode_job *j = &b->jobs[i];
    cw_err *e = &b->errors[i];
    j->limit = b->limit;
    j->out = b->outs[i].buf;
    const cw_menu *own = b->own[i] < b->plans->n ? &b->plans->menu[b->own[i]] : NULL;
    if (cw_decode_open(j, b->frames[i].buf, (u64)b->frames[i].len, b->plans->menu, (size_t)b->plans->n, own, e)) return;
    if (!fits(&b->outs[i], &j->frame, b->normalize ? b->normalize->finish.out_size : j->frame.itemsize)) {
        cw_fail(e, OUT_SHAPE, "out", (u64)b->outs[i].len, j->frame.nbytes, 0);
        return;
    }
    if (!(b->accepted[i] >> j->frame.dtype & 1)) {
        cw_fail(e, OUT_DTYPE, "out", j->frame.dtype, b->accepted[i], 0);
        return;
    }
    u64 tables = j->chain ? 0 : table_bytes(&j->frame), before = atomic_fetch_add(&b->tables, tables);
    if (before + tables > b->limit) {
        cw_fail(e, CW_LIMIT, "memory for palettes", before + tables, b->limit, 0);
        return;
    }
    if (!cw_decode_prepare(j, b->normalize, b->limit - before, e)) cw_decode_fill(j, e);
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

int cw_normalize_read(PyObject *obj, cw_normalize *to, void **memory)
{
    Py_buffer lut, b, d;
    int axis, size;
    float a;
    if (!PyArg_ParseTuple(obj, "y*iify*y*", &lut, &axis, &size, &a, &b, &d)) return -1;
    u32 palettes = (u32)(b.len / 4);
    int ok = palettes >= 1 && b.len == d.len && axis >= 0 && (size == 2 || size == 4) && lut.len == (Py_ssize_t)palettes * 256 * size;
    memset(to, 0, sizeof *to);
    u8 *m = ok ? calloc(1, (size_t)lut.len + CW_AFFINE_TERMS(palettes) * sizeof(float)) : NULL;
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

/* decode_batch(frames, outs, accepted, plans, own, normalize, threads, limit) -> None or an error tuple */
PyObject *cw_py_decode_batch(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *frames, *outs, *plans, *normalize_arg, *result = NULL;
    int threads;
    unsigned long long limit;
    const char *accepted, *own;
    Py_ssize_t n_accepted, n_own;
    if (!PyArg_ParseTuple(args, "O!O!y#Oy#OiK", &PyTuple_Type, &frames, &PyTuple_Type, &outs, &accepted, &n_accepted, &plans, &own, &n_own, &normalize_arg,
                          &threads, &limit))
        return NULL;
    Py_ssize_t n = PyTuple_Size(frames), held_frames = 0, held_outs = 0;
    if (PyTuple_Size(outs) != n || n_accepted != n * 4 || n_own != n * 4) {
        PyErr_SetString(PyExc_ValueError, "as many outs as frames are needed");
        return NULL;
    }
    cw_normalize normalize;
    void *normalize_memory = NULL;
    batch b = {.n = n, .plans = cw_plan_set_of(plans), .limit = limit, .accepted = (const u32 *)accepted, .own = (const u32 *)own};
    if (!b.plans) return NULL;
    size_t room = (size_t)n + 1;
    b.jobs = calloc(room, sizeof *b.jobs);
    b.frames = calloc(room, sizeof *b.frames);
    b.outs = calloc(room, sizeof *b.outs);
    b.errors = calloc(room, sizeof *b.errors);
    b.failed = calloc(room, sizeof *b.failed);
    if (!b.jobs || !b.frames || !b.outs || !b.errors || !b.failed) {
        PyErr_NoMemory();
        goto done;
    }
    if (normalize_arg != Py_None) {
        if (cw_normalize_read(normalize_arg, &normalize, &normalize_memory)) goto done;
        b.normalize = &normalize;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyObject_GetBuffer(PyTuple_GetItem(frames, i), &b.frames[i], PyBUF_SIMPLE)) goto done;
        held_frames++;
        if (PyObject_GetBuffer(PyTuple_GetItem(outs, i), &b.outs[i], PyBUF_WRITABLE | PyBUF_ND)) goto done;
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
            result = cw_error_tuple(i, &b.errors[i]);
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
    free(normalize_memory);
    free(b.jobs);
    free(b.frames);
    free(b.outs);
    free(b.errors);
    free(b.failed);
    return result;
}

static int parse_any(cw_frame *f, const Py_buffer *view, const cw_menu *own, cw_err *e)
{
    const cw_chain *unused;
    if (!cw_is_short(view->buf, (u64)view->len)) return cw_frame_parse(f, view->buf, (u64)view->len, e);
    if (!own) return cw_fail(e, CW_PLAN_MISSING, "plan of a short frame", 0, 1, 0);
    return cw_short_parse(f, own, &unused, view->buf, (u64)view->len, e);
}

/* parse(frame, plans, number) -> a dict of header fields, or an error tuple; a short frame is read with plan `number` of `plans` */
PyObject *cw_py_parse(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer view;
    PyObject *plans;
    unsigned number;
    if (!PyArg_ParseTuple(args, "y*OI", &view, &plans, &number)) return NULL;
    const cw_plan_set *set = cw_plan_set_of(plans);
    cw_frame *f = set ? malloc(sizeof *f) : NULL;
    cw_err e = {0};
    PyObject *result = NULL;
    if (!f) {
        if (set) PyErr_NoMemory();
    } else if (parse_any(f, &view, number < set->n ? &set->menu[number] : NULL, &e)) {
        result = cw_error_tuple(0, &e);
    } else {
        PyObject *dims = PyTuple_New(f->rank);
        for (unsigned i = 0; dims && i < f->rank; i++) PyTuple_SetItem(dims, i, PyLong_FromUnsignedLongLong(f->dims[i]));
        /* what the first block's planes went through; not covered by the header's checksum, so for show only */
        u64 shown = f->blocks && f->coder == CW_CODED ? CW_MIN(f->size - f->header_size, (u64)8) : 0;
        PyObject *plan = f->has_plan ? PyLong_FromUnsignedLongLong(f->plan_hash) : (Py_INCREF(Py_None), Py_None);
        if (dims && plan)
            result = Py_BuildValue(
                "{s(ii)si sO sK sO si sL si si s(iiiii) si s(ii) sK si si s(iii) sK sK sK sy#}", "version", f->major, f->minor, "dtype", f->dtype,
                "shape", dims, "nbytes", (unsigned long long)f->nbytes, "plan_hash", plan, "value", f->value, "minimum", (long long)f->minimum,
                "bits", f->bits, "shift", f->shift, "palette", f->palette.bits, f->palette.axis, f->palette.source, (int)f->palette.palettes,
                (int)f->palette.count, "predict", f->predict, "image", f->image.geometry, f->image.color, "lag", (unsigned long long)f->lag,
                "planes", f->planes, "coder", f->coder, "entropy", f->entropy, f->tile_h, f->tile_w, "block", (unsigned long long)f->block,
                "blocks", (unsigned long long)f->blocks, "header_size", (unsigned long long)f->header_size, "modes", (const char *)f->data + f->header_size, (Py_ssize_t)shown);
        Py_XDECREF(dims);
        Py_XDECREF(plan);
    }
    free(f);
    PyBuffer_Release(&view);
    return result;
}
