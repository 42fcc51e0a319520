/* What the two files that read stores for Python share: the handle of attached shards, and faults. */
#ifndef CW_MODULE_STORE_H
#define CW_MODULE_STORE_H

#include "module_plans.h"
#include "store.h"

typedef struct {
    u64 shards;
    u64 *first;         /* [shards + 1]: number of the first sample */
    cw_shard *shard;    /* [shards] */
    u32 row_size, frames, states; /* bytes of a row; frame leaves; bytes of states, in front of the row's checksum */
    u8 *usual;          /* [states]: those of a sample in which nothing is absent */
} cw_store;

typedef struct { int wanted; cw_err e; } cw_fault; /* which of the wanted arrays; -1 for the row itself */

CW_API cw_store *cw_store_of(PyObject *capsule);         /* NULL with an exception: not such a handle */
/* Finds every sample; a list of the shards that are not attached yet, or NULL with or without an exception. */
CW_API PyObject *cw_find_places(const cw_store *s, const Py_buffer *indices, cw_place *places);
/* ("faults", [(which wanted, error tuple)]) */
CW_API PyObject *cw_faults_answer(const cw_fault *faults, u64 n);

#endif
