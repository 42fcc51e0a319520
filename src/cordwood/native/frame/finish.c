/* The last step of decoding: codes become the caller's elements, in one pass straight into the output.
 *
 * A palette (or uint8 to normalised float) is a table of 256 values a channel. Where the values are ((k / a) - b) / d in f32,
 * vectors are faster than look-ups: a quotient is corrected by one fused step (Markstein), which gives the correctly rounded
 * result almost always. "Almost" is not enough: the vector code is run on all 256 codes first and compared with the table. */
#include "cw.h"

#include <math.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- half floats, rounding to nearest even ---------------------------------------------------------------------------------- */

static u16 to_bf16(float x)
{
    u32 v;
    memcpy(&v, &x, 4);
    if ((v & 0x7fffffffu) > 0x7f800000u) return (u16)(v >> 16 | 0x40); /* stays a NaN */
    return (u16)((v + 0x7fff + (v >> 16 & 1)) >> 16);
}

static u16 f64_to_f16(double x)
{
    u64 v;
    memcpy(&v, &x, 8);
    u16 sign = (u16)(v >> 48 & 0x8000);
    if (isnan(x)) return (u16)(sign | 0x7e00);
    double a = fabs(x);
    if (a >= 65520.0) return (u16)(sign | 0x7c00);
    if (a == 0) return sign;
    int e;
    frexp(a, &e);                     /* a in [2^(e-1), 2^e) */
    if (e < -13) e = -13;             /* subnormals share the exponent of the smallest normal */
    /* scaled by a power of two the last kept bit is worth one: rint() is the rounding */
    double units = nearbyint(ldexp(a, 11 - e));
    return (u16)(sign | (u16)(units + (double)((e + 13) << 10)));
}

static u16 f64_to_bf16(double x)
{
    u64 v;
    memcpy(&v, &x, 8);
    u16 sign = (u16)(v >> 48 & 0x8000);
    if (isnan(x)) return (u16)(sign | 0x7fc0);
    double a = fabs(x);
    if (isinf(a)) return (u16)(sign | 0x7f80);
    if (a == 0) return sign;
    int e;
    frexp(a, &e);
    if (e < -125) e = -125;
    double units = nearbyint(ldexp(a, 8 - e)) + (double)((i64)(e + 125) << 7);
    return (u16)(sign | (units >= 0x7f80 ? 0x7f80 : (u16)units));
}

/* ---- the table of a palette ------------------------------------------------------------------------------------------------- */

static double operand(const cw_palette *p, const cw_op *op, u32 palette)
{
    const u8 *at = op->operands + (size_t)(op->per_palette ? palette : 0) * (p->work ? 8 : 4);
    if (p->work) {
        double d;
        memcpy(&d, at, 8);
        return d;
    }
    float f;
    memcpy(&f, at, 4);
    return f;
}

/* Operation by operation over all values, so that the loops become vectors. */
#define APPLY(T, v)                                                     \
    for (int i = 0; i < p->n_ops; i++) {                                \
        T o = (T)operand(p, &p->ops[i], palette);                       \
        switch (p->ops[i].op) {                                         \
        case 0: for (u32 k = 0; k < n; k++) v[k] = v[k] * o; break;     \
        case 1: for (u32 k = 0; k < n; k++) v[k] = v[k] / o; break;     \
        case 2: for (u32 k = 0; k < n; k++) v[k] = v[k] + o; break;     \
        default: for (u32 k = 0; k < n; k++) v[k] = v[k] - o;           \
        }                                                               \
    }

static void formula_values(const cw_palette *p, u32 palette, int dtype, u8 *to)
{
    float f[256];
    double d[256];
    u32 size = cw_dtype_of((unsigned)dtype)->itemsize;
    for (u32 first = 0; first < p->count; first += 256, to += 256 * size) {
        u32 n = CW_MIN(p->count - first, 256u);
        if (p->work) {
            for (u32 k = 0; k < n; k++) d[k] = first + k;
            APPLY(double, d)
        } else {
            for (u32 k = 0; k < n; k++) f[k] = (float)(first + k);
            APPLY(float, f)
        }
        if (!p->work && dtype == CW_F32) {
            memcpy(to, f, 4 * n);
            continue;
        }
        for (u32 k = 0; k < n; k++) {
            double v = p->work ? d[k] : f[k];
            float single = (float)v;
            u16 half = dtype == CW_F16 ? f64_to_f16(v) : dtype != CW_BF16 ? 0 : p->work ? f64_to_bf16(v) : to_bf16(single);
            memcpy(to + k * size, dtype == CW_F64 ? (void *)&v : dtype == CW_F32 ? (void *)&single : (void *)&half, size);
        }
    }
}

static int from_plan(const cw_frame *f, const cw_plan *plan, cw_err *e)
{
    const cw_palette *p = &f->palette;
    if (!plan || !plan->has_palette || plan->palette_dtype != f->dtype || plan->palette_bits != p->bits ||
        plan->palette_axis != p->axis || plan->palettes != p->palettes)
        return cw_fail(e, CW_PLAN_MISMATCH, "the plan's palette", plan && plan->has_palette ? plan->palettes : 0, p->palettes, 0);
    return CW_OK;
}

static void try_formula_affine(cw_finish *fin, const cw_frame *f)
{
    const cw_palette *p = &f->palette;
    if (f->dtype != CW_F32 || p->work || p->n_ops < 1 || p->n_ops > 3 || p->ops[0].op != 1 || p->ops[0].per_palette || p->palettes > 256) return;
    if ((p->n_ops > 1 && p->ops[1].op != 3) || (p->n_ops > 2 && p->ops[2].op != 1)) return;
    float b[256], d[256];
    for (u32 c = 0; c < p->palettes; c++) {
        b[c] = p->n_ops > 1 ? (float)operand(p, &p->ops[1], c) : 0;
        d[c] = p->n_ops > 2 ? (float)operand(p, &p->ops[2], c) : 1;
    }
    cw_finish_try_affine(fin, (float)operand(p, &p->ops[0], 0), b, d);
}

int cw_finish_make(cw_finish *fin, const cw_frame *f, const cw_plan *plan, u64 limit, void **memory, cw_err *e)
{
    memset(fin, 0, sizeof *fin);
    fin->out_size = (u8)f->itemsize;
    fin->code_size = f->bits <= 8 ? 1 : f->bits / 8;
    fin->inner = 1;
    fin->palettes = 1;
    if (f->value == CW_AS_IS) return CW_OK;
    if (f->value == CW_VALUE_NARROW) {
        fin->kind = CW_FINISH_NARROW;
        fin->minimum = (u64)f->minimum;
        fin->shift = f->shift;
        return CW_OK;
    }
    const cw_palette *p = &f->palette;
    int rc;
    if (p->source == CW_PALETTE_PLAN && (rc = from_plan(f, plan, e))) return rc;
    fin->kind = CW_FINISH_LUT;
    fin->palettes = p->palettes;
    fin->inner = p->inner;
    if (f->elements == 0) return CW_OK;
    /* a short palette has a short table: what a code may not be is refused before the look-up */
    u32 entries = 0, all = p->bits == 8 ? 256u : 65536u;
    if (p->source == CW_PALETTE_FORMULA) {
        entries = p->count;
    } else if (p->source == CW_PALETTE_PLAN) {
        for (u32 c = 0; c < p->palettes; c++) entries = CW_MAX(entries, plan->palette_counts[c]);
    } else {
        cw_reader r = {p->values, p->values_end, f->data};
        for (u32 c = 0; c < p->palettes; c++) {
            u64 n = 0;
            if ((rc = cw_read_varint(&r, &n, CW_TRUNCATED, "palette count", e))) return rc;
            r.p += n * f->itemsize;
            entries = CW_MAX(entries, (u32)n);
        }
    }
    if (all == 256) entries = 256;
    fin->lut_entries = entries;
    size_t lut_bytes = (size_t)p->palettes * entries * f->itemsize, counts_bytes = (p->palettes * sizeof(u32) + 63) & ~(size_t)63;
    if (lut_bytes > limit) return cw_fail(e, CW_LIMIT, "memory for palettes", lut_bytes, limit, 0);
    size_t terms = CW_AFFINE_TERMS(p->palettes) * sizeof(float);
    u8 *lut = calloc(1, lut_bytes + counts_bytes + terms + 64);
    if (!lut) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    *memory = lut;
    u32 *counts = (u32 *)lut;
    fin->affine_terms = (const float *)(lut + counts_bytes);
    lut += counts_bytes + ((terms + 63) & ~(size_t)63);
    fin->lut = lut;
    int whole = 1;
    const u8 *planned = plan ? plan->palette_values : NULL;
    cw_reader r = {p->values, p->values_end, f->data};
    for (u32 c = 0; c < p->palettes; c++, lut += (size_t)entries * f->itemsize) {
        u64 n = p->count;
        if (p->source == CW_PALETTE_FORMULA) {
            formula_values(p, c, f->dtype, lut);
        } else {
            const u8 *from = planned;
            if (p->source == CW_PALETTE_PLAN) {
                n = plan->palette_counts[c];
                planned += n * f->itemsize;
            } else {
                if ((rc = cw_read_varint(&r, &n, CW_TRUNCATED, "palette count", e))) return rc;
                if ((rc = cw_take(&r, n * f->itemsize, &from, CW_TRUNCATED, "palette values", e))) return rc;
            }
            memcpy(lut, from, n * f->itemsize);
        }
        counts[c] = (u32)n;
        whole &= n == all;
    }
    fin->counts = whole ? NULL : counts;
    if (p->source == CW_PALETTE_FORMULA && p->bits == 8) try_formula_affine(fin, f);
    return CW_OK;
}

/* ---- vectors of ((k / a) - b) / d ---------------------------------------------------------------------------------------------- */

/* A division by a constant c is a multiplication by 1/c, kept as the nearest float and what that leaves: the sum of both products is rounded
 * once, and right but for the rarest of numbers. Whether it is for all 256 codes is tried before it is used. */
#define AFFINE_BODY                                                          \
    float ra = a[1], ra_rest = a[2], b = t[0], rd = t[2], rd_rest = t[3];    \
    for (u64 i = 0; i < n; i++) {                                            \
        float k = (float)codes[i];                                           \
        float q = fmaf(k, ra, k * ra_rest) - b;                              \
        out[i] = fmaf(q, rd, q * rd_rest);                                   \
    }
typedef void affine_fn(const u8 *restrict codes, u64 n, const float *a, const float *t, f32_any *restrict out);

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void affine_fast(const u8 *restrict codes, u64 n, const float *a, const float *t, f32_any *restrict out)
{
    AFFINE_BODY
}
static affine_fn *affine(void) { return cw_fast_cpu() ? affine_fast : NULL; }


/* The same past the caches, for arrays that are too large for them: lines of 64 bytes that are written whole need not be read first. */
__attribute__((target("avx2,fma"))) static void affine_past(const u8 *restrict codes, u64 n, const float *a, const float *t, f32_any *restrict out)
{
    u64 i = (uintptr_t)out & 3 ? n : CW_MIN(n, (u64)(-(uintptr_t)out >> 2 & 15)); /* up to the next line */
    affine_fast(codes, i, a, t, out);
    __m256 ra = _mm256_set1_ps(a[1]), ra_rest = _mm256_set1_ps(a[2]), b = _mm256_set1_ps(t[0]), rd = _mm256_set1_ps(t[2]), rd_rest = _mm256_set1_ps(t[3]);
    for (; i + 16 <= n; i += 16)
        for (u64 half = i; half < i + 16; half += 8) {
            __m256 k = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + half))));
            __m256 q = _mm256_sub_ps(_mm256_fmadd_ps(k, ra, _mm256_mul_ps(k, ra_rest)), b);
            _mm256_stream_ps((float *)(out + half), _mm256_fmadd_ps(q, rd, _mm256_mul_ps(q, rd_rest)));
        }
    affine_fast(codes + i, n - i, a, t, out + i);
}
static affine_fn *affine_of(const cw_finish *f) { return f->past_caches ? affine_past : affine_fast; }
#elif defined(__aarch64__)
static void affine_fast(const u8 *restrict codes, u64 n, const float *a, const float *t, f32_any *restrict out)
{
    AFFINE_BODY
}
static affine_fn *affine(void) { return affine_fast; }
static affine_fn *affine_of(const cw_finish *f) { (void)f; return affine_fast; }
#else
static affine_fn *affine(void) { return NULL; } /* without a fused instruction fmaf() is slower than any table */
static affine_fn *affine_of(const cw_finish *f) { (void)f; return NULL; }
#endif

static const float *terms_of(const cw_finish *f, u32 palette) { return f->affine_terms + 3 + 4 * (size_t)palette; }

/* The other way: the nearest code of every value, then forwards again; right if every value comes back. */
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static void nearest_codes(const f32_any *restrict from, u64 n, float a, float b, float d, u8 *restrict codes)
{
    float scale = d * a, offset = b * a + 0.5f; /* near enough: what comes out is tried forwards */
    for (u64 i = 0; i < n; i++) {
        float k = from[i] * scale + offset;
        k = k > 0 ? k : 0; /* a NaN is not above 0 */
        k = k < 255 ? k : 255;
        codes[i] = (u8)(int)k;
    }
}

int cw_affine_codes(const cw_finish *f, u32 palette, const u8 *from, u64 n, u8 *codes)
{
    const float *t = terms_of(f, palette);
    float back[256];
    for (u64 i = 0; i < n; i += 256) {
        u64 run = CW_MIN(n - i, (u64)256);
        nearest_codes((const f32_any *)from + i, run, f->affine_terms[0], t[0], t[1], codes + i);
        affine()(codes + i, run, f->affine_terms, t, back);
        if (memcmp(back, from + 4 * i, 4 * run)) return 0;
    }
    return 1;
}

int cw_finish_try_affine(cw_finish *fin, float a, const float *b, const float *d)
{
    affine_fn *fn = affine();
    float *terms = (float *)(uintptr_t)fin->affine_terms;
    if (!fn || fin->out_size != 4 || fin->counts) return 0;
    u8 codes[256];
    float got[256];
    for (int k = 0; k < 256; k++) codes[k] = (u8)k;
    terms[0] = a, terms[1] = 1.0f / a, terms[2] = fmaf(-a, terms[1], 1) / a;
    for (u32 c = 0; c < fin->palettes; c++) {
        float *t = terms + 3 + 4 * (size_t)c;
        t[0] = b[c], t[1] = d[c], t[2] = 1.0f / d[c], t[3] = fmaf(-d[c], t[2], 1) / d[c];
        fn(codes, 256, terms, t, got);
        if (memcmp(got, fin->lut + (size_t)c * 1024, 1024)) return 0;
    }
    fin->affine = 1;
    return 1;
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------------- */

static int check_codes(const cw_finish *f, const u8 *codes, u64 n, u32 palette, cw_err *e)
{
    u32 top = 0, limit = f->counts[palette];
    if (f->code_size == 1)
        for (u64 i = 0; i < n; i++) top = CW_MAX(top, codes[i]);
    else
        for (u64 i = 0; i < n; i++) {
            u32 c = cw_load16(codes + 2 * i);
            top = CW_MAX(top, c);
        }
    return top < limit ? CW_OK : cw_fail(e, CW_CODE, "code", top, limit - 1, 0);
}

#define LUT_LOOP(T, load)                                                              \
    {                                                                                  \
        const T *lut = (const T *)table;                                               \
        T *to = (T *)out + first;                                                      \
        if (step == 1)                                                                 \
            for (u64 i = 0; i < n; i++) to[i] = lut[load];                             \
        else                                                                           \
            for (u64 i = 0; i < n; i++) to[i * step] = lut[load];                      \
    }

/* Codes of one palette. */
static int lut_run(const cw_finish *f, const u8 *codes, u64 n, u64 first, u64 step, u32 palette, u8 *out, cw_err *e)
{
    int rc;
    if (f->counts && (rc = check_codes(f, codes, n, palette, e))) return rc;
    if (f->affine && step == 1) {
        affine_of(f)(codes, n, f->affine_terms, terms_of(f, palette), (f32_any *)out + first);
        return CW_OK;
    }
    const u8 *table = f->lut + (size_t)palette * f->lut_entries * f->out_size;
    if (f->code_size == 1) {
        if (f->out_size == 2) LUT_LOOP(u16_any, codes[i])
        else if (f->out_size == 4) LUT_LOOP(u32_any, codes[i])
        else LUT_LOOP(u64_any, codes[i])
    } else {
        if (f->out_size == 2) LUT_LOOP(u16_any, cw_load16(codes + 2 * i))
        else if (f->out_size == 4) LUT_LOOP(u32_any, cw_load16(codes + 2 * i))
        else LUT_LOOP(u64_any, cw_load16(codes + 2 * i))
    }
    return CW_OK;
}

static int palette_run(const cw_finish *f, const u8 *codes, u64 n, u64 first, u64 step, u8 *out, cw_err *e)
{
    int rc;
    if (f->palettes == 1) return lut_run(f, codes, n, first, step, 0, out, e);
    if (step > 1 && step % ((u64)f->palettes * f->inner) == 0) /* a channel of an interleaved image: always the same palette */
        return lut_run(f, codes, n, first, step, (u32)(first / f->inner % f->palettes), out, e);
    for (u64 i = 0; i < n;) {
        /* rows are short: no division but the one that is needed */
        u64 at = first + i * step, turn = at / f->inner, left = (turn + 1) * f->inner - at;
        u64 stretch = CW_MIN(step == 1 ? left : (left + step - 1) / step, n - i);
        u32 palette = (u32)(turn < f->palettes ? turn : turn % f->palettes);
        if ((rc = lut_run(f, codes + i * f->code_size, stretch, at, step, palette, out, e))) return rc;
        i += stretch;
    }
    return CW_OK;
}

#define NARROW_LOOP(C, T)                                                                                       \
    {                                                                                                           \
        const C *from = (const C *)codes;                                                                       \
        T *to = (T *)out + first;                                                                               \
        T low = (T)f->minimum;                                                          \
        unsigned shift = f->shift;                                                                              \
        if (step == 1)                                                                                          \
            for (u64 i = 0; i < n; i++) to[i] = (T)((T)(from[i] >> shift) + low);                               \
        else                                                                                                    \
            for (u64 i = 0; i < n; i++) to[i * step] = (T)((T)(from[i] >> shift) + low);                        \
    }

static void narrow_run(const cw_finish *f, const u8 *codes, u64 n, u64 first, u64 step, u8 *out)
{
    switch (f->code_size * 16 + f->out_size) {
    case 0x11: NARROW_LOOP(u8, u8) break;
    case 0x12: NARROW_LOOP(u8, u16_any) break;
    case 0x14: NARROW_LOOP(u8, u32_any) break;
    case 0x18: NARROW_LOOP(u8, u64_any) break;
    case 0x22: NARROW_LOOP(u16_any, u16_any) break;
    case 0x24: NARROW_LOOP(u16_any, u32_any) break;
    case 0x28: NARROW_LOOP(u16_any, u64_any) break;
    case 0x44: NARROW_LOOP(u32_any, u32_any) break;
    case 0x48: NARROW_LOOP(u32_any, u64_any) break;
    default: NARROW_LOOP(u64_any, u64_any)
    }
}

int cw_finish_run(const cw_finish *f, const u8 *codes, u64 n, u64 first, u64 step, u8 *out, cw_err *e)
{
    if (f->kind == CW_FINISH_LUT) return palette_run(f, codes, n, first, step, out, e);
    if (f->kind == CW_FINISH_NARROW) {
        narrow_run(f, codes, n, first, step, out);
    } else if (step == 1) {
        u8 *to = out + first * f->out_size;
        if (to != codes) memcpy(to, codes, n * f->out_size);
    } else if (f->out_size == 1) {
        for (u64 i = 0; i < n; i++) out[first + i * step] = codes[i];
    } else {
        for (u64 i = 0; i < n; i++) memcpy(out + (first + i * step) * f->out_size, codes + i * f->out_size, f->out_size);
    }
    return CW_OK;
}

int cw_finish_rows(const cw_finish *f, const u8 *codes, u64 stride, u64 rows, u64 width, u64 first, u64 step, u8 *out, cw_err *e)
{
    u64 row = width * step, last = first + (rows - 1) * row + (width - 1) * step;
    if (f->affine && step == 1 && (f->palettes == 1 || first / f->inner == last / f->inner)) { /* one palette for all */
        const float *terms = terms_of(f, f->palettes == 1 ? 0 : (u32)(first / f->inner % f->palettes));
        affine_fn *fn = affine_of(f);
        for (u64 y = 0; y < rows; y++) fn(codes + y * stride, width, f->affine_terms, terms, (f32_any *)out + first + y * row);
        return CW_OK;
    }
    int rc = CW_OK;
    for (u64 y = 0; y < rows && !rc; y++) rc = cw_finish_run(f, codes + y * stride, width, first + y * row, step, out, e);
    return rc;
}

void cw_finish_end(const cw_finish *f)
{
#if defined(__x86_64__)
    if (f->past_caches) _mm_sfence(); /* what went past the caches is seen by other threads from here on */
#else
    (void)f;
#endif
}
