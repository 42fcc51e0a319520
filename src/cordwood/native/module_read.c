/* A batch of samples for Python: rows, columns and arrays, read and decoded in one call with the GIL released. */
#include "module_store.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- a batch ---------------------------------------------------------------------------------------------------------------- */

typedef struct {
    u32 frame;          /* number among the frame leaves */
    u32 accepted;       /* dtypes that may go into the array, a bit each */
    int apart;          /* a buffer a sample, not one for all */
    Py_buffer *outs;    /* [1] or [samples] */
    Py_ssize_t held;
    PyObject *list;     /* instead of buffers: bytes of any length are put here at the end */
    u8 **bytes;         /* [samples], NULL where there is no frame */
    u64 *sizes;         /* [samples] */
} want;

typedef struct { u32 offset, size; Py_buffer out; } column; /* bytes of every row, one after the other */

typedef struct {
    const cw_store *store;
    cw_place *places;   /* [n] */
    u64 n, group;       /* samples; how many a thread takes at once */
    u8 *rows;           /* [n][row_size], NULL: not asked for */
    want *wants;
    u32 n_wants, n_columns;
    column *columns;
    const cw_plan_list *plans;
    u64 limit;
    int threads;        /* for the blocks of one frame, when there is but one sample */
    cw_fault *faults;   /* [n] */
    atomic_ullong allocated; /* for bytes of any length */
    atomic_int uneven;  /* a sample has a place that is absent or None, or lacks a wanted frame */
} request;

static u8 *out_of(const want *w, u64 sample, const Py_buffer **view)
{
    *view = &w->outs[w->apart ? sample : 0];
    if (w->apart) return (*view)->buf;
    return (u8 *)(*view)->buf + sample * ((u64)(*view)->len / (u64)(*view)->shape[0]);
}

static int fits(const want *w, const Py_buffer *view, const cw_frame *f)
{
    int skip = !w->apart; /* the first dimension is the batch's */
    if (view->ndim - skip != f->rank) return 0;
    for (int i = 0; i < f->rank; i++)
        if ((u64)view->shape[i + skip] != f->dims[i]) return 0;
    return (u64)view->len == f->nbytes * (skip ? (u64)view->shape[0] : 1);
}

typedef struct { cw_decode_job *job; cw_err *e; atomic_flag failed; } solo;

static void solo_block(void *ctx, u64 block)
{
    solo *one = ctx;
    cw_err e = {0};
    cw_scratch *s = cw_scratch_borrow();
    if (!s) cw_fail(&e, CW_NOMEM, "memory", 0, 0, 0);
    else cw_decode_block(one->job, block, s, &e);
    if (e.reason && !atomic_flag_test_and_set(&one->failed)) *one->e = e;
    if (s) cw_scratch_return(s);
}

/* Memory for bytes whose number only the frame tells. */
static u8 *new_bytes(request *q, u64 sample, const want *w, const cw_frame *f, cw_err *e)
{
    u64 before = atomic_fetch_add(&q->allocated, f->nbytes);
    if (f->rank != 1) cw_fail(e, CW_OUT_SHAPE, "rank of bytes", f->rank, 1, 0);
    else if (before + f->nbytes > q->limit) cw_fail(e, CW_LIMIT, "memory for bytes", before + f->nbytes, q->limit, 0);
    else if (!(w->bytes[sample] = malloc(f->nbytes + 1))) cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    w->sizes[sample] = f->nbytes;
    return w->bytes[sample];
}

static void decode_blocks(const request *q, cw_decode_job *job, cw_scratch *s, cw_err *e)
{
    if (q->n == 1 && q->threads > 1 && job->frame.blocks > 1) {
        solo one = {.job = job, .e = e, .failed = ATOMIC_FLAG_INIT};
        cw_parallel(job->frame.blocks, q->threads, solo_block, &one);
    } else {
        for (u64 i = 0; i < job->frame.blocks && !cw_decode_block(job, i, s, e); i++) {}
    }
}

static void decode_frame(request *q, u64 sample, const want *w, cw_fetched *f, cw_scratch *s, cw_err *e)
{
    const Py_buffer *view = NULL;
    cw_decode_job *job = &f->job;
    job->limit = q->limit;
    job->out = w->list ? new_bytes(q, sample, w, &job->frame, e) : out_of(w, sample, &view);
    if (e->reason) return;
    if (view && !fits(w, view, &job->frame)) {
        cw_fail(e, CW_OUT_SHAPE, "out", (u64)view->len, job->frame.nbytes, 0);
    } else if (!(w->accepted >> job->frame.dtype & 1)) {
        cw_fail(e, CW_OUT_DTYPE, "dtype", job->frame.dtype, w->accepted, 0);
    } else if (!cw_decode_prepare(job, NULL, q->limit, e)) {
        int direct = cw_frame_direct(f, e);
        if (direct < 0 && !cw_decode_fill(job, e) && !cw_frame_complete(f, e)) decode_blocks(q, job, s, e);
    }
}

static void take_row(request *q, u64 i, const u8 *row)
{
    const cw_store *s = q->store;
    if (q->rows) memcpy(q->rows + i * s->row_size, row, s->row_size);
    for (u32 k = 0; k < q->n_columns; k++) {
        const column *c = &q->columns[k];
        memcpy((u8 *)c->out.buf + i * c->size, row + c->offset, c->size);
    }
    if (memcmp(row + s->row_size - 4 - s->states, s->usual, s->states)) atomic_store_explicit(&q->uneven, 1, memory_order_relaxed);
}

static void read_frames(request *q, u64 i, const u8 *row, cw_fetched *fetched, cw_scratch *frame, cw_scratch *s)
{
    cw_fault *f = &q->faults[i];
    for (u32 k = 0; k < q->n_wants && !f->e.reason; k++) {
        const want *w = &q->wants[k];
        f->wanted = (int)k;
        int rc = cw_frame_fetch(&q->places[i], row, q->store->frames, w->frame, q->plans->plan, (size_t)q->plans->n, frame, fetched, &f->e);
        if (rc == CW_OK) decode_frame(q, i, w, fetched, s, &f->e);
        else if (rc == CW_NO_FRAME) atomic_store_explicit(&q->uneven, 1, memory_order_relaxed);
        cw_decode_free(&fetched->job);
        cw_scratch_reset(frame);
    }
}

/* Asking ahead of time: samples in random order are in no cache, and memory answers late. */
static void expect_row(const request *q, u64 i)
{
    const cw_place *at = &q->places[i];
    __builtin_prefetch(at->shard->base + at->shard->rows + at->row * q->store->row_size);
}

#define AHEAD 2
#define EXPECTED 2048 /* bytes of a frame; the processor itself goes on from there */

static void expect_frame(const request *q, u64 i, const u8 *row)
{
    if (!q->n_wants || q->faults[i].e.reason) return;
    u64 start = cw_row_offset(row, q->wants[0].frame), end = CW_MIN(cw_row_offset(row, q->wants[0].frame + 1), start + EXPECTED);
    for (; start < end; start += 64) __builtin_prefetch(q->places[i].shard->base + start);
}

static void read_samples(request *q, u64 first, u64 n, u8 *rows, u64 stride, cw_fetched *fetched, cw_scratch *frame, cw_scratch *s)
{
    for (u64 i = 0; i < n; i++) expect_row(q, first + i);
    for (u64 i = 0; i < n; i++) {
        cw_fault *f = &q->faults[first + i];
        f->wanted = -1;
        if (!cw_row_read(&q->places[first + i], q->store->row_size, q->store->frames, rows + i * stride, &f->e)) take_row(q, first + i, rows + i * stride);
    }
    for (u64 i = 0; i < CW_MIN(n, (u64)AHEAD); i++) expect_frame(q, first + i, rows + i * stride);
    for (u64 i = 0; i < n; i++) {
        if (i + AHEAD < n) expect_frame(q, first + i + AHEAD, rows + (i + AHEAD) * stride);
        read_frames(q, first + i, rows + i * stride, fetched, frame, s);
    }
}

static void read_group(void *ctx, u64 group)
{
    request *q = ctx;
    u64 first = group * q->group, n = CW_MIN(q->group, q->n - first), stride = ((u64)q->store->row_size + 15) & ~(u64)7;
    cw_scratch *memory = cw_scratch_borrow(), *frame = cw_scratch_borrow(), *s = cw_scratch_borrow();
    u8 *rows = memory ? cw_scratch_take(memory, n * stride + 8) : NULL; /* each with eight bytes in front of it */
    cw_fetched *fetched = memory ? cw_scratch_take(memory, sizeof *fetched) : NULL;
    if (rows && fetched && frame && s) read_samples(q, first, n, rows + 8, stride, fetched, frame, s);
    else
        for (u64 i = 0; i < n; i++) cw_fail(&q->faults[first + i].e, CW_NOMEM, "memory", 0, 0, 0);
    if (memory) cw_scratch_return(memory);
    if (frame) cw_scratch_return(frame);
    if (s) cw_scratch_return(s);
}

/* ---- for Python --------------------------------------------------------------------------------------------------------------- */

static void wants_release(want *wants, Py_ssize_t n, u64 samples)
{
    for (Py_ssize_t k = 0; wants && k < n; k++) {
        for (Py_ssize_t i = 0; i < wants[k].held; i++)
            if (wants[k].outs[i].obj) PyBuffer_Release(&wants[k].outs[i]);
        free(wants[k].outs);
        for (u64 i = 0; wants[k].bytes && i < samples; i++) free(wants[k].bytes[i]);
        free(wants[k].bytes);
        free(wants[k].sizes);
    }
    free(wants);
}

/* Gives the caller's list the bytes of every sample, or None. */
static int list_fill(const want *w, u64 samples)
{
    for (u64 i = 0; i < samples; i++) {
        PyObject *one = w->bytes[i] ? PyBytes_FromStringAndSize((const char *)w->bytes[i], (Py_ssize_t)w->sizes[i]) : (Py_INCREF(Py_None), Py_None);
        int failed = !one || PyList_Append(w->list, one);
        Py_XDECREF(one);
        if (failed) return -1;
    }
    return 0;
}

/* wanted: (frame, accepted, out) where out is one array whose first dimension is the batch's, a tuple of an array (or None) a sample, or
 * a list that receives bytes */
static int want_read(want *w, PyObject *given, const cw_store *s, Py_ssize_t n)
{
    PyObject *out;
    if (!PyArg_ParseTuple(given, "IIO", &w->frame, &w->accepted, &out)) return -1;
    w->apart = PyTuple_Check(out);
    Py_ssize_t count = w->apart ? n : 1;
    if (w->frame >= s->frames || (w->apart && PyTuple_Size(out) != n)) {
        PyErr_SetString(PyExc_ValueError, "store_read: a frame that is not there, or not an array for each sample");
        return -1;
    }
    if (PyList_Check(out)) {
        w->list = out;
        w->bytes = calloc((size_t)n + 1, sizeof *w->bytes);
        w->sizes = calloc((size_t)n + 1, sizeof *w->sizes);
        if (w->bytes && w->sizes) return 0;
        PyErr_NoMemory();
        return -1;
    }
    w->outs = calloc((size_t)count + 1, sizeof *w->outs);
    if (!w->outs) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = w->apart ? PyTuple_GetItem(out, i) : out;
        w->held = i + 1;
        if (one != Py_None && PyObject_GetBuffer(one, &w->outs[i], PyBUF_WRITABLE | PyBUF_ND)) {
            w->outs[i].obj = NULL;
            return -1;
        }
    }
    if (!w->apart && (!w->outs[0].obj || w->outs[0].ndim < 1 || w->outs[0].shape[0] != n)) {
        PyErr_SetString(PyExc_ValueError, "store_read: the array's first dimension is not the number of samples");
        return -1;
    }
    return 0;
}

/* columns: a tuple of (offset in the row, size, out) */
static int columns_read(request *q, PyObject *given)
{
    for (Py_ssize_t k = 0; k < PyTuple_Size(given); k++) {
        column *c = &q->columns[k];
        PyObject *out;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, k), "IIO", &c->offset, &c->size, &out)) return -1;
        if (PyObject_GetBuffer(out, &c->out, PyBUF_WRITABLE)) {
            c->out.obj = NULL;
            return -1;
        }
        q->n_columns = (u32)k + 1;
        if ((u64)c->offset + c->size > q->store->row_size || (u64)c->out.len != q->n * c->size) {
            PyErr_SetString(PyExc_ValueError, "store_read: a column outside the row, or an array of another size");
            return -1;
        }
    }
    return 0;
}

/* store_read(handle, indices, rows, columns, wanted, plans, threads, limit)
 * -> None, or ("uneven", []) if a sample has something absent or None, or lacks a wanted frame (whose memory is left as it was),
 * or ("attach", shard numbers), or ("faults", [(which wanted or -1 for the row, error tuple)]) */
PyObject *cw_py_store_read(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *rows_arg, *columns, *wanted, *plans, *result = NULL;
    Py_buffer indices, rows = {0};
    int threads;
    unsigned long long limit;
    if (!PyArg_ParseTuple(args, "Oy*OO!O!OiK", &capsule, &indices, &rows_arg, &PyTuple_Type, &columns, &PyTuple_Type, &wanted, &plans, &threads, &limit))
        return NULL;
    request q = {.store = cw_store_of(capsule), .limit = limit, .threads = threads};
    Py_ssize_t n_wants = PyTuple_Size(wanted);
    q.plans = q.store ? cw_plans_of(plans) : NULL;
    if (!q.plans) goto done;
    q.n = (u64)indices.len / 8;
    q.n_wants = (u32)n_wants;
    q.places = malloc((q.n + 1) * sizeof *q.places);
    q.faults = calloc(q.n + 1, sizeof *q.faults);
    q.wants = calloc((size_t)n_wants + 1, sizeof *q.wants);
    q.columns = calloc((size_t)PyTuple_Size(columns) + 1, sizeof *q.columns);
    if (!q.places || !q.faults || !q.wants || !q.columns) {
        PyErr_NoMemory();
        goto done;
    }
    PyObject *missing = cw_find_places(q.store, &indices, q.places);
    if (missing) result = Py_BuildValue("(sN)", "attach", missing);
    if (missing || PyErr_Occurred()) goto done;
    if (rows_arg != Py_None) {
        if (PyObject_GetBuffer(rows_arg, &rows, PyBUF_WRITABLE)) goto done;
        if ((u64)rows.len != q.n * q.store->row_size) {
            PyErr_SetString(PyExc_ValueError, "store_read: the rows' memory has another size than the rows");
            goto done;
        }
        q.rows = rows.buf;
    }
    for (Py_ssize_t k = 0; k < n_wants; k++)
        if (want_read(&q.wants[k], PyTuple_GetItem(wanted, k), q.store, (Py_ssize_t)q.n)) goto done;
    if (columns_read(&q, columns)) goto done;
    int bad = 0;
    Py_BEGIN_ALLOW_THREADS
    cw_guard_prepare();
    /* groups, so that tiny samples do not wait for each other at the counter; several a thread, so that none waits at the end */
    q.group = CW_MAX((u64)1, CW_MIN(q.n / (8 * (u64)CW_MAX(threads, 1)), (u64)16));
    cw_parallel((q.n + q.group - 1) / q.group, threads, read_group, &q);
    for (u64 i = 0; i < q.n; i++) bad |= q.faults[i].e.reason;
    Py_END_ALLOW_THREADS
    for (Py_ssize_t k = 0; !bad && k < n_wants; k++)
        if (q.wants[k].list && list_fill(&q.wants[k], q.n)) goto done;
    if (bad) {
        result = cw_faults_answer(q.faults, q.n);
    } else if (atomic_load(&q.uneven)) {
        result = Py_BuildValue("(s[])", "uneven");
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
done:
    wants_release(q.wants, n_wants, q.n);
    for (u32 k = 0; k < q.n_columns; k++) PyBuffer_Release(&q.columns[k].out);
    free(q.columns);
    if (rows.obj) PyBuffer_Release(&rows);
    PyBuffer_Release(&indices);
    free(q.places);
    free(q.faults);
    return result;
}

