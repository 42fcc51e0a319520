/* Plans for Python, parsed once: menus to decode with, and encoders. */
#include "module_plans.h"
#include "packers.h"

#include <stdlib.h>

static const char PLANS[] = "cordwood.plans", ENCODER[] = "cordwood.encoder";

const cw_plan_set *cw_plan_set_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, PLANS); }
const cw_encoder *cw_encoder_of(PyObject *capsule)
{
    encoder_memory *m = PyCapsule_GetPointer(capsule, ENCODER);
    return m ? &m->encoder : NULL;
}

const cw_menu *cw_menu_of(const cw_plan_set *set, u64 name)
{
    for (Py_ssize_t i = 0; name && i < set->n; i++)
        if (set->menu[i].name == name) return &set->menu[i];
    return NULL;
}

/* A tuple of dimensions, -1 for one that varies. */
static int dims_read(PyObject *shape, u64 *dims, u8 *rank)
{
    Py_ssize_t n = PyTuple_Size(shape);
    if (n < 0) return -1;
    if (n > CW_MAX_RANK) {
        PyErr_SetString(PyExc_ValueError, "a shape of more dimensions than a frame may have");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        long long dim = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (PyErr_Occurred()) return -1;
        dims[i] = dim < 0 ? CW_VARIES : (u64)dim;
    }
    *rank = (u8)n;
    return 0;
}

/* Bytes that stay where they are as long as `kept` has them. */
static const u8 *bytes_kept(PyObject *kept, PyObject *bytes, size_t *n)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) || PyList_Append(kept, bytes)) return NULL;
    *n = (size_t)size;
    return (const u8 *)data;
}

static int plan_read(cw_plan *plan, u64 hash, PyObject *assets, PyObject *kept, cw_err *e)
{
    size_t n;
    const u8 *data = bytes_kept(kept, assets, &n);
    if (!data) return -1;
    return n && cw_plan_parse(plan, hash, data, n, e) ? -1 : 0;
}

/* ---- plan sets ------------------------------------------------------------------------------------------------------------ */

static void plan_set_free(cw_plan_set *set)
{
    for (Py_ssize_t i = 0; i < set->n; i++) cw_menu_free(&set->menu[i]);
    free(set->menu);
    Py_XDECREF(set->kept);
    free(set);
}

static void plan_set_capsule_free(PyObject *capsule) { plan_set_free(PyCapsule_GetPointer(capsule, PLANS)); }

/* given: (name, dtype, shape or None, ((hash, assets, template or None), ...)) */
static int menu_read(cw_menu *m, PyObject *given, PyObject *kept, cw_err *e)
{
    PyObject *shape, *chains;
    unsigned long long name;
    if (!PyArg_ParseTuple(given, "KbOO!", &name, &m->dtype, &shape, &PyTuple_Type, &chains)) return -1;
    m->name = name;
    Py_ssize_t n = PyTuple_Size(chains);
    if (!cw_dtype_of(m->dtype) || n < 1 || n > CW_MOST_CHAINS) {
        PyErr_SetString(PyExc_ValueError, "plan_set: a plan that cannot be");
        return -1;
    }
    if (shape != Py_None && dims_read(shape, m->dims, &m->rank)) return -1;
    m->chain = calloc((size_t)n, sizeof *m->chain);
    if (!m->chain) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *assets, *template;
        unsigned long long hash;
        cw_chain *c = &m->chain[i];
        m->n = (u32)i + 1;
        if (!PyArg_ParseTuple(PyTuple_GetItem(chains, i), "KOO", &hash, &assets, &template) || plan_read(&c->plan, hash, assets, kept, e)) return -1;
        if (template == Py_None || shape == Py_None) continue;
        size_t size;
        const u8 *data = bytes_kept(kept, template, &size);
        if (!data || cw_template_parse(c, m, data, size, e)) return -1;
    }
    return 0;
}

/* plan_set(menus) -> handle of parsed plans, or an error tuple with the menu that it is about */
PyObject *cw_py_plan_set(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *given, *result = NULL;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &given)) return NULL;
    Py_ssize_t n = PyTuple_Size(given);
    cw_plan_set *set = calloc(1, sizeof *set);
    if (!set) return PyErr_NoMemory();
    set->menu = calloc((size_t)n + 1, sizeof *set->menu);
    set->kept = PyList_New(0);
    if (!set->menu || !set->kept) {
        PyErr_NoMemory();
        plan_set_free(set);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        cw_err e = {0};
        set->n = i + 1;
        if (!menu_read(&set->menu[i], PyTuple_GetItem(given, i), set->kept, &e)) continue;
        if (e.reason) result = cw_error_tuple(i, &e);
        plan_set_free(set);
        return result;
    }
    result = PyCapsule_New(set, PLANS, plan_set_capsule_free);
    if (!result) plan_set_free(set);
    return result;
}

/* ---- encoders --------------------------------------------------------------------------------------------------------------- */

static void encoder_free(encoder_memory *m)
{
    for (u32 i = 0; i < m->encoder.n; i++) {
        cw_plan_free(&m->plan[i]);
        cw_pack_words_free((cw_pack_words *)(uintptr_t)m->encoder.alternative[i].recipe.pack_words);
    }
    free(m->encoder.alternative);
    free(m->plan);
    Py_XDECREF(m->kept);
    free(m);
}

static void encoder_capsule_free(PyObject *capsule) { encoder_free(PyCapsule_GetPointer(capsule, ENCODER)); }

/* The encoder's numbers for one alternative. */
static int settings_read(PyObject *settings, cw_recipe *r)
{
    unsigned long long lag, block;
    int max_tables;
    if (!PyArg_ParseTuple(settings, "bbbbbbbbbbKbbbbbbiibK", &r->dtype, &r->value, &r->pack_bits, &r->align_top, &r->palette_bits, &r->palette_axis,
                          &r->palette_source, &r->predict, &r->geometry, &r->color, &lag, &r->planes, &r->coder, &r->mode, &r->entropy, &r->tile_h,
                          &r->tile_w, &max_tables, &r->level, &r->saving, &block))
        return -1;
    r->lag = lag;
    r->block = block;
    r->max_tables = (u32)max_tables;
    if (cw_dtype_of(r->dtype)) return 0;
    PyErr_SetString(PyExc_ValueError, "unknown dtype number");
    return -1;
}

/* given: (settings, formula, hash, assets, has_short, per_sample, per_byte) */
static int alternative_read(encoder_memory *m, u32 i, PyObject *given, cw_err *e)
{
    cw_alternative *a = &m->encoder.alternative[i];
    cw_recipe *r = &a->recipe;
    PyObject *settings, *formula, *assets;
    unsigned long long hash, per_sample, per_byte;
    int has_short;
    if (!PyArg_ParseTuple(given, "O!OKOpKK", &PyTuple_Type, &settings, &formula, &hash, &assets, &has_short, &per_sample, &per_byte)) return -1;
    if (settings_read(settings, r) || !(r->formula = bytes_kept(m->kept, formula, &r->formula_size)) || plan_read(&m->plan[i], hash, assets, m->kept, e))
        return -1;
    if (i && r->dtype != m->encoder.alternative[0].recipe.dtype) {
        PyErr_SetString(PyExc_ValueError, "encoder: alternatives for several dtypes");
        return -1;
    }
    if (m->plan[i].is_there) r->plan = &m->plan[i];
    if (m->plan[i].dictionary_size) r->pack_words = cw_pack_words_new(m->plan[i].dictionary, m->plan[i].dictionary_size, r->level);
    a->has_short = has_short && (!m->plan[i].dictionary_size || r->pack_words);
    a->per_sample = per_sample;
    a->per_byte = per_byte;
    m->encoder.narrows |= r->value == CW_VALUE_NARROW;
    return 0;
}

/* encoder(shape or None, alternatives, menu) -> handle, or an error tuple; the first `menu` alternatives are chosen from, the others are last resorts */
PyObject *cw_py_encoder(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *shape, *given, *result = NULL;
    unsigned menu;
    cw_err e = {0};
    if (!PyArg_ParseTuple(args, "OO!I", &shape, &PyTuple_Type, &given, &menu)) return NULL;
    Py_ssize_t n = PyTuple_Size(given);
    if (menu < 1 || menu > n || menu > CW_MOST_CHAINS) {
        PyErr_SetString(PyExc_ValueError, "encoder: it needs alternatives");
        return NULL;
    }
    encoder_memory *m = calloc(1, sizeof *m);
    if (!m) return PyErr_NoMemory();
    m->encoder.menu = menu;
    m->encoder.alternative = calloc((size_t)n, sizeof *m->encoder.alternative);
    m->plan = calloc((size_t)n, sizeof *m->plan);
    m->kept = PyList_New(0);
    int good = m->encoder.alternative && m->plan && m->kept;
    if (!good) PyErr_NoMemory();
    m->encoder.has_shape = shape != Py_None;
    good = good && (shape == Py_None || !dims_read(shape, m->encoder.dims, &m->encoder.rank));
    for (Py_ssize_t i = 0; good && i < n; i++) {
        m->encoder.n = (u32)i + 1;
        good = !alternative_read(m, (u32)i, PyTuple_GetItem(given, i), &e);
    }
    if (good) result = PyCapsule_New(m, ENCODER, encoder_capsule_free);
    else if (e.reason) result = cw_error_tuple(0, &e);
    if (!good || !result) encoder_free(m);
    return result;
}
