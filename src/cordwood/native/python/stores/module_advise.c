/* Telling the system which samples will be read soon, so that a disk brings them while others are decoded. */
#include "module_store.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    const cw_store *store;
    cw_place *places;   /* [n] */
    const u8 *frames;   /* a byte for each frame leaf: is it wanted? */
    u64 n, page, bytes;
} advice;

static void advise(advice *a, const cw_shard *shard, u64 start, u64 end)
{
    if (end <= start || shard->owner) return;
    u64 from = start / a->page * a->page;
    if (!madvise((void *)(uintptr_t)(shard->base + from), end - from, MADV_WILLNEED)) a->bytes += end - from;
}

/* Frames that follow each other are asked for together. */
static void advise_sample(advice *a, u64 i, cw_scratch *s)
{
    cw_rows one = {.places = &a->places[i], .n = 1, .row_size = a->store->row_size, .frames = a->store->frames};
    u64 start = 0, end = 0;
    if (cw_rows_read(&one, s) || one.errors->reason) return; /* whoever reads it tells what is wrong */
    for (u32 k = 0; k < a->store->frames; k++) {
        if (!a->frames[k]) continue;
        u64 first = cw_row_offset(one.row, k);
        if (first != end) {
            advise(a, one.places->shard, start, end);
            start = first;
        }
        end = cw_row_offset(one.row, k + 1);
    }
    advise(a, one.places->shard, start, end);
}

/* store_advise(handle, indices, wanted) -> the number of bytes asked for, or ("attach", shard numbers); wanted: a byte for each frame leaf */
PyObject *cw_py_store_advise(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule, *result = NULL;
    Py_buffer indices;
    const char *wanted;
    Py_ssize_t n_wanted;
    if (!PyArg_ParseTuple(args, "Oy*y#", &capsule, &indices, &wanted, &n_wanted)) return NULL;
    cw_store *s = cw_store_of(capsule);
    advice a = {.store = s, .frames = (const u8 *)wanted, .n = (u64)indices.len / 8, .page = (u64)sysconf(_SC_PAGESIZE)};
    a.places = malloc((a.n + 1) * sizeof *a.places);
    cw_scratch *memory = cw_scratch_borrow();
    if (s && (!a.places || !memory)) PyErr_NoMemory();
    else if (s && (u32)n_wanted != s->frames) PyErr_SetString(PyExc_ValueError, "store_advise: a byte is needed for every frame leaf");
    if (PyErr_Occurred()) goto done;
    PyObject *missing = cw_find_places(s, &indices, a.places);
    if (missing) result = Py_BuildValue("(sN)", "attach", missing);
    if (missing || PyErr_Occurred()) goto done;
    Py_BEGIN_ALLOW_THREADS
    cw_guard_prepare();
    /* all rows first: they are needed to know where the rest is, and a page that is asked for so comes without its neighbours */
    for (u64 i = 0; i < a.n; i++) {
        const cw_shard *shard = a.places[i].shard;
        u64 start = shard->rows + a.places[i].row * shard->row_size;
        advise(&a, shard, start, start + shard->row_size);
    }
    for (u64 i = 0; i < a.n; i++) {
        advise_sample(&a, i, memory);
        cw_scratch_reset(memory);
    }
    Py_END_ALLOW_THREADS
    result = PyLong_FromUnsignedLongLong(a.bytes);
done:
    free(a.places);
    if (memory) cw_scratch_return(memory);
    PyBuffer_Release(&indices);
    return result;
}
