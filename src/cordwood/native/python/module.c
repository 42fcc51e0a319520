/* The door to Python: arguments in, the GIL released, errors out as tuples that cordwood.codecs turns into exceptions.
 * Nothing here decides anything about formats. */
#include "module.h"
#include "store.h"

#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Cordwood's files are little-endian, and so must be the machine: big-endian hosts are not supported."
#endif

PyObject *cw_error_tuple(Py_ssize_t item, const cw_err *e)
{
    if (e->reason == CW_NOMEM) return PyErr_NoMemory();
    return Py_BuildValue("(nisKKKL)", item, e->reason, e->field ? e->field : "", (unsigned long long)e->found,
                         (unsigned long long)e->expected, (unsigned long long)e->offset, (long long)e->block);
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

static PyObject *crc32(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer view;
    unsigned int before = 0;
    if (!PyArg_ParseTuple(args, "y*|I", &view, &before)) return NULL;
    u32 crc;
    Py_BEGIN_ALLOW_THREADS
    crc = cw_crc32(before, view.buf, (size_t)view.len);
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
        result = cw_error_tuple(0, &e);
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
    {"decode_batch", cw_py_decode_batch, METH_VARARGS, "decode_batch(frames, outs, accepted, plans, own, normalize, threads, limit) -> None | error tuple"},
    {"parse", cw_py_parse, METH_VARARGS, "parse(frame, plans, name) -> dict of header fields | error tuple"},
    {"encoder", cw_py_encoder, METH_VARARGS, "encoder(shape, alternatives, menu) -> handle | error tuple"},
    {"encode", cw_py_encode, METH_VARARGS, "encode(data, shape, encoder, threads) -> bytes | error tuple"},
    {"encode_batch", cw_py_encode_batch, METH_VARARGS, "encode_batch(items, threads) -> list of bytes | error tuple"},
    {"learn_tables", cw_py_learn_tables, METH_VARARGS, "learn_tables(samples, coder, max_tables) -> bytes | error tuple"},
    {"train_dictionary", cw_py_train_dictionary, METH_VARARGS, "train_dictionary(samples, sizes, room) -> bytes"},
    {"distinct", cw_py_distinct, METH_VARARGS, "distinct(data, itemsize, palettes, inner, bits) -> tuple of bytes | None"},
    {"store_new", cw_py_store_new, METH_VARARGS, "store_new(firsts, row_size, frames, usual_states) -> handle"},
    {"store_attach", cw_py_store_attach, METH_VARARGS, "store_attach(handle, number, fd, size, rows_offset, table, sparse) -> errno"},
    {"store_attach_memory", cw_py_store_attach_memory, METH_VARARGS, "store_attach_memory(handle, number, shard, rows_offset, table)"},
    {"sample_numbers", cw_py_sample_numbers, METH_VARARGS, "sample_numbers(list, count, out) -> bool"},
    {"holds_bytes", cw_py_holds_bytes, METH_O, "holds_bytes(list) -> bool"},
    {"store_advise", cw_py_store_advise, METH_VARARGS, "store_advise(handle, indices, wanted) -> bytes | (what, list)"},
    {"store_read", cw_py_store_read, METH_VARARGS, "store_read(handle, indices, rows, columns, wanted, plans, threads, limit, bytes) -> None | (what, list)"},
    {"store_shapes", cw_py_store_shapes, METH_VARARGS, "store_shapes(handle, indices, frame, plans, threads) -> list | (what, list)"},
    {"rows_unpack", cw_py_rows_unpack, METH_VARARGS, "rows_unpack(fd, size, rows_offset, count, row_size, frames, table) -> (rows, good) | errno"},
    {"frame_tags", cw_py_frame_tags, METH_VARARGS, "frame_tags(frames) -> (a u32 a frame, a byte a frame: is it a short one?)"},
    {"store_bytes", cw_py_store_bytes, METH_VARARGS, "store_bytes(handle, indices, begins, sizes) -> list | (what, list)"},
    {"plan_set", cw_py_plan_set, METH_VARARGS, "plan_set(plans) -> handle | error tuple"},
    {"resize", cw_py_resize, METH_VARARGS, "resize(images, boxes, out, interleaved, fill, threads) -> None"},
    {"crc32c", crc32c, METH_VARARGS, "crc32c(buffer) -> int"},
    {"crc32c_rows", cw_py_crc32c_rows, METH_VARARGS, "crc32c_rows(data, row_size, covered, first) -> bytes: a u32 a row"},
    {"crc32", crc32, METH_VARARGS, "crc32(buffer, crc=0) -> int: as zlib.crc32"},
    {"check_plan", check_plan, METH_VARARGS, "check_plan(assets) -> None | error tuple"},
    {"fast_cpu", fast_cpu, METH_NOARGS, "fast_cpu() -> bool: are the AVX2/BMI2/FMA paths in use?"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "Frames, filters, entropy coding, checksums.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    cw_threads_init();
    cw_guard_init();
    cw_crc32c_init();
    cw_crc32_init();
    cw_log2_init();
    return PyModule_Create(&definition);
}
