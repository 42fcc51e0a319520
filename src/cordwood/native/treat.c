/* The passes that a decoded image goes through when the decoder's own last step cannot do them: resizing, normalising, interleaving. */
#include "treat.h"

#include <math.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define AT_ONCE 8 /* pixels: with any number of channels a whole number of vectors */
#define MOST_CHANNELS 64

int cw_treat_prepare(cw_treat *t)
{
    const cw_finish *f = &t->normalize.finish;
    if (!t->normalized || !f->affine || !t->out_last || f->palettes > MOST_CHANNELS) return 0;
    size_t n = AT_ONCE * (size_t)f->palettes;
    t->terms = malloc(3 * n * sizeof(float));
    if (!t->terms) return -1;
    for (size_t i = 0; i < n; i++) {
        const float *of = f->affine_terms + 3 + 4 * (i % f->palettes);
        t->terms[i] = of[0], t->terms[n + i] = of[2], t->terms[2 * n + i] = of[3];
    }
    return 0;
}

u32 cw_treat_shape(const cw_treat *t, const cw_frame *f, u64 dims[3])
{
    if (f->rank != 3) return 0;
    u64 channels = f->dims[t->source_last ? 2 : 0];
    u64 height = t->boxed ? t->out_h : f->dims[t->source_last ? 0 : 1], width = t->boxed ? t->out_w : f->dims[t->source_last ? 1 : 2];
    if (t->normalized && (f->dtype != CW_U8 || (t->normalize.palettes > 1 && channels != t->normalize.palettes))) return 0;
    if (t->boxed && f->dtype != CW_U8 && f->dtype != CW_F32) return 0;
    if (t->boxed && t->source_h && (f->dims[t->source_last ? 0 : 1] != t->source_h || f->dims[t->source_last ? 1 : 2] != t->source_w)) return 0;
    dims[0] = t->out_last ? height : channels;
    dims[1] = t->out_last ? width : height;
    dims[2] = t->out_last ? channels : width;
    return t->normalized ? t->normalize.finish.out_size : f->itemsize;
}

/* ---- channels last --------------------------------------------------------------------------------------------------------- */

#define INTERLEAVE(T)                                                                     \
    {                                                                                     \
        const T *in = (const T *)from;                                                    \
        T *to = (T *)out;                                                                 \
        for (u64 c = 0; c < channels; c++)                                                \
            for (u64 i = 0; i < n; i++) to[i * channels + c] = in[c * stride + i];        \
    }
#define INTERLEAVE_3(T)                                                                   \
    {                                                                                     \
        const T *r = (const T *)from, *g = r + stride, *b = g + stride;                   \
        T *to = (T *)out;                                                                 \
        for (u64 i = 0; i < n; i++, to += 3) to[0] = r[i], to[1] = g[i], to[2] = b[i];    \
    }

#if defined(__x86_64__)
/* Sixteen pixels of three planes: every output vector takes bytes of all three. */
__attribute__((target("avx2"))) static u64 interleave_rgb(const u8 *from, u64 stride, u64 n, u8 *to)
{
    const __m128i from_r[3] = {_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5), _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
                               _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1)};
    const __m128i from_g[3] = {_mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1), _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
                               _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1)};
    const __m128i from_b[3] = {_mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1), _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1),
                               _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)};
    u64 i = 0;
    for (; i + 16 <= n; i += 16, to += 48) {
        __m128i r = _mm_loadu_si128((const __m128i *)(from + i)), g = _mm_loadu_si128((const __m128i *)(from + stride + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(from + 2 * stride + i));
        for (int k = 0; k < 3; k++) {
            __m128i mixed = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, from_r[k]), _mm_shuffle_epi8(g, from_g[k])), _mm_shuffle_epi8(b, from_b[k]));
            _mm_storeu_si128((__m128i *)(to + 16 * k), mixed);
        }
    }
    return i;
}
#endif

/* n pixels of planes that are `stride` elements apart. */
static void interleave(const u8 *from, u64 stride, u64 channels, u64 n, u32 size, u8 *out)
{
    if (channels == 1) {
        memcpy(out, from, n * size);
        return;
    }
#if defined(__x86_64__)
    if (size == 1 && channels == 3 && cw_fast_cpu()) {
        u64 done = interleave_rgb(from, stride, n, out);
        from += done, out += 3 * done, n -= done;
    }
#endif
    if (channels == 3) {
        if (size == 1) INTERLEAVE_3(u8)
        else if (size == 2) INTERLEAVE_3(u16_any)
        else if (size == 4) INTERLEAVE_3(u32_any)
        else INTERLEAVE_3(u64_any)
    } else {
        if (size == 1) INTERLEAVE(u8)
        else if (size == 2) INTERLEAVE(u16_any)
        else if (size == 4) INTERLEAVE(u32_any)
        else INTERLEAVE(u64_any)
    }
}

/* ---- normalising interleaved channels ------------------------------------------------------------------------------------------ */

/* The same steps as finish.c's, with the terms of every channel in turn. */
#define AFFINE_TURNS                                                              \
    for (; n >= turn; n -= turn, codes += turn, out += turn)                      \
        for (u64 i = 0; i < turn; i++) {                                          \
            float k = (float)codes[i];                                            \
            float q = fmaf(k, a[1], k * a[2]) - off[i];                           \
            out[i] = fmaf(q, scale[i], q * rest[i]);                              \
        }

#if defined(__x86_64__)
__attribute__((target("avx2,fma")))
#endif
static void affine_turns(const u8 *restrict codes, u64 n, u64 turn, const float *restrict a, const float *restrict off, f32_any *restrict out)
{
    const float *scale = off + turn, *rest = scale + turn;
    if (turn == 3 * AT_ONCE) { /* known to the compiler: three vectors, whose terms stay in registers */
        turn = 3 * AT_ONCE;
        AFFINE_TURNS
    } else {
        AFFINE_TURNS
    }
    turn = n;
    if (n) {
        AFFINE_TURNS
    }
}

static void normalize_interleaved(const cw_treat *t, const u8 *codes, u64 pixels, u64 channels, u8 *out)
{
    const cw_finish *f = &t->normalize.finish;
    u32 step = f->palettes > 1;
    if (t->terms && (f->palettes == channels || f->palettes == 1)) {
        affine_turns(codes, pixels * channels, AT_ONCE * (u64)f->palettes, f->affine_terms, t->terms, (f32_any *)out);
        return;
    }
    for (u64 c = 0; c < channels; c++) {
        const u8 *table = f->lut + c * step * 256 * f->out_size;
        if (f->out_size == 2)
            for (u64 i = c; i < pixels * channels; i += channels) ((u16_any *)out)[i] = ((const u16_any *)table)[codes[i]];
        else
            for (u64 i = c; i < pixels * channels; i += channels) ((u32_any *)out)[i] = ((const u32_any *)table)[codes[i]];
    }
}

/* ---- an image ---------------------------------------------------------------------------------------------------------------------- */

#define STRETCH 2048 /* pixels whose interleaved bytes stay in the nearest cache until they are floats */

static int planar_to_last(const cw_treat *t, const u8 *from, u64 channels, u64 pixels, u32 size, u8 *out, cw_scratch *s, cw_err *e)
{
    if (!t->normalized) {
        interleave(from, pixels, channels, pixels, size, out);
        return CW_OK;
    }
    u8 *mixed = cw_scratch_take(s, STRETCH * channels);
    if (!mixed) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    for (u64 i = 0; i < pixels; i += STRETCH) {
        u64 n = CW_MIN(pixels - i, (u64)STRETCH);
        interleave(from + i, pixels, channels, n, 1, mixed);
        normalize_interleaved(t, mixed, n, channels, out + i * channels * t->normalize.finish.out_size);
    }
    return CW_OK;
}

static int resized(const cw_treat *t, const cw_frame *f, const u8 *from, u64 channels, const cw_box *box, const u8 **planar, cw_scratch *s, cw_err *e)
{
    u64 height = f->dims[t->source_last ? 0 : 1], width = f->dims[t->source_last ? 1 : 2], bytes;
    if (__builtin_mul_overflow(t->out_h * t->out_w, channels * f->itemsize, &bytes)) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    u8 *to = cw_scratch_take(s, bytes);
    *planar = to;
    int rc = !to ? CW_NOMEM : f->dtype == CW_U8 ? cw_resize_u8(from, channels, height, width, t->source_last, box, t->out_h, t->out_w, to, s)
                                                : cw_resize_f32((const f32_any *)from, channels, height, width, t->source_last, box, t->out_h, t->out_w, (f32_any *)to, s);
    return rc ? cw_fail(e, CW_NOMEM, "memory", 0, 0, 0) : CW_OK;
}

int cw_treat_image(const cw_treat *t, const cw_frame *f, const u8 *decoded, const cw_box *box, u8 *out, cw_scratch *s, cw_err *e)
{
    u64 dims[3] = {0};
    u32 size = cw_treat_shape(t, f, dims);
    u64 channels = dims[t->out_last ? 2 : 0], pixels = dims[0] * dims[1] * dims[2] / CW_MAX(channels, (u64)1);
    int rc, last = t->source_last;
    if (!channels || !pixels) return CW_OK;
    if (t->boxed) {
        if ((rc = resized(t, f, decoded, channels, box, &decoded, s, e))) return rc;
        last = 0;
    }
    if (t->out_last && !last) return planar_to_last(t, decoded, channels, pixels, f->itemsize, out, s, e);
    if (!t->normalized) {
        memcpy(out, decoded, pixels * channels * size);
        return CW_OK;
    }
    if (t->out_last) {
        normalize_interleaved(t, decoded, pixels, channels, out);
        return CW_OK;
    }
    cw_finish finish = t->normalize.finish;
    finish.inner = pixels;
    return cw_finish_run(&finish, decoded, pixels * channels, 0, 1, out, e);
}
