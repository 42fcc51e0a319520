/* Stores for Python: handles of mapped shards and of plans, and a look at shapes. */
#include "module_store.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- handles -------------------------------------------------------------------------------------------------------------- */

static const char STORE[] = "cordwood.store";

cw_store *cw_store_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, STORE); }

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
        free(shard->leaf);
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

/* A shard whose table and rows fit it, not yet attached; -1 with an exception. */
static int lay_out(const cw_store *s, cw_shard *shard, u64 number, u64 size, u64 rows, const char *table, Py_ssize_t n)
{
    *shard = (cw_shard){.size = size, .rows = rows};
    if (number < s->shards && rows >= CW_SHARD_HEADER && rows <= size && !cw_shard_layout(shard, (const u8 *)table, (size_t)n, s->row_size, s->frames)) {
        shard->count = s->first[number + 1] - s->first[number];
        if (shard->count <= (size - rows) / shard->row_size) return 0;
    }
    free(shard->leaf);
    PyErr_SetString(PyExc_ValueError, "store_attach: the rows are not inside the shard");
    return -1;
}

/* store_attach(handle, number, fd, size, rows_offset, table, sparse) -> 0, or the system's error number. What the shard's ends and its table (empty: a shard
 * of version 1) say was checked before, against the file's size. The mapping outlives the descriptor: thousands of shards need no thousands of open files. */
PyObject *cw_py_store_attach(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    unsigned long long number, size, rows;
    const char *table;
    Py_ssize_t n;
    int fd, sparse;
    cw_shard shard;
    if (!PyArg_ParseTuple(args, "OKiKKy#p", &capsule, &number, &fd, &size, &rows, &table, &n, &sparse)) return NULL;
    cw_store *s = PyCapsule_GetPointer(capsule, STORE);
    if (!s || lay_out(s, &shard, number, size, rows, table, n)) return NULL;
    if (s->shard[number].base) { /* another thread was faster */
        free(shard.leaf);
        return PyLong_FromLong(0);
    }
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        free(shard.leaf);
        return PyLong_FromLong(errno);
    }
    /* What lies around a page is not wanted: it would push out what is, where not everything can stay in memory. */
    if (sparse) madvise(mapped, size, MADV_RANDOM);
    shard.base = mapped;
    s->shard[number] = shard;
    return PyLong_FromLong(0);
}

/* store_attach_memory(handle, number, shard, rows_offset, table): the bytes of a whole shard, which nobody may change any more */
PyObject *cw_py_store_attach_memory(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *memory;
    unsigned long long number, rows;
    const char *table;
    Py_ssize_t n;
    cw_shard shard;
    if (!PyArg_ParseTuple(args, "OKOKy#", &capsule, &number, &memory, &rows, &table, &n)) return NULL;
    cw_store *s = PyCapsule_GetPointer(capsule, STORE);
    if (!s) return NULL;
    Py_buffer *view = malloc(sizeof *view);
    if (!view) return PyErr_NoMemory();
    if (PyObject_GetBuffer(memory, view, PyBUF_SIMPLE)) {
        free(view);
        return NULL;
    }
    int bad = lay_out(s, &shard, number, (u64)view->len, rows, table, n);
    if (!bad && s->shard[number].base) {
        PyErr_SetString(PyExc_ValueError, "store_attach_memory: the shard is attached already");
        free(shard.leaf);
        bad = 1;
    }
    if (bad) {
        PyBuffer_Release(view);
        free(view);
        return NULL;
    }
    shard.base = view->buf;
    shard.owner = view;
    s->shard[number] = shard;
    Py_INCREF(Py_None);
    return Py_None;
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

/* holds_bytes(list) -> whether one of them is bytes */
PyObject *cw_py_holds_bytes(PyObject *self, PyObject *list)
{
    (void)self;
    int found = 0;
    for (Py_ssize_t i = 0, n = PyList_Check(list) ? PyList_Size(list) : 0; i < n && !found; i++) found = PyBytes_Check(PyList_GetItem(list, i));
    return PyBool_FromLong(found);
}

/* sample_numbers(list, count, out) -> whether all of the list are ints from -count up to count; `out` has them then, counted from the start */
PyObject *cw_py_sample_numbers(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *list;
    Py_buffer out;
    long long count;
    if (!PyArg_ParseTuple(args, "O!Lw*", &PyList_Type, &list, &count, &out)) return NULL;
    Py_ssize_t n = PyList_Size(list);
    int good = out.len == n * 8;
    for (Py_ssize_t i = 0; good && i < n; i++) {
        PyObject *one = PyList_GetItem(list, i);
        int over = 1;
        long long number = PyLong_CheckExact(one) ? PyLong_AsLongLongAndOverflow(one, &over) : 0;
        if (number < 0) number += count;
        good = !over && number >= 0 && number < count;
        cw_store64((u8 *)out.buf + 8 * i, (u64)number);
    }
    PyBuffer_Release(&out);
    return PyBool_FromLong(good);
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
    u64 n;
    u32 frame;
    const cw_plan_set *plans;
    shape *shapes;      /* [n] */
    cw_fault *faults;   /* [n] */
} survey;

#define LOOKED_AT 16 /* samples that a thread takes at once */

static void look_at(void *ctx, u64 group)
{
    survey *v = ctx;
    u64 first = group * LOOKED_AT;
    cw_rows rows = {.places = v->places + first, .n = CW_MIN((u64)LOOKED_AT, v->n - first), .row_size = v->store->row_size, .frames = v->store->frames};
    cw_scratch *memory = cw_scratch_borrow(), *copy = cw_scratch_borrow();
    cw_fetched *fetched = memory ? cw_scratch_take(memory, sizeof *fetched) : NULL;
    int there = fetched && copy && !cw_rows_read(&rows, memory);
    for (u64 i = 0; i < rows.n; i++) {
        cw_fault *f = &v->faults[first + i];
        shape *found = &v->shapes[first + i];
        f->wanted = -1;
        if (!there) cw_fail(&f->e, CW_NOMEM, "memory", 0, 0, 0);
        else if (rows.errors[i].reason) f->e = rows.errors[i];
        if (f->e.reason) continue;
        f->wanted = 0;
        const cw_frame *frame = &fetched->job.frame;
        cw_menus menus = cw_menus_for(v->plans, &rows.places[i], v->frame);
        found->there = cw_frame_fetch(&rows, i, v->frame, &menus, copy, fetched, &f->e) == CW_OK;
        found->dtype = frame->dtype;
        found->rank = found->there ? frame->rank : 0;
        memcpy(found->dims, frame->dims, found->rank * sizeof *found->dims);
        cw_scratch_reset(copy);
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
    survey v = {.store = s, .places = places, .n = n, .frame = frame, .plans = s ? cw_plan_set_of(plans) : NULL};
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
    cw_parallel((n + LOOKED_AT - 1) / LOOKED_AT, threads, look_at, &v);
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

/* ---- all rows of a shard --------------------------------------------------------------------------------------------------------- */

/* rows_unpack(fd, size, rows_offset, count, row_size, frames, table) -> (rows, good), or the system's error number: the rows as they are in memory, back to
 * back, and a byte for each, 1 if its checksum and its offsets are right */
PyObject *cw_py_rows_unpack(PyObject *self, PyObject *args)
{
    (void)self;
    int fd;
    unsigned long long size, rows_offset, count;
    unsigned row_size, frames;
    const char *table;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "iKKKIIy#", &fd, &size, &rows_offset, &count, &row_size, &frames, &table, &n)) return NULL;
    cw_shard shard = {.size = size, .rows = rows_offset, .count = count};
    int fits = frames < 1u << 20 && row_size < 1u << 30 && row_size >= 12 * frames + 12 && rows_offset >= CW_SHARD_HEADER && rows_offset <= size;
    if (!fits || cw_shard_layout(&shard, (const u8 *)table, (size_t)n, row_size, frames) || count > (size - rows_offset) / shard.row_size) {
        free(shard.leaf);
        PyErr_SetString(PyExc_ValueError, "rows_unpack: the rows are not inside the shard");
        return NULL;
    }
    PyObject *rows = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * row_size)), *good = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count), *result = NULL;
    cw_scratch *memory = cw_scratch_borrow();
    void *mapped = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (!rows || !good || !memory) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
    } else if (mapped == MAP_FAILED) {
        result = PyLong_FromLong(size ? errno : EINVAL);
    } else {
        u8 *to = (u8 *)PyBytes_AsString(rows), *told = (u8 *)PyBytes_AsString(good);
        int failed = 0;
        shard.base = mapped;
        Py_BEGIN_ALLOW_THREADS
        cw_guard_prepare();
        for (u64 i = 0; i < count && !failed; i++) {
            cw_place at = {&shard, i};
            cw_rows one = {.places = &at, .n = 1, .row_size = row_size, .frames = frames};
            if (!(failed = cw_rows_read(&one, memory))) {
                told[i] = !one.errors->reason;
                if (one.errors->reason == CW_CUT_SHORT) memset(to + i * row_size, 0, row_size);
                else memcpy(to + i * row_size, one.row, row_size);
            }
            cw_scratch_reset(memory);
        }
        Py_END_ALLOW_THREADS
        result = failed ? PyErr_NoMemory() : Py_BuildValue("(OO)", rows, good);
    }
    if (mapped != MAP_FAILED) munmap(mapped, size);
    Py_XDECREF(rows);
    Py_XDECREF(good);
    if (memory) cw_scratch_return(memory);
    free(shard.leaf);
    return result;
}

/* ---- bytes ---------------------------------------------------------------------------------------------------------------------- */

/* store_bytes(handle, indices, begins, sizes) -> as store_read, or a list of bytes: for each sample so many bytes of its shard from there on. They must
 * lie in front of the rows, as frames do. */
PyObject *cw_py_store_bytes(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *result = NULL;
    Py_buffer indices, begins, sizes;
    if (!PyArg_ParseTuple(args, "Oy*y*y*", &capsule, &indices, &begins, &sizes)) return NULL;
    cw_store *s = cw_store_of(capsule);
    u64 n = (u64)indices.len / 8;
    cw_place *places = malloc((n + 1) * sizeof *places);
    if (!s || !places || begins.len != indices.len || sizes.len != indices.len) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "store_bytes: no memory, or not as many places as samples");
        goto done;
    }
    PyObject *missing = cw_find_places(s, &indices, places);
    if (missing) result = Py_BuildValue("(sN)", "attach", missing);
    if (missing || PyErr_Occurred()) goto done;
    cw_guard_prepare();
    result = PyList_New((Py_ssize_t)n);
    for (u64 i = 0; result && i < n; i++) {
        const cw_shard *shard = places[i].shard;
        u64 begin = cw_load64((const u8 *)begins.buf + 8 * i), size = cw_load64((const u8 *)sizes.buf + 8 * i);
        cw_err e = {0};
        PyObject *one = NULL;
        if (begin < CW_SHARD_HEADER || begin > shard->rows || size > shard->rows - begin) cw_fail(&e, CW_ROW_OFFSETS, "offset of a frame", begin, CW_SHARD_HEADER, 0);
        else if (!(one = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size))) Py_CLEAR(result);
        else if (cw_guarded_copy(PyBytes_AsString(one), shard->base + begin, size, NULL, 0)) cw_fail(&e, CW_CUT_SHORT, "frame", 0, size, begin);
        if (e.reason) {
            Py_XDECREF(one);
            Py_CLEAR(result);
            PyObject *error = cw_error_tuple((Py_ssize_t)i, &e);
            result = error ? Py_BuildValue("(s[(iN)])", "faults", 0, error) : NULL;
            break;
        }
        if (result && PyList_SetItem(result, (Py_ssize_t)i, one)) Py_CLEAR(result);
    }
done:
    free(places);
    PyBuffer_Release(&indices);
    PyBuffer_Release(&begins);
    PyBuffer_Release(&sizes);
    return result;
}
