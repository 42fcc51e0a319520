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

/* n pixels of planes that are `stride` elements apart. */
static void interleave(const u8 *from, u64 stride, u64 channels, u64 n, u32 size, u8 *out)
{
    if (channels == 1) {
        memcpy(out, from, n * size);
        return;
    }
    if (channels == 3) {
        if (size == 1) cw_interleave3(from, from + stride, from + 2 * stride, 0, 1, n, out);
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
/* Three channels, past the caches: what is returned is done, a whole number of turns. */
__attribute__((target("avx2,fma"))) static u64 affine_rgb_past(const u8 *codes, u64 n, const float *a, const float *off, f32_any *out)
{
    u64 i = 0;
    __m256 ra = _mm256_set1_ps(a[1]), ra_rest = _mm256_set1_ps(a[2]);
    if ((uintptr_t)out & 31) return 0;
    for (; i + 24 <= n; i += 24)
        for (u64 v = 0; v < 24; v += 8) {
            __m256 k = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + i + v))));
            __m256 q = _mm256_sub_ps(_mm256_fmadd_ps(k, ra, _mm256_mul_ps(k, ra_rest)), _mm256_loadu_ps(off + v));
            __m256 scaled = _mm256_fmadd_ps(q, _mm256_loadu_ps(off + 24 + v), _mm256_mul_ps(q, _mm256_loadu_ps(off + 48 + v)));
            _mm256_stream_ps((float *)(out + i + v), scaled);
        }
    return i;
}

__attribute__((target("avx2,fma")))
#endif
static void affine_turns(const u8 *restrict codes, u64 n, u64 turn, const float *restrict a, const float *restrict off, f32_any *restrict out)
{
    const float *scale = off + turn, *rest = scale + turn;
    AFFINE_TURNS
    turn = n; /* what is left of the last one */
    if (n) {
        AFFINE_TURNS
    }
}

static void normalize_interleaved(const cw_treat *t, const u8 *codes, u64 pixels, u64 channels, u8 *out)
{
    const cw_finish *f = &t->normalize.finish;
    u32 step = f->palettes > 1;
    if (t->terms && (f->palettes == channels || f->palettes == 1)) {
        u64 n = pixels * channels, turn = AT_ONCE * (u64)f->palettes, done = 0;
#if defined(__x86_64__)
        if (f->past_caches && turn == 3 * AT_ONCE) done = affine_rgb_past(codes, n, f->affine_terms, t->terms, (f32_any *)out);
#endif
        affine_turns(codes + done, n - done, turn, f->affine_terms, t->terms, (f32_any *)out + done);
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

static int treat_image(const cw_treat *t, const cw_frame *f, const u8 *decoded, const cw_box *box, u8 *out, cw_scratch *s, cw_err *e)
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

int cw_treat_image(const cw_treat *t, const cw_frame *f, const u8 *decoded, const cw_box *box, int past_caches, u8 *out, cw_scratch *s, cw_err *e)
{
    cw_treat now = *t;
    now.normalize.finish.past_caches = past_caches != 0;
    int rc = treat_image(&now, f, decoded, box, out, s, e);
    cw_finish_end(&now.normalize.finish);
    return rc;
}
