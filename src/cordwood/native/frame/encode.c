/* Encoding: one look over the whole array for what the value stage needs, then block after block, then the header. */
#include "encode.h"
#include "entropy.h"
#include "mixed.h"
#include "packers.h"
#include "planes.h"
#include "predict.h"

#include <stdlib.h>

#define BLOCK_BYTES ((u64)256 << 10)

/* ---- planes to bytes ------------------------------------------------------------------------------------------------------------------ */

static int is_constant(const cw_plane *p)
{
    u64 n = p->rows * p->cols; /* our planes are contiguous here */
    return n == 0 || memcmp(p->data, p->data + 1, n - 1) == 0;
}

/* Bytes that the best table of one plane would need, from its counts. */
static u64 entropy_estimate(const cw_plane *p)
{
    u32 c[4][256] = {{0}};
    u64 n = p->rows * p->cols, bits = 0, i = 0;
    for (; i + 4 <= n; i += 4) c[0][p->data[i]]++, c[1][p->data[i + 1]]++, c[2][p->data[i + 2]]++, c[3][p->data[i + 3]]++;
    for (; i < n; i++) c[0][p->data[i]]++;
    u32 whole = cw_log2_16((u32)CW_MIN(n, (u64)UINT32_MAX));
    for (int s = 0; s < 256; s++) {
        u32 count = c[0][s] + c[1][s] + c[2][s] + c[3][s];
        if (count) bits += (u64)count * (whole - cw_log2_16(count));
    }
    return bits / 128;
}

/* A code has at least one bit, but where all of a tile is one symbol. */
static u64 fewest_huffman_bytes(const cw_plane *p)
{
    u64 n = p->rows * p->cols, bits = 0;
    for (u64 i = 0, run; i < n; i += run) {
        run = CW_MIN(n - i, (u64)256);
        if (memcmp(p->data + i, p->data + i + 1, run - 1)) bits += run;
    }
    return bits / 8;
}

/* `guess`: NULL, or where about how many bytes the planes become is added, and nothing is written. */
static int write_planes(const cw_encoding *c, const cw_plane *planes, u32 n, cw_buffer *out, int *used_plan, u64 *guess, cw_scratch *s, cw_err *e)
{
    const cw_recipe *r = c->r;
    const cw_plan *plan = r->plan;
    u8 *modes = cw_scratch_take(s, n);
    cw_plane *coded = cw_scratch_take(s, n * sizeof *coded);
    const u8 **packed = cw_scratch_take(s, n * sizeof *packed);
    u64 *packed_size = cw_scratch_take(s, n * sizeof *packed_size);
    if (!modes || !coded || !packed || !packed_size) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    u32 n_coded = 0;
    int in_image = cw_in_image(&c->f);
    for (u32 i = 0; i < n; i++) {
        u64 bytes = planes[i].rows * planes[i].cols, estimate = 0;
        modes[i] = CW_RAW;
        if (is_constant(&planes[i])) {
            modes[i] = CW_CONSTANT;
            continue;
        }
        if (r->mode == CW_ENTROPY || r->mode == CW_MODE_SMALLEST) {
            /* in an image tables differ from tile to tile: the whole plane's counts say too little */
            estimate = in_image && !guess ? bytes - 1 : entropy_estimate(&planes[i]);
            if (guess && r->entropy == CW_HUFFMAN) estimate = CW_MAX(estimate, fewest_huffman_bytes(&planes[i]));
            if (in_image || estimate < bytes - bytes * r->saving / 256) modes[i] = CW_ENTROPY;
        }
        if (r->mode == CW_MODE_ZSTD || r->mode == CW_MODE_LZ4 || r->mode == CW_MODE_SMALLEST) {
            u64 room = cw_packed_bound(bytes), got;
            u8 *to = cw_scratch_take(s, room);
            if (!to) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
            int dictionary = r->mode != CW_MODE_LZ4 && plan && plan->dictionary_size > 0;
            const u8 *words = dictionary ? plan->dictionary : NULL;
            u64 rival = modes[i] == CW_ENTROPY ? CW_MIN(bytes, estimate) : bytes;
            /* a quick look first: where the fast level comes nowhere near, the slow ones will not win either */
            int promising = r->mode != CW_MODE_SMALLEST || cw_zstd_pack(planes[i].data, bytes, to, room, 1, NULL, 0) < rival + rival / 10;
            if (!promising)
                got = 0;
            else if (r->mode == CW_MODE_LZ4)
                got = cw_lz4_pack(planes[i].data, bytes, to, room, r->level);
            else if (c->is_short)
                got = cw_zstd_pack_bare(planes[i].data, bytes, to, room, r->level, dictionary ? r->pack_words : NULL);
            else
                got = cw_zstd_pack(planes[i].data, bytes, to, room, r->level, words, dictionary ? plan->dictionary_size : 0);
            if (got && got + (c->is_short ? 1 : 8) < rival) {
                modes[i] = r->mode == CW_MODE_LZ4 ? CW_MODE_LZ4 : dictionary ? CW_MODE_ZSTD_DICT : CW_MODE_ZSTD;
                packed[i] = to;
                packed_size[i] = got;
                *used_plan |= dictionary;
            }
        }
        if (modes[i] == CW_ENTROPY) coded[n_coded++] = planes[i];
        if (guess) *guess += modes[i] == CW_RAW ? bytes : modes[i] == CW_ENTROPY ? estimate : packed_size[i];
    }
    if (guess) return CW_OK;
    if (c->learner) return cw_learner_take(c->learner, coded, n_coded, c->f.tile_h, c->f.tile_w, e);
    size_t start = out->size, raw = 0;
    cw_put(out, modes, n);
    for (u32 i = 0; i < n; i++) {
        u64 bytes = planes[i].rows * planes[i].cols;
        raw += bytes;
        if (modes[i] == CW_RAW) cw_put(out, planes[i].data, bytes);
        if (modes[i] == CW_CONSTANT) cw_put_u8(out, planes[i].data[0]);
        if (modes[i] >= CW_MODE_ZSTD) {
            if (!c->is_short || n > 1) cw_put_varint(out, packed_size[i]);
            cw_put(out, packed[i], packed_size[i]);
        }
    }
    if (n_coded) {
        int planned = 0, rc = cw_entropy_encode(coded, n_coded, r->entropy, c->f.tile_h, c->f.tile_w, r->max_tables, plan, &planned, out, s, e);
        if (rc) return rc;
        if (out->size - start > n + raw) { /* it did not help after all */
            out->size = start;
            memset(modes, CW_RAW, n);
            cw_put(out, modes, n);
            for (u32 i = 0; i < n; i++) cw_put(out, planes[i].data, planes[i].rows * planes[i].cols);
            planned = 0;
        }
        *used_plan |= planned;
    }
    return out->failed ? cw_fail(e, CW_NOMEM, "memory", 0, 0, 0) : CW_OK;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------------------------------- */

static int encode_elements(const cw_encoding *c, u64 block, cw_buffer *out, int *used_plan, u64 *guess, cw_scratch *s, cw_err *e)
{
    const cw_frame *f = &c->f;
    u64 first = cw_block_start(f, block), n = cw_block_length(f, block);
    unsigned size = f->bits <= 8 ? 1 : f->bits / 8u;
    u64 bytes = n * size;
    const u8 *codes;
    int rc;
    if (f->value == CW_AS_IS) {
        codes = c->r->data + first * size;
    } else {
        u8 *made = cw_scratch_take(s, bytes + 8);
        if (!made) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        if ((rc = cw_values_codes(c, first, n, 1, made, e))) return rc;
        codes = made;
    }
    if (f->bits == 1) {
        bytes = (n + 7) / 8;
        u8 *bits = cw_scratch_take(s, bytes);
        if (!bits) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        memset(bits, 0, bytes);
        for (u64 i = 0; i < n; i++) bits[i >> 3] |= (u8)(codes[i] << (i & 7));
        codes = bits;
    }
    if (f->predict == CW_PREDICT_DELTA) {
        u8 *residuals = cw_scratch_take(s, bytes);
        if (!residuals) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        cw_delta_apply(codes, n, f->lag, f->bits, residuals);
        codes = residuals;
    }
    if (f->coder == CW_STORED && guess) {
        *guess += bytes;
        return CW_OK;
    }
    if (f->coder == CW_STORED) {
        cw_put(out, codes, bytes);
        return out->failed ? cw_fail(e, CW_NOMEM, "memory", 0, 0, 0) : CW_OK;
    }
    cw_plane planes[8];
    u32 n_planes = f->planes == CW_TOGETHER ? 1 : size;
    if (n_planes == 1) {
        planes[0] = (cw_plane){(u8 *)(uintptr_t)codes, 1, bytes, bytes};
    } else {
        u8 *to[8];
        for (u32 i = 0; i < n_planes; i++) {
            if (!(to[i] = cw_scratch_take(s, n))) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
            planes[i] = (cw_plane){to[i], 1, n, n};
        }
        cw_planes_split(codes, n, size, f->planes == CW_ROTATED, to);
    }
    return write_planes(c, planes, n_planes, out, used_plan, guess, s, e);
}

#define COLOR(T, half)                                                              \
    {                                                                               \
        T *to = (T *)to_;                                                           \
        const T *against = (const T *)against_;                                     \
        for (u64 i = 0; i < n; i++) to[i] = (T)(to[i] - against[i] + half);         \
    }

static void color(u8 *to_, const u8 *against_, u64 n, unsigned size)
{
    if (size == 1) COLOR(u8, 128)
    else COLOR(u16, 32768)
}

static int encode_rows(const cw_encoding *c, u64 block, cw_buffer *out, int *used_plan, u64 *guess, cw_scratch *s, cw_err *e)
{
    const cw_frame *f = &c->f;
    const cw_image *g = &f->image;
    u64 first = cw_block_start(f, block), rows = cw_block_length(f, block), n = rows * g->width;
    unsigned size = f->bits / 8u;
    int rc;
    u8 *codes = cw_scratch_take(s, n * size * g->channels), *residuals = cw_scratch_take(s, n * size * g->channels);
    cw_plane *planes = cw_scratch_take(s, (g->channels * size + 2) * sizeof *planes);
    if (!codes || !residuals || !planes) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    for (u32 ch = 0; ch < g->channels; ch++)
        for (u64 y = 0; y < rows; y++) {
            u64 row = first + y, step = g->geometry == CW_HWC ? g->channels : 1;
            u64 at = g->geometry == CW_HWC ? row * g->width * g->channels + ch
                                           : ((row / g->height * g->channels + ch) * g->height + row % g->height) * g->width;
            if ((rc = cw_values_codes(c, at, g->width, step, codes + (ch * n + y * g->width) * size, e))) return rc;
        }
    if (g->color == CW_COLOR_GREEN) {
        color(codes, codes + n * size, n, size);
        color(codes + 2 * n * size, codes + n * size, n, size);
    } else if (g->color == CW_COLOR_PREVIOUS) {
        for (u32 ch = g->channels; ch-- > 1;) color(codes + ch * n * size, codes + (ch - 1) * n * size, n, size);
    }
    if (f->predict == CW_PREDICT_MIXED) {
        u64 n_bands = cw_mixed_bands(rows), groups = cw_mixed_groups(g->width), n_groups = n_bands * groups * g->channels;
        u8 *kinds = cw_scratch_take(s, n_groups), *factors = cw_scratch_take(s, n_groups), *work = cw_scratch_take(s, (CW_MIXED_KINDS + 1) * n);
        if (!kinds || !factors || !work) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        cw_mixed_apply(codes, g->channels, cw_mixed_base(g), g->width, rows, residuals, kinds, factors, work);
        for (u32 ch = 0; ch < g->channels; ch++) planes[ch] = (cw_plane){residuals + ch * n, rows, g->width, g->width};
        planes[g->channels] = (cw_plane){kinds, n_bands * g->channels, groups, groups};
        planes[g->channels + 1] = (cw_plane){factors, n_bands * g->channels, groups, groups};
        return write_planes(c, planes, g->channels + 2, out, used_plan, guess, s, e);
    }
    for (u32 ch = 0; ch < g->channels; ch++) {
        if (size == 1) {
            u8 *to = residuals + ch * n;
            cw_med_apply8(codes + ch * n, g->width, g->width, rows, to);
            planes[ch] = (cw_plane){to, rows, g->width, g->width};
        } else {
            u16 *to = (u16 *)(residuals + ch * n * 2);
            cw_med_apply16((const u16 *)(codes + ch * n * 2), g->width, rows, to);
            /* the codes of this channel are done with: their memory takes the planes */
            u8 *bytes[2] = {codes + ch * n * 2, codes + ch * n * 2 + n};
            cw_planes_split((const u8 *)to, n, 2, 0, bytes);
            for (int b = 0; b < 2; b++) planes[2 * ch + (u32)b] = (cw_plane){bytes[b], rows, g->width, g->width};
        }
    }
    return write_planes(c, planes, g->channels * size, out, used_plan, guess, s, e);
}

static void encode_block(void *ctx, u64 i)
{
    cw_encoding *c = ctx;
    cw_scratch *s = cw_scratch_borrow();
    if (!s) {
        cw_fail(&c->errors[i], CW_NOMEM, "memory", 0, 0, 0);
        return;
    }
    cw_buffer *out = &c->blocks[i];
    u64 *guess = c->estimate ? &c->estimate[i] : NULL;
    if (cw_in_image(&c->f))
        encode_rows(c, i, out, &c->used_plan[i], guess, s, &c->errors[i]);
    else
        encode_elements(c, i, out, &c->used_plan[i], guess, s, &c->errors[i]);
    c->crc[i] = c->is_short ? 0 : cw_crc32c(out->data, out->size);
    cw_scratch_return(s);
}

/* ---- the header ---------------------------------------------------------------------------------------------------------------------------- */

static void put_chain(const cw_encoding *c, cw_buffer *out)
{
    const cw_frame *f = &c->f;
    cw_put_u8(out, f->value);
    if (f->value == CW_VALUE_NARROW) {
        cw_put_varint(out, (u64)f->minimum << 1 ^ (0 - ((u64)f->minimum >> 63)));
        cw_put_u8(out, f->bits);
        cw_put_u8(out, f->shift);
    } else if (f->value == CW_VALUE_PALETTE) {
        const cw_palette *p = &f->palette;
        cw_put_u8(out, p->bits);
        cw_put_u8(out, p->axis);
        cw_put_u8(out, p->source);
        if (p->source == CW_PALETTE_FORMULA) cw_put(out, c->r->formula, c->r->formula_size);
        if (p->source == CW_PALETTE_FRAME)
            for (u32 i = 0; i < p->palettes; i++) {
                cw_put_varint(out, c->inverse.counts[i]);
                cw_put(out, c->inverse.values + (size_t)i * c->inverse.stride * f->itemsize, (size_t)c->inverse.counts[i] * f->itemsize);
            }
    }
    cw_put_u8(out, f->predict);
    if (cw_in_image(f)) cw_put_u8(out, f->image.geometry), cw_put_u8(out, f->image.color);
    if (f->predict == CW_PREDICT_DELTA) cw_put_varint(out, f->lag);
    cw_put_u8(out, f->planes);
    cw_put_u8(out, f->coder);
    if (f->coder == CW_CODED) cw_put_u8(out, f->entropy), cw_put_u8(out, f->tile_h), cw_put_u8(out, f->tile_w);
    cw_put_varint(out, f->block);
}

/* What a short frame tells beside its block: the number of its chain, dimensions that vary, and the range of narrow codes. */
static int assemble_short(const cw_encoding *c, cw_buffer *out, cw_err *e)
{
    const cw_frame *f = &c->f;
    cw_put_u8(out, (u8)(c->r->short_chain - 1));
    for (unsigned i = 0; i < f->rank; i++)
        if (c->r->short_dims[i] == CW_VARIES) cw_put_varint(out, f->dims[i]);
    if (f->elements && c->r->value == CW_VALUE_NARROW) {
        static const u8 kinds[65] = {[0] = 0, [1] = 1, [8] = 2, [16] = 3, [32] = 4, [64] = 5};
        int as_is = f->value == CW_AS_IS;
        cw_put_u8(out, as_is ? CW_NARROW_AS_IS : (u8)(kinds[f->bits] | f->shift << 3));
        if (!as_is) cw_put_varint(out, (u64)f->minimum << 1 ^ (0 - ((u64)f->minimum >> 63)));
    }
    if (f->blocks) cw_put(out, c->blocks[0].data, c->blocks[0].size);
    return out->failed ? cw_fail(e, CW_NOMEM, "memory", 0, 0, 0) : CW_OK;
}

static int assemble(cw_encoding *c, cw_buffer *out, cw_err *e)
{
    const cw_frame *f = &c->f;
    int has_plan = f->value == CW_VALUE_PALETTE && f->palette.source == CW_PALETTE_PLAN;
    u64 body = 0;
    for (u64 i = 0; i < f->blocks; i++) {
        has_plan |= c->used_plan[i];
        body += c->blocks[i].size;
    }
    size_t start = out->size;
    cw_put(out, "CWFR\1\0\0\0\0\0", 10);
    cw_put_u8(out, (u8)has_plan);
    cw_put_u8(out, f->dtype);
    cw_put_u8(out, f->rank);
    for (unsigned i = 0; i < f->rank; i++) cw_put_varint(out, f->dims[i]);
    if (has_plan) cw_put(out, &c->r->plan->hash, 8);
    put_chain(c, out);
    for (u64 i = 0; i < f->blocks; i++) {
        cw_put_varint(out, c->blocks[i].size);
        cw_put(out, &c->crc[i], 4);
    }
    /* stored bytes that are worth mapping start on a cache line; in a shard, where short frames may be, a frame begins anywhere */
    unsigned pad = f->coder == CW_STORED && body >= 65536 && !c->r->short_dims ? (unsigned)-(int)(out->size - start + 5) & 63 : 0;
    static const u8 zeros[64];
    cw_put_u8(out, (u8)pad);
    cw_put(out, zeros, pad);
    if (out->failed || out->size - start + 4 > UINT32_MAX) return cw_fail(e, CW_NOMEM, "header", out->size, UINT32_MAX, 0);
    cw_store32(out->data + start + 6, (u32)(out->size - start + 4));
    u32 crc = cw_crc32c(out->data + start, out->size - start);
    cw_put(out, &crc, 4);
    if (cw_reserve(out, body))
        for (u64 i = 0; i < f->blocks; i++) cw_put(out, c->blocks[i].data, c->blocks[i].size);
    return out->failed ? cw_fail(e, CW_NOMEM, "memory", 0, 0, 0) : CW_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------------------- */

static void plan_blocks(cw_encoding *c)
{
    cw_frame *f = &c->f;
    u64 units = f->elements, unit_bits = f->bits;
    if (cw_in_image(f)) {
        units = f->image.rows;
        unit_bits = f->image.width * f->image.channels * f->bits;
    }
    f->block = c->r->block ? c->r->block : BLOCK_BYTES * 8 / CW_MAX(unit_bits, (u64)1);
    if (cw_in_image(f)) f->block &= ~(u64)15;
    if (f->block < 16) f->block = 16;
    if (f->bits == 1) f->block = (f->block + 7) & ~(u64)7;
    if (f->elements == 0 || f->bits == 0) units = 0;
    f->blocks = units / f->block + (units % f->block != 0);
    c->is_short = c->r->short_chain && f->blocks <= 1 && f->shift < 32;
}

/* To `out`, or to a learner, or just an estimate. */
static int encode_once(const cw_recipe *r, int threads, cw_learner *learner, u64 *estimate, cw_buffer *out, cw_err *e)
{
    cw_encoding c = {.r = r, .learner = learner};
    cw_frame *f = &c.f;
    const cw_dtype *d = cw_dtype_of(r->dtype);
    int rc = CW_OK;
    f->dtype = r->dtype;
    f->rank = r->rank;
    memcpy(f->dims, r->dims, r->rank * sizeof *r->dims);
    f->itemsize = d->itemsize;
    f->elements = cw_product(r->dims, r->rank) * d->components;
    f->nbytes = f->elements * d->itemsize;
    f->bits = (u8)(8 * d->itemsize);
    f->value = r->value;
    f->predict = r->predict;
    f->image.geometry = r->geometry;
    f->image.color = r->color;
    f->lag = r->lag;
    f->planes = r->planes;
    f->coder = r->coder;
    f->entropy = r->entropy;
    f->tile_h = r->tile_h;
    f->tile_w = r->tile_w;
    if (f->elements == 0) f->value = CW_AS_IS, f->predict = CW_PREDICT_NONE; /* there is nothing to look at */
    if (f->value == CW_VALUE_NARROW) cw_values_narrow(&c);
    if (f->value == CW_VALUE_PALETTE) rc = cw_values_palette(&c, e);
    if (!rc) {
        cw_frame_settle(f);
        plan_blocks(&c);
        c.blocks = calloc(f->blocks + 1, sizeof *c.blocks);
        c.crc = calloc(f->blocks + 1, sizeof *c.crc);
        c.used_plan = calloc(f->blocks + 1, sizeof *c.used_plan);
        c.errors = calloc(f->blocks + 1, sizeof *c.errors);
        if (estimate) c.estimate = calloc(f->blocks + 1, sizeof *c.estimate);
        if (!c.blocks || !c.crc || !c.used_plan || !c.errors || (estimate && !c.estimate)) rc = cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    }
    if (!rc) {
        cw_parallel(f->blocks, threads, encode_block, &c);
        for (u64 i = 0; i < f->blocks && !rc; i++)
            if (c.errors[i].reason) *e = c.errors[i], rc = e->reason;
    }
    if (!rc && estimate) {
        *estimate = 0;
        for (u64 i = 0; i < f->blocks; i++) *estimate += c.estimate[i];
        for (u32 i = 0; c.inverse.counts && f->palette.source == CW_PALETTE_FRAME && i < f->palette.palettes; i++)
            *estimate += (u64)c.inverse.counts[i] * f->itemsize;
    } else if (!rc && !learner) {
        rc = c.is_short ? assemble_short(&c, out, e) : assemble(&c, out, e);
    }
    free(c.estimate);
    for (u64 i = 0; c.blocks && i < f->blocks; i++) cw_buffer_free(&c.blocks[i]);
    free(c.blocks);
    free(c.crc);
    free(c.used_plan);
    free(c.errors);
    free(c.fin_memory);
    cw_inverse_free(&c.inverse);
    return rc;
}

int cw_encode(const cw_recipe *r, int threads, cw_buffer *out, cw_err *e)
{
    int rc = encode_once(r, threads, NULL, NULL, out, e);
    if (rc || (r->coder == CW_STORED && r->value == CW_AS_IS)) return rc;
    u64 nbytes = cw_dtype_of(r->dtype)->itemsize * cw_dtype_of(r->dtype)->components * cw_product(r->dims, r->rank);
    if (out->size <= nbytes + 24) return CW_OK;
    /* larger than the array: stored bytes are the smaller frame, and the faster one */
    cw_recipe stored = {.dtype = r->dtype, .rank = r->rank, .dims = r->dims, .data = r->data, .short_dims = r->short_dims};
    cw_buffer plain = {0};
    if ((rc = encode_once(&stored, threads, NULL, NULL, &plain, e))) {
        cw_buffer_free(&plain);
        return rc;
    }
    if (plain.size < out->size) {
        cw_buffer swap = *out;
        *out = plain;
        plain = swap;
    }
    cw_buffer_free(&plain);
    return CW_OK;
}

int cw_encode_estimate(const cw_recipe *r, u64 *bytes, cw_err *e) { return encode_once(r, 1, NULL, bytes, NULL, e); }
int cw_learner_add(cw_learner *l, const cw_recipe *r, cw_err *e) { return encode_once(r, 1, l, NULL, NULL, e); }
