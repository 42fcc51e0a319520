/* Stores for Python: handles of mapped shards and of plans, and a look at shapes. */
#include "module_store.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- handles -------------------------------------------------------------------------------------------------------------- */

static const char STORE[] = "cordwood.store", PLANS[] = "cordwood.plans";

cw_store *cw_store_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, STORE); }
const cw_plan_list *cw_plans_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, PLANS); }

static void store_free(cw_store *s)
{
    for (u64 i = 0; s->shard && i < s->shards; i++) {
        const cw_shard *shard = &s->shard[i];
        if (shard->owner) {
            PyBuffer_Release(shard->owner);
            free(shard->owner);
        } else if (shard->base) {
            munmap((void *)(uintptr_t)shard->base, shard->size);
        }
    }
    free(s->first);
    free(s->usual);
    free(s->shard);
    free(s);
}

static void store_capsule_free(PyObject *capsule) { store_free(PyCapsule_GetPointer(capsule, STORE)); }

/* store_new(firsts, row_size, frames, usual states) -> handle; firsts: u64 of every shard and at last the number of samples */
PyObject *cw_py_store_new(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer firsts;
    unsigned row_size, frames;
    const char *usual;
    Py_ssize_t states;
    if (!PyArg_ParseTuple(args, "y*IIy#", &firsts, &row_size, &frames, &usual, &states)) return NULL;
    u64 n = (u64)firsts.len / 8;
    PyObject *capsule = NULL;
    int good = n >= 1 && firsts.len % 8 == 0 && frames < 1u << 20 && states < 1 << 20 && row_size >= 12 * frames + 12 + (u32)states && row_size < 1u << 30;
    const u8 *from = firsts.buf;
    for (u64 i = 1; good && i < n; i++) good = cw_load64(from + 8 * i) >= cw_load64(from + 8 * (i - 1)) && !(cw_load64(from + 8 * i) >> 62);
    cw_store *s = good ? calloc(1, sizeof *s) : NULL;
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "store_new: shards that cannot be");
    } else if (s) {
        s->shards = n - 1;
        s->row_size = row_size;
        s->frames = frames;
        s->states = (u32)states;
        s->usual = malloc((size_t)states + 1);
        s->first = malloc((size_t)firsts.len);
        s->shard = calloc(n, sizeof *s->shard);
        if (s->first && s->shard && s->usual) {
            memcpy(s->usual, usual, (size_t)states);
            memcpy(s->first, from, (size_t)firsts.len);
            capsule = PyCapsule_New(s, STORE, store_capsule_free);
        } else {
            PyErr_NoMemory();
        }
        if (!capsule) store_free(s);
    } else {
        PyErr_NoMemory();
    }
    PyBuffer_Release(&firsts);
    return capsule;
}

static int rows_inside(const cw_store *s, u64 number, u64 size, u64 rows)
{
    if (number < s->shards && rows >= CW_SHARD_HEADER && rows <= size && s->first[number + 1] - s->first[number] <= (size - rows) / s->row_size) return 1;
    PyErr_SetString(PyExc_ValueError, "store_attach: the rows are not inside the shard");
    return 0;
}

/* store_attach(handle, number, fd, size, rows_offset, sparse) -> 0, or the system's error number. What the shard's ends say was checked before, against
 * the file's size. The mapping outlives the descriptor: thousands of shards need no thousands of open files. */
PyObject *cw_py_store_attach(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    unsigned long long number, size, rows;
    int fd, sparse;
    if (!PyArg_ParseTuple(args, "OKiKKp", &capsule, &number, &fd, &size, &rows, &sparse)) return NULL;
    cw_store *s = PyCapsule_GetPointer(capsule, STORE);
    if (!s || !rows_inside(s, number, size, rows)) return NULL;
    if (s->shard[number].base) return PyLong_FromLong(0); /* another thread was faster */
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return PyLong_FromLong(errno);
    /* What lies around a page is not wanted: it would push out what is, where not everything can stay in memory. */
    if (sparse) madvise(mapped, size, MADV_RANDOM);
    s->shard[number] = (cw_shard){.base = mapped, .size = size, .rows = rows, .count = s->first[number + 1] - s->first[number]};
    return PyLong_FromLong(0);
}

/* store_attach_memory(handle, number, shard, rows_offset): the bytes of a whole shard, which nobody may change any more */
PyObject *cw_py_store_attach_memory(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *memory;
    unsigned long long number, rows;
    if (!PyArg_ParseTuple(args, "OKOK", &capsule, &number, &memory, &rows)) return NULL;
    cw_store *s = PyCapsule_GetPointer(capsule, STORE);
    if (!s) return NULL;
    Py_buffer *view = malloc(sizeof *view);
    if (!view) return PyErr_NoMemory();
    if (PyObject_GetBuffer(memory, view, PyBUF_SIMPLE)) {
        free(view);
        return NULL;
    }
    if (!rows_inside(s, number, (u64)view->len, rows) || s->shard[number].base) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "store_attach_memory: the shard is attached already");
        PyBuffer_Release(view);
        free(view);
        return NULL;
    }
    s->shard[number] = (cw_shard){.base = view->buf, .size = (u64)view->len, .rows = rows, .count = s->first[number + 1] - s->first[number], .owner = view};
    Py_INCREF(Py_None);
    return Py_None;
}

static void plans_capsule_free(PyObject *capsule)
{
    cw_plan_list *p = PyCapsule_GetPointer(capsule, PLANS);
    cw_plans_release(p);
    free(p);
}

/* plan_set(plans) -> handle of parsed plans, or an error tuple */
PyObject *cw_py_plan_set(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *plans, *result = NULL;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &plans)) return NULL;
    cw_plan_list *p = malloc(sizeof *p);
    if (!p) return PyErr_NoMemory();
    if (!cw_plans_read(p, plans, &result) && (result = PyCapsule_New(p, PLANS, plans_capsule_free))) return result;
    cw_plans_release(p);
    free(p);
    return result;
}

/* ---- samples and faults ------------------------------------------------------------------------------------------------------- */

static u64 shard_of(const cw_store *s, u64 sample)
{
    u64 lo = 0, hi = s->shards - 1;
    while (lo < hi) { /* the last shard that begins not after it */
        u64 mid = (lo + hi + 1) / 2;
        if (s->first[mid] <= sample) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

PyObject *cw_find_places(const cw_store *s, const Py_buffer *indices, cw_place *places)
{
    PyObject *missing = NULL;
    u64 n = (u64)indices->len / 8, last = UINT64_MAX;
    for (u64 i = 0; i < n; i++) {
        u64 sample = cw_load64((const u8 *)indices->buf + 8 * i);
        if (!s->shards || sample >= s->first[s->shards]) {
            PyErr_SetString(PyExc_IndexError, "a sample that the store does not have");
            Py_XDECREF(missing);
            return NULL;
        }
        u64 k = shard_of(s, sample);
        places[i] = (cw_place){&s->shard[k], sample - s->first[k]};
        if (s->shard[k].base || k == last) continue;
        last = k;
        PyObject *number = PyLong_FromUnsignedLongLong(k);
        if (!missing) missing = PyList_New(0);
        int failed = !number || !missing || PyList_Append(missing, number);
        Py_XDECREF(number);
        if (failed) {
            Py_XDECREF(missing);
            return NULL;
        }
    }
    return missing;
}

PyObject *cw_faults_answer(const cw_fault *faults, u64 n)
{
    PyObject *list = PyList_New(0);
    for (u64 i = 0; list && i < n; i++) {
        if (!faults[i].e.reason) continue;
        PyObject *error = cw_error_tuple((Py_ssize_t)i, &faults[i].e);
        PyObject *pair = error ? Py_BuildValue("(iN)", faults[i].wanted, error) : NULL;
        if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list ? Py_BuildValue("(sN)", "faults", list) : NULL;
}

/* ---- shapes --------------------------------------------------------------------------------------------------------------------- */

typedef struct { int there; u8 dtype, rank; u64 dims[CW_MAX_RANK]; } shape;

typedef struct {
    const cw_store *store;
    const cw_place *places;
    u32 frame;
    const cw_plan_list *plans;
    shape *shapes;      /* [n] */
    cw_fault *faults;   /* [n] */
} survey;

static void look_at(void *ctx, u64 i)
{
    survey *v = ctx;
    const cw_store *s = v->store;
    cw_fault *f = &v->faults[i];
    shape *found = &v->shapes[i];
    f->wanted = -1;
    cw_scratch *memory = cw_scratch_borrow(), *copy = cw_scratch_borrow();
    u8 *row = memory ? cw_scratch_take(memory, (size_t)s->row_size + 8) : NULL;
    cw_fetched *fetched = memory ? cw_scratch_take(memory, sizeof *fetched) : NULL;
    if (!row || !fetched || !copy) {
        cw_fail(&f->e, CW_NOMEM, "memory", 0, 0, 0);
    } else if (!cw_row_read(&v->places[i], s->row_size, s->frames, row + 8, &f->e)) {
        f->wanted = 0;
        found->there = cw_frame_fetch(&v->places[i], row + 8, s->frames, v->frame, v->plans->plan, (size_t)v->plans->n, copy, fetched, &f->e) == CW_OK;
        found->dtype = fetched->job.frame.dtype;
        found->rank = fetched->job.frame.rank;
        memcpy(found->dims, fetched->job.frame.dims, found->rank * sizeof *found->dims);
    }
    if (memory) cw_scratch_return(memory);
    if (copy) cw_scratch_return(copy);
}

static PyObject *shapes_list(const shape *shapes, u64 n)
{
    PyObject *list = PyList_New(0);
    for (u64 i = 0; list && i < n; i++) {
        PyObject *one = NULL;
        if (shapes[i].there) {
            PyObject *dims = PyTuple_New(shapes[i].rank);
            for (unsigned d = 0; dims && d < shapes[i].rank; d++) PyTuple_SetItem(dims, d, PyLong_FromUnsignedLongLong(shapes[i].dims[d]));
            one = dims ? Py_BuildValue("(iN)", (int)shapes[i].dtype, dims) : NULL;
        } else {
            Py_INCREF(Py_None);
            one = Py_None;
        }
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* store_shapes(handle, indices, frame, plans, threads) -> as store_read, or a list of (dtype, shape) or None a sample */
PyObject *cw_py_store_shapes(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *plans, *result = NULL;
    Py_buffer indices;
    unsigned frame;
    int threads;
    if (!PyArg_ParseTuple(args, "Oy*IOi", &capsule, &indices, &frame, &plans, &threads)) return NULL;
    cw_store *s = cw_store_of(capsule);
    u64 n = (u64)indices.len / 8;
    cw_place *places = malloc((n + 1) * sizeof *places);
    survey v = {.store = s, .places = places, .frame = frame, .plans = s ? cw_plans_of(plans) : NULL};
    v.shapes = calloc(n + 1, sizeof *v.shapes);
    v.faults = calloc(n + 1, sizeof *v.faults);
    if (!v.plans || !places || !v.shapes || !v.faults || frame >= s->frames) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "store_shapes: no memory, or a frame that is not there");
        goto done;
    }
    PyObject *missing = cw_find_places(s, &indices, places);
    if (missing) result = Py_BuildValue("(sN)", "attach", missing);
    if (missing || PyErr_Occurred()) goto done;
    int bad = 0;
    Py_BEGIN_ALLOW_THREADS
    cw_guard_prepare();
    cw_parallel(n, threads, look_at, &v);
    for (u64 i = 0; i < n; i++) bad |= v.faults[i].e.reason;
    Py_END_ALLOW_THREADS
    if (bad) {
        result = cw_faults_answer(v.faults, n);
    } else {
        result = shapes_list(v.shapes, n);
    }
done:
    free(places);
    free(v.shapes);
    free(v.faults);
    PyBuffer_Release(&indices);
    return result;
}
