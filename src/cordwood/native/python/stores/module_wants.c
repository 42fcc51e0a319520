/* Reading what the caller of store_read wants; every number is checked here, before the GIL is released. */
#include "module_wants.h"

#include <stdlib.h>

/* ---- where a sample goes ---------------------------------------------------------------------------------------------------- */

u8 *cw_want_out(const cw_want *w, u64 sample, const Py_buffer **view)
{
    u64 one = !w->per ? sample : sample < w->per ? 0 : sample / w->per;
    *view = &w->outs[one];
    return (u8 *)(*view)->buf + (sample - one * CW_MAX(w->per, (u64)1)) * w->each[one];
}

int cw_want_fits(const cw_want *w, const Py_buffer *view, const cw_frame *f)
{
    u64 treated[3];
    const u64 *dims = f->dims;
    u64 item = f->itemsize, elements = f->elements;
    int skip = w->per > 0; /* the first dimension is the batch's */
    if (w->treated) {
        if (!(item = cw_treat_shape(&w->treat, f, treated))) return 0;
        dims = treated;
        if (w->treat.boxed && (__builtin_mul_overflow(dims[0], dims[1], &elements) || __builtin_mul_overflow(elements, dims[2], &elements))) return 0;
    }
    if (view->ndim - skip != f->rank) return 0;
    for (int i = 0; i < f->rank; i++)
        if ((u64)view->shape[i + skip] != dims[i]) return 0;
    return (u64)view->len == elements * item * (skip ? (u64)view->shape[0] : 1);
}

int cw_want_takes(const cw_want *w, u64 sample, const cw_frame *f)
{
    if (w->list) return f->rank == 1;
    if (f->rank != w->rank || f->nbytes > CW_SMALL_ARRAY) return 0;
    memcpy(w->dims + sample * w->rank, f->dims, w->rank * sizeof *f->dims);
    return 1;
}

const cw_box *cw_want_box(const cw_want *w, u64 sample) { return w->boxes ? w->boxes + sample : NULL; }

/* A text, or the bytes where they are none: what to say of those is for the caller. */
static PyObject *text_of(const char *bytes, Py_ssize_t size)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes, size, "surrogatepass");
    if (text || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return text;
    PyErr_Clear();
    return PyBytes_FromStringAndSize(bytes, size);
}

/* Array after array into the memory that the caller makes for them. */
static int fill_arrays(const cw_want *w, u64 samples)
{
    PyObject *dims = PyBytes_FromStringAndSize((const char *)w->dims, (Py_ssize_t)(samples * w->rank * sizeof *w->dims));
    PyObject *made = dims ? PyObject_CallFunctionObjArgs(w->make, dims, NULL) : NULL;
    Py_buffer view = {0};
    Py_ssize_t next = 0, at = 0;
    int good = made && PyTuple_Check(made);
    for (u64 i = 0; good && i < samples; i++) {
        Py_ssize_t size = (Py_ssize_t)w->sizes[i];
        while (good && w->bytes[i] && size > view.len - at) {
            if (view.obj) PyBuffer_Release(&view);
            view = (Py_buffer){0};
            good = next < PyTuple_Size(made) && !PyObject_GetBuffer(PyTuple_GetItem(made, next++), &view, PyBUF_WRITABLE);
            at = 0;
        }
        if (!good || !w->bytes[i] || !size) continue;
        memcpy((u8 *)view.buf + at, w->bytes[i], (size_t)size);
        at += size;
    }
    if (view.obj) PyBuffer_Release(&view);
    if (!good && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "store_read: memory that the arrays do not fit in");
    Py_XDECREF(made);
    Py_XDECREF(dims);
    return good ? 0 : -1;
}

int cw_want_fill(const cw_want *w, u64 samples)
{
    if (w->make) return fill_arrays(w, samples);
    for (u64 i = 0; i < samples; i++) {
        const char *bytes = (const char *)w->bytes[i];
        Py_ssize_t size = (Py_ssize_t)w->sizes[i];
        PyObject *one = !bytes ? (Py_INCREF(Py_None), Py_None) : w->texts ? text_of(bytes, size) : PyBytes_FromStringAndSize(bytes, size);
        int failed = !one || PyList_Append(w->list, one);
        Py_XDECREF(one);
        if (failed) return -1;
    }
    return 0;
}

/* ---- for Python --------------------------------------------------------------------------------------------------------------- */

void cw_wants_release(cw_want *wants, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; wants && k < n; k++) {
        cw_want *w = &wants[k];
        for (Py_ssize_t i = 0; i < w->held; i++)
            if (w->outs[i].obj) PyBuffer_Release(&w->outs[i]);
        free(w->outs);
        free(w->each);
        free(w->dims);
        free(w->bytes);
        free(w->sizes);
        free(w->boxes);
        free(w->tables);
        free(w->treat.terms);
    }
    free(wants);
}

static int boxes_read(cw_want *w, PyObject *given, float fill, Py_ssize_t samples)
{
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, PyBUF_C_CONTIGUOUS)) return -1;
    int good = view.len == samples * 5 * 8;
    w->boxes = calloc((size_t)samples + 1, sizeof *w->boxes);
    for (Py_ssize_t i = 0; good && w->boxes && i < samples; i++) {
        i64 five[5];
        memcpy(five, (const u8 *)view.buf + i * (Py_ssize_t)sizeof five, sizeof five);
        good = !cw_box_read(&w->boxes[i], five, fill);
    }
    PyBuffer_Release(&view);
    if (!w->boxes) PyErr_NoMemory();
    else if (!good) PyErr_SetString(PyExc_ValueError, "store_read: parts of images that cannot be");
    return good && w->boxes ? 0 : -1;
}

static int treat_read(cw_want *w, PyObject *given, Py_ssize_t samples)
{
    PyObject *normalize, *boxes;
    int source_last, out_last;
    float fill;
    cw_treat *t = &w->treat;
    if (given == Py_None) return 0;
    if (!PyArg_ParseTuple(given, "OppOKKKKf", &normalize, &source_last, &out_last, &boxes, &t->out_h, &t->out_w, &t->source_h, &t->source_w, &fill)) return -1;
    w->treated = 1;
    t->source_last = (u8)source_last;
    t->out_last = (u8)out_last;
    t->normalized = normalize != Py_None;
    t->boxed = boxes != Py_None;
    if (source_last > out_last || (t->boxed && (!t->out_h || !t->out_w || t->out_h >> 20 || t->out_w >> 20))) {
        PyErr_SetString(PyExc_ValueError, "store_read: an image that cannot be made so");
        return -1;
    }
    if (t->normalized && cw_normalize_read(normalize, &t->normalize, &w->tables)) return -1;
    if (t->boxed && boxes_read(w, boxes, fill, samples)) return -1;
    if (!cw_treat_prepare(t)) return 0;
    PyErr_NoMemory();
    return -1;
}

/* Bytes of any length, or arrays of any shape. */
static int sizes_read(cw_want *w, Py_ssize_t samples)
{
    w->bytes = calloc((size_t)samples + 1, sizeof *w->bytes);
    w->sizes = calloc((size_t)samples + 1, sizeof *w->sizes);
    w->dims = w->make ? malloc(((size_t)samples * w->rank + 1) * sizeof *w->dims) : NULL;
    if (w->dims) memset(w->dims, 255, (size_t)samples * w->rank * sizeof *w->dims);
    if (w->bytes && w->sizes && (w->dims || !w->make)) return 0;
    PyErr_NoMemory();
    return -1;
}

static int make_read(cw_want *w, PyObject *make, PyObject *rank, Py_ssize_t samples)
{
    unsigned long dimensions = PyLong_AsUnsignedLong(rank);
    if (PyErr_Occurred()) return -1;
    if (dimensions > CW_MAX_RANK) {
        PyErr_SetString(PyExc_ValueError, "store_read: arrays of more dimensions than a frame may have");
        return -1;
    }
    w->make = make;
    w->rank = (u32)dimensions;
    return sizes_read(w, samples);
}

static int arrays_read(cw_want *w, PyObject *arrays, u64 samples)
{
    u64 count = w->per ? (samples + w->per - 1) / w->per : samples;
    if (!PyTuple_Check(arrays) || (u64)PyTuple_Size(arrays) != count) {
        PyErr_SetString(PyExc_ValueError, "store_read: another number of arrays than the samples need");
        return -1;
    }
    w->outs = calloc(count + 1, sizeof *w->outs);
    w->each = calloc(count + 1, sizeof *w->each);
    if (!w->outs || !w->each) {
        PyErr_NoMemory();
        return -1;
    }
    for (u64 i = 0; i < count; i++) {
        PyObject *one = PyTuple_GetItem(arrays, (Py_ssize_t)i);
        Py_buffer *view = &w->outs[i];
        w->held = (Py_ssize_t)i + 1;
        if (!w->per && one == Py_None) continue;
        if (PyObject_GetBuffer(one, view, PyBUF_WRITABLE | PyBUF_ND)) {
            view->obj = NULL;
            return -1;
        }
        if (w->per && (view->ndim < 1 || (u64)view->shape[0] != CW_MIN(w->per, samples - i * w->per))) {
            PyErr_SetString(PyExc_ValueError, "store_read: an array's first dimension is not the number of its samples");
            return -1;
        }
        w->each[i] = w->per ? (u64)view->len / (u64)view->shape[0] : 0;
    }
    return 0;
}

int cw_want_read(cw_want *w, PyObject *given, const cw_store *s, Py_ssize_t samples)
{
    PyObject *out, *treat;
    unsigned long long per;
    if (!PyArg_ParseTuple(given, "IIKOO", &w->frame, &w->accepted, &per, &out, &treat)) return -1;
    w->per = CW_MIN(per, (u64)CW_MAX(samples, 1));
    if (w->frame >= s->frames) {
        PyErr_SetString(PyExc_ValueError, "store_read: a frame that is not there");
        return -1;
    }
    if (PyList_Check(out)) {
        w->list = out;
        w->texts = treat == Py_True;
        return sizes_read(w, samples);
    }
    if (PyCallable_Check(out)) return make_read(w, out, treat, samples);
    return arrays_read(w, out, (u64)samples) || treat_read(w, treat, samples) ? -1 : 0;
}
