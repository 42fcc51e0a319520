/* Elements to codes: narrow looks for the range, palette for the values; then runs of elements are translated. */
#include "encode.h"

/* ---- the value stage, looking at the whole array ------------------------------------------------------------------------------ */

#define RANGE(T)                                                   \
    {                                                              \
        T lo, hi, x;                                               \
        memcpy(&lo, data, sizeof(T));                              \
        hi = lo;                                                   \
        for (u64 i = 1; i < n; i++) {                              \
            memcpy(&x, data + i * sizeof(T), sizeof(T));           \
            lo = x < lo ? x : lo;                                  \
            hi = x > hi ? x : hi;                                  \
        }                                                          \
        *minimum = (i64)lo;                                        \
        *span = (u64)hi - (u64)lo;                                 \
        break;                                                     \
    }

/* Of at least one element. */
void cw_values_range(const u8 *data, u64 n, int dtype, i64 *minimum, u64 *span)
{
    switch (dtype) {
    case 0: case 1: RANGE(uint8_t)
    case 2: RANGE(int8_t)
    case 3: RANGE(uint16_t)
    case 4: RANGE(int16_t)
    case 5: RANGE(uint32_t)
    case 6: RANGE(int32_t)
    case 7: RANGE(uint64_t)
    default: RANGE(int64_t)
    }
}

void cw_values_narrow(cw_encoding *c)
{
    cw_frame *f = &c->f;
    const cw_recipe *r = c->r;
    u64 span = r->span;
    f->minimum = r->minimum;
    if (!r->range_known) cw_values_range(r->data, f->elements, f->dtype, &f->minimum, &span);
    unsigned needed = span ? 64 - (unsigned)__builtin_clzll(span) : 0;
    if (needed == 0)
        f->bits = 0;
    else if (needed == 1 && r->pack_bits)
        f->bits = 1;
    else
        f->bits = needed <= 8 ? 8 : needed <= 16 ? 16 : needed <= 32 ? 32 : 64;
    if (f->bits == 8 * f->itemsize && (!r->align_top || needed == f->bits)) { /* nothing gained: codes are the elements' bits */
        f->value = CW_AS_IS;
        return;
    }
    f->value = CW_VALUE_NARROW;
    if (r->align_top && f->bits > 8) f->shift = (u8)(f->bits - needed);
}

int cw_values_palette(cw_encoding *c, cw_err *e)
{
    cw_frame *f = &c->f;
    const cw_recipe *r = c->r;
    cw_palette *p = &f->palette;
    p->bits = r->palette_bits;
    p->axis = r->palette_axis;
    p->source = r->palette_source;
    p->palettes = 1;
    p->inner = 1;
    if (p->axis != 255) {
        if (p->axis >= f->rank || f->dims[p->axis] > 65536) return cw_fail(e, CW_PALETTE_MISS, "palette axis", p->axis, f->rank, 0);
        p->palettes = (u32)f->dims[p->axis];
        p->inner = cw_product(f->dims + p->axis + 1, f->rank - p->axis - 1u);
    }
    f->bits = p->bits;
    /* more palettes than the array could fill: looking for values would cost more than it can give */
    if (((u64)p->palettes << p->bits) > 4 * f->elements + ((u64)1 << 20))
        return cw_fail(e, CW_PALETTE_MISS, "palettes", p->palettes, 4 * f->elements >> p->bits, 0);
    int rc;
    if (p->source == CW_PALETTE_FRAME) {
        u64 inner = p->palettes == 1 ? CW_MAX(f->elements, (u64)1) : p->inner;
        rc = cw_inverse_collect(&c->inverse, r->data, f->elements, f->itemsize, p->palettes, inner, p->bits, e);
        u64 values = 0;
        for (u32 i = 0; !rc && i < p->palettes; i++) values += c->inverse.counts[i];
        if (values * 2 > f->elements && values > 256) rc = cw_fail(e, CW_PALETTE_MISS, "palette as large as the array", values, f->elements / 2, 0);
        return rc;
    }
    if (p->source == CW_PALETTE_FORMULA) {
        /* the recipe's bytes are read as the frame's will be: what a reader refuses is never written */
        cw_reader b = {r->formula, r->formula + r->formula_size, r->formula};
        if (cw_formula_read(p, &b, e) || cw_left(&b))
            return cw_fail(e, CW_PALETTE_MISS, "formula for another number of palettes", r->formula_size, cw_left(&b), 0);
    }
    if ((rc = cw_finish_make(&c->fin, f, r->plan, UINT64_MAX, &c->fin_memory, e)))
        return rc == CW_PLAN_MISMATCH ? cw_fail(e, CW_PALETTE_MISS, e->field, e->found, e->expected, 0) : rc;
    return f->elements ? cw_inverse_from_finish(&c->inverse, &c->fin, p->bits, e) : CW_OK;
}

/* ---- elements to codes ------------------------------------------------------------------------------------------------------------ */

#define NARROW(T, C)                                                                         \
    for (u64 i = 0; i < n; i++) {                                                            \
        T x;                                                                                 \
        memcpy(&x, from + i * jump, sizeof x);                                               \
        C code = (C)((u64)x - (u64)f->minimum);                                              \
        code = (C)(code << f->shift);                                                        \
        memcpy(codes + i * sizeof(C), &code, sizeof code);                                   \
    }

static void narrow_run(const cw_frame *f, const u8 *from, u64 n, u64 jump, u8 *codes)
{
    unsigned code = f->bits <= 8 ? 1 : f->bits / 8u;
    switch (f->itemsize * 16 + code) {
    case 0x11: NARROW(u8, u8) break;
    case 0x21: NARROW(u16, u8) break;
    case 0x22: NARROW(u16, u16) break;
    case 0x41: NARROW(u32, u8) break;
    case 0x42: NARROW(u32, u16) break;
    case 0x44: NARROW(u32, u32) break;
    case 0x81: NARROW(u64, u8) break;
    case 0x82: NARROW(u64, u16) break;
    case 0x84: NARROW(u64, u32) break;
    default: NARROW(u64, u64)
    }
}

/* Codes of one palette: by computing where a formula is known, else by looking up. */
static int palette_run(const cw_encoding *c, const u8 *from, u64 n, u64 step, u32 palette, unsigned bits, u8 *codes, cw_err *e)
{
    /* where a value has several codes the first is meant, on every machine: computing might find another */
    if (c->fin.affine && !c->inverse.repeats && step == 1 && cw_affine_codes(&c->fin, palette, from, n, codes)) return CW_OK;
    return cw_inverse_run(&c->inverse, from, n, step, palette, bits, codes, e);
}

#define EVERY(T) \
    for (u64 i = 0; i < n; i++) memcpy(codes + i * sizeof(T), from + i * jump, sizeof(T)); \
    break;

static void copy_every(const u8 *from, u64 n, u64 jump, unsigned size, u8 *codes)
{
    switch (size) { /* sizes that the compiler knows: a call for every byte would take longer than all the rest */
    case 1: EVERY(u8)
    case 2: EVERY(u16)
    case 4: EVERY(u32)
    default: EVERY(u64)
    }
}

int cw_values_codes(const cw_encoding *c, u64 first, u64 n, u64 step, u8 *codes, cw_err *e)
{
    const cw_frame *f = &c->f;
    const u8 *from = c->r->data + first * f->itemsize;
    u64 jump = step * f->itemsize;
    int rc;
    if (f->value == CW_AS_IS) {
        if (step == 1)
            memcpy(codes, from, n * f->itemsize);
        else
            copy_every(from, n, jump, f->itemsize, codes);
    } else if (f->value == CW_VALUE_NARROW) {
        narrow_run(f, from, n, jump, codes);
    } else {
        const cw_palette *p = &f->palette;
        if (p->palettes == 1) return palette_run(c, from, n, step, 0, p->bits, codes, e);
        if (step > 1 && step % ((u64)p->palettes * p->inner) == 0)
            return palette_run(c, from, n, step, (u32)(first / p->inner % p->palettes), p->bits, codes, e);
        for (u64 i = 0; i < n;) {
            u64 at = first + i * step, stretch = CW_MIN((p->inner - at % p->inner + step - 1) / step, n - i);
            rc = palette_run(c, from + i * jump, stretch, step, (u32)(at / p->inner % p->palettes), p->bits,
                                codes + i * (p->bits / 8), e);
            if (rc) return rc;
            i += stretch;
        }
    }
    return CW_OK;
}
