/* What the files of the Python binding share. An error tuple is (item, reason, field, found, expected, offset, block). */
#ifndef CW_MODULE_H
#define CW_MODULE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include "cw.h"

typedef struct { cw_plan *plan; Py_buffer *view; Py_ssize_t n; } cw_plan_list;

CW_API PyObject *cw_error_tuple(Py_ssize_t item, const cw_err *e);
/* plans: a tuple of (hash, assets). 0 on success; *error is an error tuple when the assets are bad. Release in any case. */
CW_API int cw_plans_read(cw_plan_list *p, PyObject *plans, PyObject **error);
CW_API void cw_plans_release(cw_plan_list *p);
/* The two parts of a recipe: its numbers in order, and the shape of `size` bytes of that dtype. -1 with an exception set. */
CW_API int cw_settings_read(PyObject *settings, cw_recipe *r);
CW_API int cw_shape_read(PyObject *shape, cw_recipe *r, u64 *dims, Py_ssize_t size);
/* A normalisation as cordwood.codecs.Normalize tells it; `memory` receives what must be freed. */
CW_API int cw_normalize_read(PyObject *given, cw_normalize *to, void **memory);

CW_API PyObject *cw_py_decode_batch(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_parse(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_encode(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_encode_batch(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_crc32c_rows(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_learn_tables(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_train_dictionary(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_distinct(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_new(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_attach(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_attach_memory(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_advise(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_read(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_shapes(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_rows_unpack(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_frame_tags(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_store_bytes(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_resize(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_plan_set(PyObject *self, PyObject *args);

#endif
