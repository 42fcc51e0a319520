/* What the files of the Python binding share. An error tuple is (item, reason, field, found, expected, offset, block). */
#ifndef CW_MODULE_H
#define CW_MODULE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include "cw.h"

CW_API PyObject *cw_error_tuple(Py_ssize_t item, const cw_err *e);
/* The shape of `size` bytes of a dtype. -1 with an exception set. */
CW_API int cw_shape_read(PyObject *shape, u8 dtype, u64 *dims, unsigned *rank, Py_ssize_t size);
/* A normalisation as cordwood.codecs.Normalize tells it; `memory` receives what must be freed. */
CW_API int cw_normalize_read(PyObject *given, cw_normalize *to, void **memory);

CW_API PyObject *cw_py_decode_batch(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_parse(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_plan_set(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_encoder(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_encode(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_encode_batch(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_crc32c_rows(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_learn_tables(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_train_dictionary(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_distinct(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_new(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_attach(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_attach_memory(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_sample_numbers(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_holds_bytes(PyObject *self, PyObject *list);
CW_API PyObject *cw_py_store_advise(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_read(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_shapes(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_rows_unpack(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_frame_tags(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_bytes(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_resize(PyObject *self, PyObject *args);

#endif
