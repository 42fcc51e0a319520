/* Handles of parsed plans, for the files that decode and encode with them. */
#ifndef CW_MODULE_PLANS_H
#define CW_MODULE_PLANS_H

#include "module.h"
#include "store.h"

typedef struct { cw_menu *menu; Py_ssize_t n; PyObject *kept; } cw_plan_set; /* kept: a list of the bytes that menus point into */
typedef struct { cw_encoder encoder; cw_plan *plan; PyObject *kept; } encoder_memory;

CW_API const cw_plan_set *cw_plan_set_of(PyObject *capsule); /* NULL with an exception: not such a handle */
CW_API const cw_encoder *cw_encoder_of(PyObject *capsule);
CW_API const cw_menu *cw_menu_of(const cw_plan_set *set, u64 name); /* NULL: it is not there */

/* What a frame leaf of a place may need. */
static inline cw_menus cw_menus_for(const cw_plan_set *set, const cw_place *at, u32 leaf)
{
    return (cw_menus){set->menu, (size_t)set->n, at->shard->leaf ? cw_menu_of(set, at->shard->leaf[leaf].plan) : NULL};
}

#endif
