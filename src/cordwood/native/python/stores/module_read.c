/* A batch of samples for Python: rows, columns and arrays, read and decoded in one call with the GIL released. */
#include "module_wants.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- a batch ---------------------------------------------------------------------------------------------------------------- */

typedef struct { u32 offset, size; Py_buffer out; } column; /* bytes of every row, one after the other */

/* Memory for bytes of many samples, which are freed together. */
typedef struct stretch { struct stretch *next; } stretch;

typedef struct {
    const cw_store *store;
    cw_place *places;   /* [n] */
    u64 n, group;       /* samples; how many a thread takes at once */
    u8 *rows;           /* [n][row_size], NULL: not asked for */
    cw_want *wants;
    u32 n_wants, n_columns;
    column *columns;
    const cw_plan_set *plans;
    u64 limit, large;   /* large: bytes of a sample that is written past the caches */
    int threads;        /* for the blocks of one frame, when there is but one sample */
    cw_fault *faults;   /* [n] */
    atomic_ullong allocated; /* for bytes of any length */
    _Atomic(stretch *) stretches; /* of memory for them */
    atomic_ullong bytes;     /* that were read: rows and frames */
    atomic_int uneven;  /* a sample has a place that is absent or None, or lacks a wanted frame */
} request;

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

/* What a thread has at hand while it reads a group. */
typedef struct {
    cw_fetched *fetched;
    cw_scratch *frame, *s; /* for a frame, and for what its blocks need beside it */
    u8 *room;              /* for bytes: what is left of a stretch */
    u64 left, bytes;       /* bytes: that were read */
} bench;

#define STRETCH ((u64)16 << 10)

static u8 *take_room(request *q, bench *b, u64 n, cw_err *e)
{
    n = (n + 7) & ~(u64)7; /* elements where they like to be */
    if (n > b->left || !b->room) {
        u64 size = CW_MAX(n, STRETCH), before = atomic_fetch_add(&q->allocated, size);
        stretch *fresh = before + size > q->limit ? NULL : malloc(sizeof *fresh + size);
        if (!fresh) return cw_fail(e, before + size > q->limit ? CW_LIMIT : CW_NOMEM, "memory for bytes", before + size, q->limit, 0), NULL;
        fresh->next = atomic_load(&q->stretches);
        while (!atomic_compare_exchange_weak(&q->stretches, &fresh->next, fresh)) {}
        b->room = (u8 *)(fresh + 1);
        b->left = size;
    }
    b->room += n;
    b->left -= n;
    return b->room - n;
}

/* Memory for bytes whose number only the frame tells. */
static u8 *new_bytes(request *q, bench *b, u64 sample, const cw_want *w, const cw_frame *f, cw_err *e)
{
    if (!cw_want_takes(w, sample, f)) cw_fail(e, CW_OUT_SHAPE, w->list ? "rank of bytes" : "out", f->rank, w->list ? 1 : w->rank, 0);
    else w->bytes[sample] = take_room(q, b, f->nbytes + CW_BEHIND, e);
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

static int decode_elements(const request *q, cw_fetched *f, const cw_normalize *normalize, cw_scratch *s, cw_err *e)
{
    cw_decode_job *job = &f->job;
    if (!cw_decode_prepare(job, normalize, q->limit, e)) {
        int direct = cw_frame_direct(f, e);
        if (direct < 0 && !cw_decode_fill(job, e) && !cw_frame_complete(f, e)) decode_blocks(q, job, s, e);
    }
    return e->reason;
}

#define LARGE ((u64)16 << 20) /* bytes of all batches of a call: the first of them is out of every cache when the last is made */

static int past_caches(const request *q, const cw_want *w)
{
    return w->per && w->each[0] >= q->large;
}

/* An image that needs more than its decoding is decoded next to its frame, where the nearest caches still have it. */
static void treat_frame(const request *q, u64 sample, const cw_want *w, bench *b, cw_err *e)
{
    cw_decode_job *job = &b->fetched->job;
    u8 *out = job->out;
    job->out = job->frame.nbytes > q->limit ? NULL : cw_scratch_take(b->frame, job->frame.nbytes);
    if (!job->out) cw_fail(e, CW_LIMIT, "memory for an image", job->frame.nbytes, q->limit, 0);
    else if (!decode_elements(q, b->fetched, NULL, b->s, e))
        cw_treat_image(&w->treat, &job->frame, job->out, cw_want_box(w, sample), past_caches(q, w), out, b->s, e);
    cw_scratch_reset(b->s);
}

static void decode_frame(request *q, u64 sample, const cw_want *w, bench *b, cw_err *e)
{
    const Py_buffer *view = NULL;
    cw_decode_job *job = &b->fetched->job;
    job->limit = q->limit;
    job->behind = w->bytes ? CW_BEHIND : 0;
    job->out = w->bytes ? new_bytes(q, b, sample, w, &job->frame, e) : cw_want_out(w, sample, &view);
    if (e->reason) return;
    if (view && !cw_want_fits(w, view, &job->frame)) {
        cw_fail(e, CW_OUT_SHAPE, "out", (u64)view->len, job->frame.nbytes, 0);
    } else if (!(w->accepted >> job->frame.dtype & 1)) {
        cw_fail(e, CW_OUT_DTYPE, "dtype", job->frame.dtype, w->accepted, 0);
    } else if (w->treated && !cw_treat_fused(&w->treat)) {
        treat_frame(q, sample, w, b, e);
    } else {
        job->past_caches = view && past_caches(q, w);
        decode_elements(q, b->fetched, w->treated && w->treat.normalized ? &w->treat.normalize : NULL, b->s, e);
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

static void read_frames(request *q, u64 first, const cw_rows *rows, u64 i, bench *b)
{
    cw_fault *f = &q->faults[first + i];
    const cw_place *at = &rows->places[i];
    b->bytes += at->shard->row_size;
    for (u32 k = 0; k < q->n_wants && !f->e.reason; k++) {
        const cw_want *w = &q->wants[k];
        f->wanted = (int)k;
        cw_menus menus = cw_menus_for(q->plans, at, w->frame);
        int rc = cw_frame_fetch(rows, i, w->frame, &menus, b->frame, b->fetched, &f->e);
        if (rc == CW_OK) decode_frame(q, first + i, w, b, &f->e);
        else if (rc == CW_NO_FRAME) atomic_store_explicit(&q->uneven, 1, memory_order_relaxed);
        b->bytes += b->fetched->job.frame.size;
        cw_decode_free(&b->fetched->job);
        cw_scratch_reset(b->frame);
    }
}

#define AHEAD 2
#define EXPECTED 2048 /* bytes of a frame; the processor itself goes on from there */

/* Asking ahead of time: samples in random order are in no cache, and memory answers late. Small frames are there already. */
static void expect_frame(const request *q, const cw_rows *rows, u64 i)
{
    if (i >= rows->n || !q->n_wants || rows->errors[i].reason || rows->covered[i * rows->frames + q->wants[0].frame]) return;
    u64 start = cw_row_offset(cw_row(rows, i), q->wants[0].frame), end = CW_MIN(cw_row_offset(cw_row(rows, i), q->wants[0].frame + 1), start + EXPECTED);
    for (; start < end; start += 64) __builtin_prefetch(rows->places[i].shard->base + start);
}

static void read_samples(request *q, u64 first, const cw_rows *rows, bench *b)
{
    for (u64 i = 0; i < rows->n; i++) {
        q->faults[first + i].wanted = -1;
        if (rows->errors[i].reason) q->faults[first + i].e = rows->errors[i];
        else take_row(q, first + i, cw_row(rows, i));
    }
    for (u64 i = 0; i < AHEAD; i++) expect_frame(q, rows, i);
    for (u64 i = 0; i < rows->n; i++) {
        expect_frame(q, rows, i + AHEAD);
        read_frames(q, first, rows, i, b);
    }
}

static void read_group(void *ctx, u64 group)
{
    request *q = ctx;
    u64 first = group * q->group, n = CW_MIN(q->group, q->n - first);
    cw_rows rows = {.places = q->places + first, .n = n, .row_size = q->store->row_size, .frames = q->store->frames};
    cw_scratch *memory = cw_scratch_borrow();
    bench b = {.fetched = memory ? cw_scratch_take(memory, sizeof *b.fetched) : NULL, .frame = cw_scratch_borrow(), .s = cw_scratch_borrow()};
    if (b.fetched && b.frame && b.s && !cw_rows_read(&rows, memory)) read_samples(q, first, &rows, &b);
    else
        for (u64 i = 0; i < n; i++) cw_fail(&q->faults[first + i].e, CW_NOMEM, "memory", 0, 0, 0);
    atomic_fetch_add_explicit(&q->bytes, b.bytes, memory_order_relaxed);
    if (memory) cw_scratch_return(memory);
    if (b.frame) cw_scratch_return(b.frame);
    if (b.s) cw_scratch_return(b.s);
}

/* ---- for Python --------------------------------------------------------------------------------------------------------------- */

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

/* store_read(handle, indices, rows, columns, wanted, plans, threads, limit, bytes)
 * -> None, or ("uneven", []) if a sample has something absent or None, or lacks a wanted frame (whose memory is left as it was),
 * or ("attach", shard numbers), or ("faults", [(which wanted or -1 for the row, error tuple)]);
 * to `bytes`, a u64 or None, the number of bytes that were read is added */
PyObject *cw_py_store_read(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *rows_arg, *columns, *wanted, *plans, *bytes_arg, *result = NULL;
    Py_buffer indices, rows = {0}, bytes = {0};
    int threads;
    unsigned long long limit;
    if (!PyArg_ParseTuple(args, "Oy*OO!O!OiKO", &capsule, &indices, &rows_arg, &PyTuple_Type, &columns, &PyTuple_Type, &wanted, &plans, &threads, &limit,
                          &bytes_arg))
        return NULL;
    request q = {.store = cw_store_of(capsule), .limit = limit, .threads = threads};
    Py_ssize_t n_wants = PyTuple_Size(wanted);
    q.plans = q.store ? cw_plan_set_of(plans) : NULL;
    if (!q.plans) goto done;
    q.n = (u64)indices.len / 8;
    q.n_wants = (u32)n_wants;
    q.large = LARGE / CW_MAX(q.n, (u64)1);
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
    if (bytes_arg != Py_None && PyObject_GetBuffer(bytes_arg, &bytes, PyBUF_WRITABLE)) goto done;
    if (bytes.obj && bytes.len != 8) {
        PyErr_SetString(PyExc_ValueError, "store_read: the count of bytes is one u64");
        goto done;
    }
    for (Py_ssize_t k = 0; k < n_wants; k++)
        if (cw_want_read(&q.wants[k], PyTuple_GetItem(wanted, k), q.store, (Py_ssize_t)q.n)) goto done;
    if (columns_read(&q, columns)) goto done;
    int bad = 0;
    Py_BEGIN_ALLOW_THREADS
    cw_guard_prepare();
    /* groups, so that tiny samples do not wait for each other at the counter; several a thread, so that none waits at the end */
    q.group = CW_MAX((u64)1, CW_MIN(q.n / (8 * (u64)CW_MAX(threads, 1)), (u64)32));
    cw_parallel((q.n + q.group - 1) / q.group, threads, read_group, &q);
    for (u64 i = 0; i < q.n; i++) bad |= q.faults[i].e.reason;
    if (bytes.obj) cw_store64(bytes.buf, cw_load64(bytes.buf) + atomic_load(&q.bytes));
    Py_END_ALLOW_THREADS
    for (Py_ssize_t k = 0; !bad && k < n_wants; k++)
        if (q.wants[k].bytes && cw_want_fill(&q.wants[k], q.n)) goto done;
    if (bad) {
        result = cw_faults_answer(q.faults, q.n);
    } else if (atomic_load(&q.uneven)) {
        result = Py_BuildValue("(s[])", "uneven");
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
done:
    for (stretch *one = atomic_load(&q.stretches), *next; one; one = next) next = one->next, free(one);
    cw_wants_release(q.wants, n_wants);
    if (bytes.obj) PyBuffer_Release(&bytes);
    for (u32 k = 0; k < q.n_columns; k++) PyBuffer_Release(&q.columns[k].out);
    free(q.columns);
    if (rows.obj) PyBuffer_Release(&rows);
    PyBuffer_Release(&indices);
    free(q.places);
    free(q.faults);
    return result;
}

