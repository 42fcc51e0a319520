/* The header of a frame and the assets of a plan: bytes from outside, read with every check of docs/format/frame.md. */
#include "cw.h"
#include "entropy.h"
#include "packers.h"

#include <stdlib.h>

#define MOST_TABLE_BYTES ((u64)1 << 28) /* of a palette that a plan keeps ready: the largest with values of 8 bytes takes half of it */

#define MOST_BYTES ((u64)1 << 56) /* of an array, which has fewer */

#define U8(v, reason, field) if ((rc = cw_read_u8(r, &(v), reason, field, e))) return rc
#define VARINT(v, reason, field) if ((rc = cw_read_varint(r, &(v), reason, field, e))) return rc
#define TAKE(n, v, reason, field) if ((rc = cw_take(r, n, &(v), reason, field, e))) return rc
#define REJECT(reason, field, found, expected) return cw_fail(e, reason, field, found, expected, cw_at(r))

/* The dimensions that vary, and what follows from all of them. */
static int read_dims(cw_frame *f, cw_reader *r, cw_err *e)
{
    int rc;
    const cw_dtype *d = cw_dtype_of(f->dtype);
    u64 bound = 1, room = MOST_BYTES >> __builtin_ctz((unsigned)d->itemsize * d->components); /* which is a power of two */
    f->itemsize = d->itemsize;
    f->elements = d->components;
    for (unsigned i = 0; i < f->rank; i++) {
        if (f->dims[i] == CW_VARIES) VARINT(f->dims[i], CW_TRUNCATED, "dimension");
        if (f->dims[i] >> 48) REJECT(CW_SHAPE, "dimension", f->dims[i], (u64)1 << 48);
        u64 dim = CW_MAX(f->dims[i], 1);
        u64 before = bound;
        if (__builtin_mul_overflow(before, dim, &bound) || bound >= room) REJECT(CW_SHAPE, "array size", f->dims[i], (room - 1) / before);
        f->elements *= f->dims[i];
    }
    f->nbytes = f->elements * d->itemsize;
    return CW_OK;
}

static int read_shape(cw_frame *f, cw_reader *r, cw_err *e)
{
    int rc;
    U8(f->dtype, CW_TRUNCATED, "dtype");
    if (!cw_dtype_of(f->dtype)) REJECT(CW_DTYPE, "dtype", f->dtype, CW_DTYPES - 1);
    U8(f->rank, CW_TRUNCATED, "rank");
    if (f->rank > CW_MAX_RANK) REJECT(CW_RANK, "rank", f->rank, CW_MAX_RANK);
    for (unsigned i = 0; i < f->rank; i++) f->dims[i] = CW_VARIES;
    return read_dims(f, r, e);
}

int cw_formula_read(cw_palette *p, cw_reader *r, cw_err *e)
{
    int rc;
    u64 n;
    VARINT(n, CW_TRUNCATED, "palette count");
    if (n == 0 || n > (u64)1 << p->bits) REJECT(CW_PALETTE, "palette count", n, (u64)1 << p->bits);
    if (n * p->palettes > CW_MAX_PALETTE_VALUES) REJECT(CW_PALETTE, "palette values", n * p->palettes, CW_MAX_PALETTE_VALUES);
    p->count = (u32)n;
    U8(p->work, CW_TRUNCATED, "formula work type");
    if (p->work > 1) REJECT(CW_PALETTE, "formula work type", p->work, 1);
    U8(p->n_ops, CW_TRUNCATED, "formula operations");
    if (p->n_ops < 1 || p->n_ops > 4) REJECT(CW_PALETTE, "formula operations", p->n_ops, 4);
    for (unsigned i = 0; i < p->n_ops; i++) {
        cw_op *op = &p->ops[i];
        U8(op->op, CW_TRUNCATED, "formula operation");
        if (op->op > 3) REJECT(CW_PALETTE, "formula operation", op->op, 3);
        U8(op->per_palette, CW_TRUNCATED, "formula scope");
        if (op->per_palette > 1) REJECT(CW_PALETTE, "formula scope", op->per_palette, 1);
        TAKE((op->per_palette ? (u64)p->palettes : 1) * (p->work ? 8 : 4), op->operands, CW_TRUNCATED, "formula operands");
    }
    return CW_OK;
}

static int read_palette(cw_frame *f, cw_reader *r, cw_err *e)
{
    int rc;
    cw_palette *p = &f->palette;
    if (!((f->dtype >= CW_F16 && f->dtype <= CW_C128) || f->dtype == CW_C32))
        REJECT(CW_PALETTE, "dtype with a palette", f->dtype, CW_F32);
    U8(p->bits, CW_TRUNCATED, "palette bits");
    if (p->bits != 8 && p->bits != 16) REJECT(CW_PALETTE, "palette bits", p->bits, 8);
    U8(p->axis, CW_TRUNCATED, "palette axis");
    p->palettes = 1;
    p->inner = 1;
    if (p->axis != 255) {
        if (p->axis >= f->rank || cw_dtype_of(f->dtype)->components != 1)
            REJECT(CW_PALETTE, "palette axis", p->axis, f->rank);
        u64 n = f->dims[p->axis]; /* of a template it may be one that varies, which is too large */
        if (n > 65536) REJECT(CW_PALETTE, "palettes", n, 65536);
        p->palettes = (u32)n;
        p->inner = cw_product(f->dims + p->axis + 1, f->rank - p->axis - 1u);
    }
    u64 most = (u64)1 << p->bits, largest = 0;
    U8(p->source, CW_TRUNCATED, "palette source");
    if (p->source == CW_PALETTE_FRAME && f->is_short) REJECT(CW_PALETTE, "palette source of a short frame", p->source, CW_PALETTE_PLAN);
    if (p->source == CW_PALETTE_FRAME) {
        p->values = r->p;
        for (u32 i = 0; i < p->palettes; i++) {
            u64 n;
            const u8 *unused;
            VARINT(n, CW_TRUNCATED, "palette count");
            if (n == 0 || n > most) REJECT(CW_PALETTE, "palette count", n, most);
            TAKE(n * f->itemsize, unused, CW_TRUNCATED, "palette values");
            largest = CW_MAX(largest, n);
        }
        p->values_end = r->p;
        if (largest * p->palettes > CW_MAX_PALETTE_VALUES) REJECT(CW_PALETTE, "palette values", largest * p->palettes, CW_MAX_PALETTE_VALUES);
    } else if (p->source == CW_PALETTE_FORMULA) {
        if (f->dtype > CW_F64) REJECT(CW_PALETTE, "dtype with a formula", f->dtype, CW_F64);
        if ((rc = cw_formula_read(p, r, e))) return rc;
    } else if (p->source != CW_PALETTE_PLAN) {
        REJECT(CW_PALETTE, "palette source", p->source, CW_PALETTE_PLAN);
    }
    return CW_OK;
}

static int read_value(cw_frame *f, cw_reader *r, cw_err *e)
{
    int rc;
    U8(f->value, CW_TRUNCATED, "value kind");
    f->bits = (u8)(8 * f->itemsize);
    if (f->value == CW_AS_IS) return CW_OK;
    if (f->value == CW_VALUE_NARROW) {
        u64 z;
        if (f->dtype > 8) REJECT(CW_NARROW, "dtype with narrow", f->dtype, 8);
        if (f->is_short) return CW_OK; /* each frame has its own range */
        VARINT(z, CW_TRUNCATED, "narrow minimum");
        f->minimum = (i64)(z >> 1 ^ (0 - (z & 1)));
        U8(f->bits, CW_TRUNCATED, "narrow bits");
        U8(f->shift, CW_TRUNCATED, "narrow shift");
        if (!(f->bits <= 1 || f->bits == 8 || f->bits == 16 || f->bits == 32 || f->bits == 64) || f->bits > 8 * f->itemsize)
            REJECT(CW_NARROW, "narrow bits", f->bits, 8u * f->itemsize);
        if (f->shift && f->shift >= (f->bits < 8 ? 1 : f->bits)) REJECT(CW_NARROW, "narrow shift", f->shift, f->bits);
        return CW_OK;
    }
    if (f->value == CW_VALUE_PALETTE) {
        if ((rc = read_palette(f, r, e))) return rc;
        f->bits = f->palette.bits;
        return CW_OK;
    }
    REJECT(CW_NARROW, "value kind", f->value, CW_VALUE_PALETTE);
}

u64 cw_image_layout(cw_frame *f)
{
    cw_image *g = &f->image;
    const u64 *last = f->dims + f->rank - 1;
    g->height = 1;
    g->width = g->geometry == CW_HWC ? last[-1] : last[0];
    if (g->geometry == CW_HW) {
        g->rows = cw_product(f->dims, f->rank - 1u);
        return 1;
    }
    if (g->geometry == CW_HWC) {
        g->rows = cw_product(f->dims, f->rank - 2u);
        return last[0];
    }
    g->height = last[-1];
    g->rows = cw_product(f->dims, f->rank - 3u) * g->height;
    return last[-2];
}

static int read_predict(cw_frame *f, cw_reader *r, cw_err *e)
{
    int rc;
    U8(f->predict, CW_TRUNCATED, "predict kind");
    if (f->predict > CW_PREDICT_MIXED) REJECT(CW_CHAIN, "predict kind", f->predict, CW_PREDICT_MIXED);
    if (!f->is_short && f->predict && f->bits == 1) REJECT(CW_CHAIN, "predict with one-bit codes", f->predict, 0);
    if (f->predict == CW_PREDICT_DELTA) {
        VARINT(f->lag, CW_TRUNCATED, "delta lag");
        if (f->lag < 1 || f->lag >> 32) REJECT(CW_CHAIN, "delta lag", f->lag, 1);
    }
    if (!cw_in_image(f)) return CW_OK;
    cw_image *g = &f->image;
    if (!f->is_short && ((f->bits != 8 && (f->bits != 16 || f->predict == CW_PREDICT_MIXED)) || cw_dtype_of(f->dtype)->components != 1))
        REJECT(CW_CHAIN, "code bits in images", f->bits, 8);
    U8(g->geometry, CW_TRUNCATED, "geometry");
    if (g->geometry > CW_HWC) REJECT(CW_CHAIN, "geometry", g->geometry, CW_HWC);
    if (!f->is_short && f->rank < (g->geometry == CW_HW ? 2 : 3)) REJECT(CW_CHAIN, "rank with this geometry", f->rank, 3);
    U8(g->color, CW_TRUNCATED, "color");
    if (g->color > CW_COLOR_PREVIOUS) REJECT(CW_CHAIN, "color", g->color, CW_COLOR_PREVIOUS);
    if (f->is_short) return CW_OK; /* the rest is settled for each frame */
    u64 channels = cw_image_layout(f);
    if (channels > 65536) REJECT(CW_CHAIN, "channels", channels, 65536);
    g->channels = (u32)channels;
    if (g->color == CW_COLOR_GREEN && g->channels < 3)
        REJECT(CW_CHAIN, "color", g->color, 0);
    return CW_OK;
}

static int read_rest_of_chain(cw_frame *f, cw_reader *r, cw_err *e)
{
    int rc;
    U8(f->planes, CW_TRUNCATED, "planes kind");
    if (f->planes > CW_ROTATED ||
        (!f->is_short && ((f->planes == CW_ROTATED && (f->value || f->predict)) || (f->planes && f->bits == 1) ||
                          (f->predict == CW_PREDICT_MED && f->bits == 16 && f->planes != CW_APART))))
        REJECT(CW_CHAIN, "planes kind", f->planes, CW_TOGETHER);
    U8(f->coder, CW_TRUNCATED, "coder kind");
    if (f->coder > CW_CODED || (f->coder == CW_STORED && (f->planes || f->predict)))
        REJECT(CW_CHAIN, "coder kind", f->coder, CW_CODED);
    if (f->coder == CW_CODED) {
        U8(f->entropy, CW_TRUNCATED, "entropy coder");
        if (f->entropy > CW_ANS) REJECT(CW_CHAIN, "entropy coder", f->entropy, CW_ANS);
        U8(f->tile_h, CW_TRUNCATED, "tile height");
        U8(f->tile_w, CW_TRUNCATED, "tile width");
        if (f->tile_h > 15 || f->tile_w > 15 || f->tile_h + f->tile_w < 3 || f->tile_h + f->tile_w > 20)
            REJECT(CW_CHAIN, "tile", (u64)f->tile_h << 8 | f->tile_w, 3);
    }
    if (f->is_short) return CW_OK; /* it has one block */
    VARINT(f->block, CW_TRUNCATED, "block");
    if (f->block < 1 || f->block >> 40 || (f->bits == 1 && f->block % 8))
        REJECT(CW_CHAIN, "block", f->block, 8);
    u64 units = cw_frame_units(f);
    f->blocks = units / f->block + (units % f->block != 0);
    return CW_OK;
}

u64 cw_frame_units(const cw_frame *f)
{
    if (f->elements == 0 || f->bits == 0) return 0;
    return cw_in_image(f) ? f->image.rows : f->elements;
}

void cw_frame_settle(cw_frame *f)
{
    cw_image *g = &f->image;
    if (f->elements == 0) f->value = CW_AS_IS;
    if (f->elements == 0 || f->bits <= 1) f->predict = CW_PREDICT_NONE;
    if (f->predict == CW_PREDICT_MIXED && f->bits > 8) f->predict = CW_PREDICT_MED;
    if (cw_in_image(f) &&
        (f->bits < 8 || f->bits > 16 || cw_dtype_of(f->dtype)->components > 1 || f->rank < (g->geometry == CW_HW ? 2 : 3)))
        f->predict = CW_PREDICT_NONE;
    if (cw_in_image(f)) {
        u64 channels = cw_image_layout(f);
        g->channels = (u32)channels;
        if (channels > 65536) f->predict = CW_PREDICT_NONE;
        if (g->color == CW_COLOR_GREEN && channels < 3) g->color = CW_COLOR_NONE;
    }
    if (f->predict == CW_PREDICT_MED && f->bits == 16) f->planes = CW_APART;
    if (f->bits <= 8) f->planes = CW_TOGETHER;
    if (f->planes == CW_ROTATED && (f->value || f->predict)) f->planes = CW_APART;
    if (!cw_in_image(f) && f->coder == CW_CODED && f->tile_h) f->tile_w = 12, f->tile_h = 0; /* lines, not images */
}

int cw_frame_parse(cw_frame *f, const u8 *data, u64 size, cw_err *e)
{
    int rc;
    cw_frame_clear(f);
    f->data = data;
    f->size = size;
    if (size < 4) return cw_fail(e, CW_TRUNCATED, "magic", size, 4, 0);
    if (memcmp(data, "CWFR", 4)) return cw_fail(e, CW_MAGIC, "magic", cw_load32(data), cw_load32("CWFR"), 0);
    if (size < 5) return cw_fail(e, CW_TRUNCATED, "version", size, 6, 4);
    f->major = data[4];
    if (f->major != 1) return cw_fail(e, CW_VERSION, "major version", f->major, 1, 4);
    if (size < 10) return cw_fail(e, CW_TRUNCATED, "header size", size, 10, 6);
    f->minor = data[5];
    f->header_size = cw_load32(data + 6);
    if (f->header_size < 15) return cw_fail(e, CW_HEADER_SIZE, "header size", f->header_size, 15, 6);
    if (f->header_size > size) return cw_fail(e, CW_TRUNCATED, "header", size, f->header_size, 6);
    if (data[10] & 14) return cw_fail(e, CW_FLAGS, "flags", data[10], 1, 10);
    u32 crc = cw_crc32c(data, f->header_size - 4), stored = cw_load32(data + f->header_size - 4);
    if (crc != stored) return cw_fail(e, CW_HEADER_CHECKSUM, "header checksum", crc, stored, f->header_size - 4);

    /* From here on the header is what a writer wrote; a hostile one, maybe. */
    cw_reader reader = {data + 10, data + f->header_size - 4, data}, *r = &reader;
    U8(f->flags, CW_TRUNCATED, "flags");
    f->has_plan = f->flags & 1;
    if ((rc = read_shape(f, r, e))) return rc;
    if (f->has_plan) {
        const u8 *hash;
        TAKE(8, hash, CW_TRUNCATED, "plan hash");
        f->plan_hash = cw_load64(hash);
    }
    if ((rc = read_value(f, r, e)) || (rc = read_predict(f, r, e)) || (rc = read_rest_of_chain(f, r, e))) return rc;

    if (f->blocks > cw_left(r) / 5) REJECT(CW_TRUNCATED, "block table", cw_left(r), f->blocks * 5);
    f->block_table = r->p;
    u64 room = size - f->header_size;
    for (u64 i = 0; i < f->blocks; i++) {
        u64 n;
        const u8 *unused;
        VARINT(n, CW_TRUNCATED, "block size");
        TAKE(4, unused, CW_TRUNCATED, "block checksum");
        if (n > room) return cw_fail(e, CW_FRAME_SIZE, "blocks", size - f->header_size, size - f->header_size - room + n, cw_at(r));
        room -= n;
    }
    u8 pad;
    const u8 *zeros;
    U8(pad, CW_TRUNCATED, "pad");
    if (pad > 63) REJECT(CW_HEADER_SIZE, "pad", pad, 63);
    TAKE(pad, zeros, CW_TRUNCATED, "pad");
    for (unsigned i = 0; i < pad; i++)
        if (zeros[i]) REJECT(CW_HEADER_SIZE, "pad byte", zeros[i], 0);
    if (r->p != r->end) REJECT(CW_HEADER_SIZE, "header's end", cw_at(r) + 4, f->header_size);
    if (room) return cw_fail(e, CW_FRAME_SIZE, "frame's end", size, size - room, size - room);
    return CW_OK;
}

/* ---- short frames ------------------------------------------------------------------------------------------------------- */

int cw_template_parse(cw_chain *c, const cw_menu *m, const u8 *data, size_t n, cw_err *e)
{
    int rc;
    cw_frame *f = &c->frame;
    cw_reader reader = {data, data + n, data}, *r = &reader;
    f->is_short = 1;
    f->dtype = m->dtype;
    f->itemsize = cw_dtype_of(m->dtype)->itemsize;
    f->rank = m->rank;
    memcpy(f->dims, m->dims, m->rank * sizeof *m->dims);
    if ((rc = read_value(f, r, e)) || (rc = read_predict(f, r, e)) || (rc = read_rest_of_chain(f, r, e))) return rc;
    if (r->p != r->end) REJECT(CW_CHAIN, "end of the template", n, cw_at(r));
    if (f->coder == CW_STORED && (f->planes || f->predict)) REJECT(CW_CHAIN, "coder kind", f->coder, CW_CODED);
    if (f->value == CW_VALUE_PALETTE) {
        f->elements = 1; /* so that the table is made, which is the same for all shapes */
        rc = cw_finish_make(&c->finish, f, &c->plan, MOST_TABLE_BYTES, &c->finish_memory, e);
        f->elements = 0;
    }
    c->has_short = !rc;
    return rc;
}

int cw_short_parse(cw_frame *f, const cw_menu *m, const cw_chain **chain, const u8 *data, u64 size, cw_err *e)
{
    int rc;
    if (data[0] >= m->n || !m->chain[data[0]].has_short) return cw_fail(e, CW_CHAIN, "chain of a short frame", data[0], m->n, 0);
    *chain = &m->chain[data[0]];
    const cw_frame *template = &(*chain)->frame;
    memcpy(f, template, offsetof(cw_frame, palette));
    if (template->value == CW_VALUE_PALETTE) f->palette = template->palette;
    for (unsigned i = 0; i < m->rank; i++) f->dims[i] = template->dims[i];
    f->data = data;
    f->size = size;
    cw_reader reader = {data + 1, data + size, data}, *r = &reader;
    if ((rc = read_dims(f, r, e))) return rc;
    if (f->elements && f->value == CW_VALUE_NARROW) {
        static const u8 widths[] = {0, 1, 8, 16, 32, 64};
        u8 kind;
        u64 z;
        U8(kind, CW_TRUNCATED, "narrow range");
        if (kind == CW_NARROW_AS_IS) {
            f->value = CW_AS_IS;
        } else {
            f->bits = (kind & 7) < sizeof widths ? widths[kind & 7] : 255;
            f->shift = kind >> 3;
            if (f->bits > 8 * f->itemsize || (f->shift && f->shift >= (f->bits < 8 ? 1 : f->bits)))
                REJECT(CW_NARROW, "narrow range", kind, CW_NARROW_AS_IS);
            VARINT(z, CW_TRUNCATED, "narrow minimum");
            f->minimum = (i64)(z >> 1 ^ (0 - (z & 1)));
        }
    }
    cw_frame_settle(f);
    f->block = cw_frame_units(f);
    f->blocks = f->block > 0;
    f->header_size = cw_at(r);
    if (!f->blocks && cw_left(r)) REJECT(CW_FRAME_SIZE, "frame's end", size, cw_at(r));
    return CW_OK;
}

void cw_menu_free(cw_menu *m)
{
    for (u32 i = 0; m->chain && i < m->n; i++) {
        cw_plan_free(&m->chain[i].plan);
        free(m->chain[i].finish_memory);
    }
    free(m->chain);
    m->chain = NULL;
}

/* ---- a plan's assets ---------------------------------------------------------------------------------------------------- */

static int parse_palette(cw_plan *plan, cw_reader *r, cw_err *e)
{
    int rc;
    u64 n;
    U8(plan->palette_dtype, CW_TRUNCATED, "palette dtype");
    if (!((plan->palette_dtype >= CW_F16 && plan->palette_dtype <= CW_C128) || plan->palette_dtype == CW_C32))
        REJECT(CW_PALETTE, "palette dtype", plan->palette_dtype, CW_F32);
    U8(plan->palette_bits, CW_TRUNCATED, "palette bits");
    if (plan->palette_bits != 8 && plan->palette_bits != 16) REJECT(CW_PALETTE, "palette bits", plan->palette_bits, 8);
    U8(plan->palette_axis, CW_TRUNCATED, "palette axis");
    VARINT(n, CW_TRUNCATED, "palettes");
    if (n < 1 || n > 65536) REJECT(CW_PALETTE, "palettes", n, 65536);
    plan->palettes = (u32)n;
    u64 largest = 0, most = (u64)1 << plan->palette_bits, itemsize = cw_dtype_of(plan->palette_dtype)->itemsize;
    u32 *counts = plan->memory[0] = malloc(plan->palettes * sizeof *counts);
    if (!counts) REJECT(CW_NOMEM, "memory", 0, 0);
    /* values are gathered without their counts, so that palette i starts where i-1 ends */
    u8 *values = plan->memory[1] = malloc(cw_left(r) + 1);
    if (!values) REJECT(CW_NOMEM, "memory", 0, 0);
    plan->palette_counts = counts;
    plan->palette_values = values;
    for (u32 i = 0; i < plan->palettes; i++) {
        const u8 *from;
        VARINT(n, CW_TRUNCATED, "palette count");
        if (n == 0 || n > most) REJECT(CW_PALETTE, "palette count", n, most);
        TAKE(n * itemsize, from, CW_TRUNCATED, "palette values");
        memcpy(values, from, n * itemsize);
        values += n * itemsize;
        counts[i] = (u32)n;
        largest = CW_MAX(largest, n);
    }
    if (largest * plan->palettes > CW_MAX_PALETTE_VALUES)
        REJECT(CW_PALETTE, "palette values", largest * plan->palettes, CW_MAX_PALETTE_VALUES);
    return CW_OK;
}

int cw_plan_parse(cw_plan *plan, u64 hash, const u8 *data, size_t size, cw_err *e)
{
    int rc;
    memset(plan, 0, sizeof *plan);
    plan->hash = hash;
    plan->is_there = 1;
    cw_reader reader = {data, data + size, data}, *r = &reader;
    const u8 *magic;
    u8 major, minor;
    TAKE(4, magic, CW_TRUNCATED, "magic");
    if (memcmp(magic, "CWPL", 4)) REJECT(CW_MAGIC, "magic", cw_load32(magic), cw_load32("CWPL"));
    U8(major, CW_TRUNCATED, "version");
    if (major != 1) REJECT(CW_VERSION, "major version", major, 1);
    U8(minor, CW_TRUNCATED, "version");
    (void)minor;
    U8(plan->has_palette, CW_TRUNCATED, "palette");
    if (plan->has_palette > 1) REJECT(CW_PALETTE, "palette", plan->has_palette, 1);
    if (plan->has_palette && (rc = parse_palette(plan, r, e))) return rc;
    U8(plan->has_tables, CW_TRUNCATED, "tables");
    if (plan->has_tables > 1) REJECT(CW_TABLE, "tables", plan->has_tables, 1);
    if (plan->has_tables) {
        u64 n, bytes;
        const u8 *bits;
        U8(plan->coder, CW_TRUNCATED, "entropy coder");
        if (plan->coder > CW_ANS) REJECT(CW_TABLE, "entropy coder", plan->coder, CW_ANS);
        U8(plan->log, CW_TRUNCATED, "table log");
        VARINT(n, CW_TRUNCATED, "tables");
        if (n < 1 || n > CW_MAX_TABLES) REJECT(CW_TABLE, "tables", n, CW_MAX_TABLES);
        plan->tables = (u32)n;
        VARINT(bytes, CW_TRUNCATED, "table bytes");
        TAKE(bytes, bits, CW_TRUNCATED, "table bytes");
        cw_table *tables = plan->memory[2] = malloc(plan->tables * sizeof *tables);
        if (!tables) REJECT(CW_NOMEM, "memory", 0, 0);
        plan->table = tables;
        if ((rc = cw_tables_read(tables, plan->tables, plan->coder, plan->log, bits, bytes, cw_at(r) - bytes, e))) return rc;
        plan->decode_tables = malloc(cw_decode_tables_size(plan->coder, plan->log, plan->tables));
        if (!plan->decode_tables) REJECT(CW_NOMEM, "memory", 0, 0);
        cw_decode_tables_build(plan->decode_tables, tables, plan->tables, plan->coder, plan->log);
    }
    u64 n;
    VARINT(n, CW_TRUNCATED, "dictionary size");
    TAKE(n, plan->dictionary, CW_TRUNCATED, "dictionary");
    plan->dictionary_size = n;
    if (n) plan->unpack_words = cw_unpack_words_new(plan->dictionary, n); /* one that cannot be: planes that use it are refused */
    if (r->p != r->end) REJECT(CW_HEADER_SIZE, "end of the assets", size, cw_at(r));
    return CW_OK;
}

void cw_plan_free(cw_plan *plan)
{
    for (int i = 0; i < 3; i++) free(plan->memory[i]);
    free(plan->decode_tables);
    cw_unpack_words_free(plan->unpack_words);
    memset(plan, 0, sizeof *plan);
}
