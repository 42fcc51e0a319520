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

CW_API PyObject *cw_py_decode_batch(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_parse(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_encode(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_learn_tables(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_train_dictionary(PyObject *self, PyObject *args);
CW_API PyObject *cw_py_distinct(PyObject *self, PyObject *args);

#endif
