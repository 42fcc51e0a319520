/* Values are found by a sparse hash table: at most 1.6% full with 8-bit codes, so almost every look-up is one probe,
 * and only the lines that hold values are ever touched. */
#include "palette.h"

#include <stdlib.h>

#define EMPTY 0xffff

static inline u64 load_bits(const u8 *p, u32 itemsize)
{
    return itemsize == 2 ? cw_load16(p) : itemsize == 4 ? cw_load32(p) : cw_load64(p);
}

static inline u32 slot_of(u64 bits, u32 log) { return (u32)(bits * 0x9E3779B97F4A7C15u >> (64 - log)); }

static int allocate(cw_inverse *v, unsigned bits, cw_err *e)
{
    v->stride = 1u << bits;
    v->slots_log = bits == 8 ? 14 : 18;
    size_t slots = (size_t)v->palettes << v->slots_log;
    v->counts = calloc(v->palettes, sizeof *v->counts);
    v->values = malloc((size_t)v->palettes * v->stride * v->itemsize);
    v->slots = malloc(slots * sizeof *v->slots);
    if (!v->counts || !v->values || !v->slots) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    memset(v->slots, 0xff, slots * sizeof *v->slots);
    return CW_OK;
}

void cw_inverse_free(cw_inverse *v)
{
    free(v->counts);
    free(v->values);
    free(v->slots);
    memset(v, 0, sizeof *v);
}

/* The slot that holds `bits`, or the empty one where it would be. */
static inline u32 find(const cw_inverse *v, u32 palette, u64 bits)
{
    const u16 *slots = v->slots + ((size_t)palette << v->slots_log);
    const u8 *values = v->values + (size_t)palette * v->stride * v->itemsize;
    u32 mask = (1u << v->slots_log) - 1, at = slot_of(bits, v->slots_log);
    while (slots[at] != EMPTY && load_bits(values + (size_t)slots[at] * v->itemsize, v->itemsize) != bits) at = (at + 1) & mask;
    return at;
}

static void insert(cw_inverse *v, u32 palette, u64 bits)
{
    u32 at = find(v, palette, bits);
    u16 *slot = v->slots + ((size_t)palette << v->slots_log) + at;
    if (*slot != EMPTY) return;
    memcpy(v->values + ((size_t)palette * v->stride + v->counts[palette]) * v->itemsize, &bits, v->itemsize);
    *slot = (u16)v->counts[palette]++;
}

/* Numeric order of floats as an order of integers; -0.0 comes before 0.0, NaNs stand at the ends. */
static inline u64 order_key(u64 bits, u32 itemsize)
{
    u64 sign = (u64)1 << (8 * itemsize - 1);
    return bits & sign ? ~bits & (sign | (sign - 1)) : bits | sign;
}

static int by_key(const void *a, const void *b)
{
    u64 x = *(const u64 *)a, y = *(const u64 *)b;
    return x < y ? -1 : x > y;
}

int cw_inverse_collect(cw_inverse *v, const u8 *data, u64 n, u32 itemsize, u32 palettes, u64 inner, unsigned bits, cw_err *e)
{
    memset(v, 0, sizeof *v);
    v->itemsize = itemsize;
    v->palettes = palettes;
    v->inner = inner;
    u32 most = bits == 8 ? 256 : 65535; /* 65,535: EMPTY is not a code */
    int rc = allocate(v, bits, e);
    if (rc) return rc;
    u64 last = ~(u64)0;
    for (u64 i = 0; i < n; i += inner) {
        u32 palette = (u32)(i / inner % palettes);
        u64 run = CW_MIN(inner, n - i);
        for (u64 k = 0; k < run; k++) {
            u64 value = load_bits(data + (i + k) * itemsize, itemsize);
            if (value == last && k) continue;
            last = value;
            u32 at = find(v, palette, value);
            if (v->slots[((size_t)palette << v->slots_log) + at] != EMPTY) continue;
            if (v->counts[palette] == most) return cw_fail(e, CW_PALETTE_MISS, "distinct values", most + 1, most, 0);
            insert(v, palette, value);
        }
    }
    u64 *keys = malloc(most * sizeof *keys);
    if (!keys) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    memset(v->slots, 0xff, ((size_t)palettes << v->slots_log) * sizeof *v->slots);
    u64 sign = (u64)1 << (8 * itemsize - 1);
    for (u32 c = 0; c < palettes; c++) {
        u32 count = v->counts[c];
        u8 *values = v->values + (size_t)c * v->stride * itemsize;
        for (u32 k = 0; k < count; k++) keys[k] = order_key(load_bits(values + (size_t)k * itemsize, itemsize), itemsize);
        qsort(keys, count, sizeof *keys, by_key);
        v->counts[c] = 0;
        for (u32 k = 0; k < count; k++) insert(v, c, keys[k] & sign ? keys[k] & (sign - 1) : ~keys[k] & (sign | (sign - 1)));
    }
    free(keys);
    return CW_OK;
}

int cw_inverse_from_finish(cw_inverse *v, const cw_finish *fin, unsigned bits, cw_err *e)
{
    memset(v, 0, sizeof *v);
    v->itemsize = fin->out_size;
    v->palettes = fin->palettes;
    v->inner = fin->inner;
    int rc = allocate(v, bits, e);
    if (rc) return rc;
    for (u32 c = 0; c < fin->palettes; c++) {
        u32 n = fin->counts ? fin->counts[c] : fin->lut_entries;
        if (n > 65535) n = 65535;
        const u8 *from = fin->lut + (size_t)c * fin->lut_entries * fin->out_size;
        memcpy(v->values + (size_t)c * v->stride * v->itemsize, from, (size_t)n * v->itemsize);
        v->counts[c] = n;
        for (u32 k = 0; k < n; k++) { /* of equal values the first is used */
            u16 *slot = v->slots + ((size_t)c << v->slots_log) + find(v, c, load_bits(from + (size_t)k * v->itemsize, v->itemsize));
            if (*slot == EMPTY) *slot = (u16)k;
            else v->repeats = 1;
        }
    }
    return CW_OK;
}

#define RUN(load, code_type)                                                                                    \
    for (u64 i = 0; i < n; i++) {                                                                               \
        u64 bits_ = load;                                                                                       \
        u32 code = slots[slot_of(bits_, v->slots_log)];                                                         \
        if (code == EMPTY || load_bits(values + (size_t)code * v->itemsize, v->itemsize) != bits_) {            \
            code = slots[find(v, palette, bits_)];                                                              \
            if (code == EMPTY) return cw_fail(e, CW_PALETTE_MISS, "value outside the palette", bits_, v->counts[palette], 0); \
        }                                                                                                       \
        ((code_type *)codes)[i] = (code_type)code;                                                              \
    }

int cw_inverse_run(const cw_inverse *v, const u8 *from, u64 n, u64 step, u32 palette, unsigned bits, u8 *codes, cw_err *e)
{
    const u16 *slots = v->slots + ((size_t)palette << v->slots_log);
    const u8 *values = v->values + (size_t)palette * v->stride * v->itemsize;
    u64 jump = step * v->itemsize;
    if (v->itemsize == 4 && bits == 8) { /* the usual case on its own, so that sizes are constants in it */
        const u32 *known = (const u32 *)values;
        for (u64 i = 0; i < n; i++) {
            u32 value = cw_load32(from + i * jump), code = slots[slot_of(value, 14)];
            if (code > 255 || known[code] != value) {
                code = slots[find(v, palette, value)];
                if (code == EMPTY) return cw_fail(e, CW_PALETTE_MISS, "value outside the palette", value, v->counts[palette], 0);
            }
            codes[i] = (u8)code;
        }
        return CW_OK;
    }
    if (bits == 8)
        RUN(load_bits(from + i * jump, v->itemsize), u8)
    else
        RUN(load_bits(from + i * jump, v->itemsize), u16_any)
    return CW_OK;
}
