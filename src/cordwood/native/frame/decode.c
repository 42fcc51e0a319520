/* Decoding a frame block by block. A block is the unit of work: it has a checksum of its own and needs nothing from its neighbours. */
#include "entropy.h"
#include "mixed.h"
#include "planes.h"
#include "predict.h"
#include "packers.h"

#include <stdlib.h>

/* The caller's table is indexed by elements; a narrow frame has codes. One table does both steps. */
static int use_normalize(cw_decode_job *job, const cw_normalize *normalize, cw_err *e)
{
    const cw_frame *f = &job->frame;
    cw_finish *fin = &job->finish;
    *fin = normalize->finish;
    if (f->dtype != 1 || normalize->axis >= f->rank || (normalize->palettes > 1 && f->dims[normalize->axis] != normalize->palettes))
        return cw_fail(e, CW_BAD_CALL, "array to normalise", f->dtype, 1, 0);
    for (unsigned i = (unsigned)normalize->axis + 1; i < f->rank; i++) fin->inner *= f->dims[i];
    if (f->elements == 0) fin->inner = 1;
    if (f->value == CW_AS_IS) return CW_OK;
    u8 *lut = job->lut_memory = malloc((size_t)fin->palettes * 256 * fin->out_size);
    if (!lut) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    for (u32 c = 0; c < fin->palettes; c++)
        for (u32 k = 0; k < 256; k++)
            memcpy(lut + ((size_t)c * 256 + k) * fin->out_size,
                   fin->lut + ((size_t)c * 256 + (((u64)f->minimum + (k >> f->shift)) & 255)) * fin->out_size, fin->out_size);
    fin->lut = lut;
    fin->affine = 0;
    return CW_OK;
}

int cw_decode_open(cw_decode_job *job, const u8 *data, u64 size, const cw_menu *menus, size_t n_menus, const cw_menu *own, cw_err *e)
{
    int rc;
    cw_frame *f = &job->frame;
    if (cw_is_short(data, size)) {
        if (!own) return cw_fail(e, CW_PLAN_MISSING, "plan of a short frame", 0, n_menus, 0);
        if ((rc = cw_short_parse(f, own, &job->chain, data, size, e))) return rc;
        job->plan = &job->chain->plan;
        return CW_OK;
    }
    if ((rc = cw_frame_parse(f, data, size, e))) return rc;
    if (f->has_plan) {
        for (size_t i = 0; i < n_menus && !job->plan; i++)
            for (u32 k = 0; k < menus[i].n && !job->plan; k++)
                if (menus[i].chain[k].plan.hash == f->plan_hash && menus[i].chain[k].plan.is_there) job->plan = &menus[i].chain[k].plan;
        if (!job->plan) return cw_fail(e, CW_PLAN_MISSING, "plan hash", f->plan_hash, n_menus, 0);
    } else if (f->value == CW_VALUE_PALETTE && f->palette.source == CW_PALETTE_PLAN) {
        return cw_fail(e, CW_PLAN_MISMATCH, "a plan's palette without a plan", 0, 1, 0);
    }
    return CW_OK;
}

static int make_finish(cw_decode_job *job, u64 table_limit, cw_err *e)
{
    const cw_frame *f = &job->frame;
    if (!job->chain || f->value != CW_VALUE_PALETTE) return cw_finish_make(&job->finish, f, job->plan, table_limit, &job->lut_memory, e);
    job->finish = job->chain->finish;
    if (f->palette.axis != 255) job->finish.inner = CW_MAX(cw_product(f->dims + f->palette.axis + 1, f->rank - f->palette.axis - 1u), (u64)1);
    return CW_OK;
}

int cw_decode_prepare(cw_decode_job *job, const cw_normalize *normalize, u64 table_limit, cw_err *e)
{
    int rc;
    const cw_frame *f = &job->frame;
    if ((rc = normalize ? use_normalize(job, normalize, e) : make_finish(job, table_limit, e))) return rc;
    job->finish.past_caches = job->past_caches;
    int few = f->blocks < 3;
    job->offsets = few ? job->few_offsets : malloc((f->blocks + 1) * sizeof *job->offsets);
    job->checksums = few ? job->few_checksums : malloc((f->blocks + 1) * sizeof *job->checksums);
    if (!job->offsets || !job->checksums) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    if (f->is_short) {
        job->offsets[0] = f->header_size;
        job->offsets[1] = f->size;
        return CW_OK;
    }
    cw_reader r = {f->block_table, f->data + f->header_size, f->data};
    u64 at = f->header_size, n = 0;
    for (u64 i = 0; i < f->blocks; i++, at += n) {
        /* the parser has seen these bytes and their sum; looked at again because memory that is mapped may change meanwhile */
        const u8 *crc;
        job->offsets[i] = at;
        if ((rc = cw_read_varint(&r, &n, CW_TRUNCATED, "block size", e)) || (rc = cw_take(&r, 4, &crc, CW_TRUNCATED, "block checksum", e)))
            return rc;
        if (n > f->size - at) return cw_fail(e, CW_FRAME_SIZE, "blocks", f->size - at, n, at);
        job->checksums[i] = cw_load32(crc);
    }
    job->offsets[f->blocks] = at;
    return CW_OK;
}

void cw_decode_free(cw_decode_job *job)
{
    free(job->lut_memory);
    if (job->offsets != job->few_offsets) free(job->offsets);
    if (job->checksums != job->few_checksums) free(job->checksums);
}

/* An array of one value has no blocks. */
int cw_decode_fill(const cw_decode_job *job, cw_err *e)
{
    const cw_frame *f = &job->frame;
    static const u8 zeros[4096];
    int rc = CW_OK;
    if (f->bits == 0)
        for (u64 i = 0; i < f->elements && !rc; i += sizeof zeros)
            rc = cw_finish_run(&job->finish, zeros, CW_MIN(f->elements - i, sizeof zeros), i, 1, job->out, e);
    return rc;
}

/* ---- planes of a block ----------------------------------------------------------------------------------------------------------- */

#define WORTH_COPYING ((u64)4 << 10) /* bytes of a plane that is unpacked elsewhere, where there is more room */

/* Gives every plane its bytes. On entry planes[i].data is where plane i shall be, or NULL: then a raw plane is used where it lies.
 * Planes of image bytes may end along diagonals, with a stride of 0. */
static int read_planes(const cw_decode_job *job, cw_plane *planes, u32 n, cw_reader *r, cw_scratch *s, cw_err *e)
{
    const cw_frame *f = &job->frame;
    const u8 *modes;
    int rc;
    if ((rc = cw_take(r, n, &modes, CW_BLOCK_SIZE, "plane modes", e))) return rc;
    cw_plane few[8], *coded = n <= 8 ? few : cw_scratch_take(s, n * sizeof *coded);
    int diagonal = f->predict == CW_PREDICT_MED && f->bits == 8 && f->entropy == CW_HUFFMAN && f->tile_h == 4 && f->tile_w == 4;
    if (!coded) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    u32 n_coded = 0;
    for (u32 i = 0; i < n; i++) {
        cw_plane *p = &planes[i];
        u64 bytes = p->rows * p->cols, packed;
        const u8 *from;
        u8 mode = modes[i], value;
        if (mode > CW_MODE_ZSTD_DICT) return cw_fail(e, CW_MODE, "plane mode", mode, CW_MODE_ZSTD_DICT, (u64)(modes + i - r->origin));
        if (mode == CW_RAW) {
            if ((rc = cw_take(r, bytes, &from, CW_BLOCK_SIZE, "raw plane", e))) return rc;
            if (!p->data) {
                p->data = (u8 *)(uintptr_t)from; /* read only from here on */
                continue;
            }
            for (u64 y = 0; y < p->rows; y++) memcpy(p->data + y * p->stride, from + y * p->cols, p->cols);
            continue;
        }
        int is_new = !p->data;
        if (is_new && !(p->data = cw_scratch_take(s, bytes + CW_BEHIND))) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        if (mode == CW_ENTROPY) {
            if (diagonal) p->stride = 0;
            coded[n_coded++] = *p;
            continue;
        }
        if (mode == CW_CONSTANT) {
            if ((rc = cw_read_u8(r, &value, CW_BLOCK_SIZE, "constant", e))) return rc;
            for (u64 y = 0; y < p->rows; y++) memset(p->data + y * p->stride, value, p->cols);
            continue;
        }
        if (f->is_short && n == 1) packed = cw_left(r); /* all that is left */
        else if ((rc = cw_read_varint(r, &packed, CW_BLOCK_SIZE, "plane size", e))) return rc;
        if ((rc = cw_take(r, packed, &from, CW_BLOCK_SIZE, "plane", e))) return rc;
        int fits = is_new || (p->data == job->out && p->stride == p->cols && bytes == f->nbytes && job->behind);
        u8 *to = fits || (p->stride == p->cols && bytes > WORTH_COPYING) ? p->data : cw_scratch_take(s, bytes + CW_BEHIND);
        u64 room = bytes + (fits || to != p->data ? CW_BEHIND : 0);
        if (!to) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        u64 offset = (u64)(from - r->origin);
        if (mode == CW_MODE_LZ4) {
            if (!cw_lz4_unpack(from, packed, to, bytes)) return cw_fail(e, CW_LZ4, "lz4 plane", packed, bytes, offset);
        } else {
            const cw_plan *plan = mode == CW_MODE_ZSTD_DICT ? job->plan : NULL;
            if (mode == CW_MODE_ZSTD_DICT && (!plan || !plan->dictionary_size))
                return cw_fail(e, CW_PLAN_MISMATCH, "the plan's dictionary", 0, 1, offset);
            if (plan && !plan->unpack_words) return cw_fail(e, CW_ZSTD, "the plan's dictionary", plan->dictionary_size, 0, offset);
            if (!cw_zstd_unpack(from, packed, to, bytes, room, plan ? plan->unpack_words : NULL, f->is_short))
                return cw_fail(e, CW_ZSTD, "zstd plane", packed, bytes, offset);
        }
        if (to != p->data && p->stride == p->cols) memcpy(p->data, to, bytes);
        else if (to != p->data)
            for (u64 y = 0; y < p->rows; y++) memcpy(p->data + y * p->stride, to + y * p->cols, p->cols);
    }
    if (n_coded && (rc = cw_entropy_decode(coded, n_coded, f->entropy, f->tile_h, f->tile_w, job->plan, r, s, e))) return rc;
    if (cw_left(r)) return cw_fail(e, CW_BLOCK_SIZE, "end of the block", cw_left(r), 0, cw_at(r));
    return CW_OK;
}

/* ---- blocks of elements ------------------------------------------------------------------------------------------------------------ */

#define ONE_BIT_RUN 4096

static int unpack_bits(const cw_decode_job *job, const u8 *packed, u64 first, u64 n, cw_err *e)
{
    u8 codes[ONE_BIT_RUN];
    for (u64 i = 0; i < n; i += ONE_BIT_RUN) {
        u64 run = CW_MIN(n - i, (u64)ONE_BIT_RUN);
        for (u64 k = 0; k < run; k += 8) { /* spreads eight bits over eight bytes: bit b of the byte ends as bit 0 of byte b */
            u64 v = packed[(i + k) >> 3];
            v = (v * 0x8040201008040201u >> 7) & 0x0101010101010101u;
            v = __builtin_bswap64(v);
            cw_store64(codes + k, v);
        }
        int rc = cw_finish_run(&job->finish, codes, run, first + i, 1, job->out, e);
        if (rc) return rc;
    }
    return CW_OK;
}

static int decode_elements(const cw_decode_job *job, u64 block, cw_reader *r, cw_scratch *s, cw_err *e)
{
    const cw_frame *f = &job->frame;
    u64 first = cw_block_start(f, block), n = cw_block_length(f, block);
    unsigned size = f->bits == 1 ? 1 : f->bits / 8;
    u64 bytes = f->bits == 1 ? (n + 7) / 8 : n * size;
    u32 n_planes = f->planes == CW_TOGETHER ? 1 : size;
    int rc, as_is = f->value == CW_AS_IS && job->finish.kind == CW_FINISH_COPY;
    const u8 *codes;
    if (f->coder == CW_STORED) {
        if ((rc = cw_take(r, bytes, &codes, CW_BLOCK_SIZE, "stored block", e))) return rc;
        if (cw_left(r)) return cw_fail(e, CW_BLOCK_SIZE, "end of the block", cw_left(r), 0, cw_at(r));
    } else {
        cw_plane planes[8];
        for (u32 i = 0; i < n_planes; i++) planes[i] = (cw_plane){NULL, 1, bytes / n_planes, bytes / n_planes};
        u8 *target = as_is ? job->out + first * size : NULL;
        if (n_planes == 1 && f->planes != CW_ROTATED) {
            if (as_is || f->predict) planes[0].data = target ? target : cw_scratch_take(s, bytes);
            if ((as_is || f->predict) && !planes[0].data) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        }
        if ((rc = read_planes(job, planes, n_planes, r, s, e))) return rc;
        u8 *merged = planes[0].data;
        if (n_planes > 1 || f->planes == CW_ROTATED) {
            const u8 *from[8];
            for (u32 i = 0; i < n_planes; i++) from[i] = planes[i].data;
            merged = target ? target : cw_scratch_take(s, bytes);
            if (!merged) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
            cw_planes_merge(from, n, size, f->planes == CW_ROTATED, merged);
        }
        if (f->predict == CW_PREDICT_DELTA) cw_delta_undo(merged, n, f->lag, f->bits);
        codes = merged;
    }
    if (f->bits == 1) return unpack_bits(job, codes, first, n, e);
    return cw_finish_run(&job->finish, codes, n, first, 1, job->out, e);
}

/* ---- blocks of image rows ------------------------------------------------------------------------------------------------------------ */

/* The first element of a row of a channel, and the distance between its columns. */
static u64 row_start(const cw_image *g, u64 row, u32 channel, u64 *step)
{
    *step = g->geometry == CW_HWC ? g->channels : 1;
    if (g->geometry == CW_HWC) return row * g->width * g->channels + channel;
    return ((row / g->height * g->channels + channel) * g->height + row % g->height) * g->width;
}

#define UNCOLOR(T, half)                                                            \
    {                                                                               \
        T *to = (T *)to_;                                                           \
        const T *against = (const T *)against_;                                     \
        for (u64 x = 0; x < n; x++) to[x] = (T)(to[x] + against[x] - half);         \
    }

static void uncolor8_any(u8 *restrict to_, const u8 *restrict against_, u64 n) UNCOLOR(u8, 128)
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void uncolor8_avx2(u8 *restrict to_, const u8 *restrict against_, u64 n) UNCOLOR(u8, 128)
#endif

/* In place. */
static void uncolor(u8 *to_, const u8 *against_, u64 n, unsigned size)
{
    if (size == 2) {
        UNCOLOR(u16, 32768)
        return;
    }
#if defined(__x86_64__)
    if (cw_fast_cpu()) {
        uncolor8_avx2(to_, against_, n);
        return;
    }
#endif
    uncolor8_any(to_, against_, n);
}

/* Rows of all channels, in place: T to X. `n` elements from rows[c] on. */
static void undo_color(const cw_image *g, u8 **rows, u64 n, unsigned size)
{
    if (g->color == CW_COLOR_GREEN) {
        uncolor(rows[0], rows[1], n, size);
        uncolor(rows[2], rows[1], n, size);
    } else if (g->color == CW_COLOR_PREVIOUS) {
        for (u32 c = 1; c < g->channels; c++) uncolor(rows[c], rows[c - 1], n, size);
    }
}

/* `n` rows of all channels from row `first` of the tall image on, `stride` bytes apart. */
static int finish_rows(const cw_decode_job *job, u8 *const *codes, u64 stride, u64 first, u64 n, cw_err *e)
{
    const cw_image *g = &job->frame.image;
    if (g->geometry == CW_HWC && g->channels == 3 && job->finish.kind == CW_FINISH_COPY && job->finish.out_size == 1) {
        cw_interleave3(codes[0], codes[1], codes[2], stride, n, g->width, job->out + first * g->width * 3);
        return CW_OK;
    }
    for (u64 y = 0, run; y < n; y += run) { /* rows of one image */
        run = CW_MIN(n - y, g->height - (first + y) % g->height);
        for (u32 c = 0; c < g->channels; c++) {
            u64 step, at = row_start(g, first + y, c, &step);
            int rc = cw_finish_rows(&job->finish, codes[c] + y * stride, stride, run, g->width, at, step, job->out, e);
            if (rc) return rc;
        }
    }
    return CW_OK;
}

/* Sixteen rows after the other, from residuals to elements while they are in the nearest cache. */
static int decode_byte_rows(const cw_decode_job *job, u64 first, u64 rows, cw_reader *r, cw_scratch *s, cw_err *e)
{
    const cw_image *g = &job->frame.image;
    u64 stride = cw_plane_stride(g->width), plane_bytes = cw_plane_bytes(rows, g->width), band_bytes = cw_plane_bytes(16, g->width);
    int rc;
    cw_plane *planes = cw_scratch_take(s, g->channels * sizeof *planes);
    cw_band *bands = cw_scratch_take(s, g->channels * sizeof *bands);
    u8 **codes = cw_scratch_take(s, g->channels * sizeof *codes);
    u8 *memory = cw_scratch_take(s, (plane_bytes + band_bytes + stride) * g->channels);
    if (!planes || !bands || !codes || !memory) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    u8 *at = memory + CW_MARGIN_LEFT;
    for (u32 c = 0; c < g->channels; c++) {
        planes[c] = (cw_plane){at, rows, g->width, stride};
        at += plane_bytes;
    }
    for (u32 c = 0; c < g->channels; c++) {
        codes[c] = bands[c].to = at;
        bands[c].above = at + band_bytes;
        at += band_bytes + stride;
    }
    if ((rc = read_planes(job, planes, g->channels, r, s, e))) return rc;
    for (u64 y = 0; y < rows; y += 16) {
        for (u32 c = 0; c < g->channels; c++) {
            bands[c].stride = planes[c].stride;
            bands[c].from = planes[c].data + (planes[c].stride ? y * stride : y / 16 * cw_band_bytes(g->width));
        }
        cw_med_undo_bands(bands, g->channels, g->width, stride, y == 0);
        undo_color(g, codes, 15 * stride + g->width, 1);
        if ((rc = finish_rows(job, codes, stride, first + y, CW_MIN(rows - y, (u64)16), e))) return rc;
    }
    return CW_OK;
}

/* As decode_byte_rows, with a predictor and a factor for each group of pixels. */
static int decode_mixed_rows(const cw_decode_job *job, u64 first, u64 rows, cw_reader *r, cw_scratch *s, cw_err *e)
{
    const cw_image *g = &job->frame.image;
    u64 stride = cw_plane_stride(g->width), plane_bytes = cw_plane_bytes(rows, g->width), band_bytes = cw_plane_bytes(16, g->width);
    u64 n_bands = cw_mixed_bands(rows), groups = cw_mixed_groups(g->width), n_groups = n_bands * groups;
    u32 base = cw_mixed_base(g);
    int rc;
    cw_plane *planes = cw_scratch_take(s, (g->channels + 2) * sizeof *planes);
    cw_mixed_band *bands = cw_scratch_take(s, g->channels * sizeof *bands);
    u8 **codes = cw_scratch_take(s, g->channels * sizeof *codes);
    u8 *memory = cw_scratch_take(s, (plane_bytes + band_bytes + 2 * stride) * g->channels);
    if (!planes || !bands || !codes || !memory) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    u8 *at = memory + CW_MARGIN_LEFT;
    for (u32 c = 0; c < g->channels; c++) {
        planes[c] = (cw_plane){at, rows, g->width, stride};
        at += plane_bytes;
    }
    for (u32 c = 0; c < g->channels; c++) {
        codes[c] = bands[c].band.to = at;
        bands[c].band.above = at + band_bytes;
        bands[c].above2 = at + band_bytes + stride;
        bands[c].band.stride = stride;
        at += band_bytes + 2 * stride;
    }
    for (u32 i = 0; i < 2; i++) planes[g->channels + i] = (cw_plane){NULL, n_bands * g->channels, groups, groups};
    if ((rc = read_planes(job, planes, g->channels + 2, r, s, e))) return rc;
    const u8 *kinds = planes[g->channels].data, *factors = planes[g->channels + 1].data;
    for (u64 i = 0; i < n_groups * g->channels; i++) {
        if (kinds[i] >= CW_MIXED_KINDS) return cw_fail(e, CW_CODE, "predictor of a group", kinds[i], CW_MIXED_KINDS - 1, cw_at(r));
        u8 most = i / n_groups == base ? 0 : CW_MIXED_FACTORS - 1;
        if (factors[i] > most) return cw_fail(e, CW_CODE, "factor of a group", factors[i], most, cw_at(r));
    }
    for (u64 y = 0; y < rows; y += 16) {
        for (u32 c = 0; c < g->channels; c++) {
            bands[c].band.from = planes[c].data + y * stride;
            bands[c].kinds = kinds + c * n_groups + y / 16 * groups;
            bands[c].factors = factors + c * n_groups + y / 16 * groups;
        }
        cw_mixed_undo_bands(bands, g->channels, base, g->width, stride, y == 0);
        undo_color(g, codes, 15 * stride + g->width, 1);
        if ((rc = finish_rows(job, codes, stride, first + y, CW_MIN(rows - y, (u64)16), e))) return rc;
    }
    return CW_OK;
}

static int decode_wide_rows(const cw_decode_job *job, u64 first, u64 rows, cw_reader *r, cw_scratch *s, cw_err *e)
{
    const cw_image *g = &job->frame.image;
    u64 plane_bytes = rows * g->width * 2;
    u32 n_planes = g->channels * 2;
    int rc;
    cw_plane *planes = cw_scratch_take(s, n_planes * sizeof *planes);
    u8 **codes = cw_scratch_take(s, g->channels * sizeof *codes);
    u8 *memory = cw_scratch_take(s, plane_bytes * g->channels);
    if (!planes || !codes || !memory) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    for (u32 i = 0; i < n_planes; i++) planes[i] = (cw_plane){NULL, rows, g->width, g->width};
    if ((rc = read_planes(job, planes, n_planes, r, s, e))) return rc;
    for (u32 c = 0; c < g->channels; c++) {
        const u8 *bytes[2] = {planes[2 * c].data, planes[2 * c + 1].data};
        codes[c] = memory + c * plane_bytes;
        cw_planes_merge(bytes, rows * g->width, 2, 0, codes[c]);
        cw_med_undo16((u16 *)codes[c], rows, g->width);
    }
    undo_color(g, codes, rows * g->width, 2);
    return finish_rows(job, codes, g->width * 2, first, rows, e);
}

static int decode_rows(const cw_decode_job *job, u64 block, cw_reader *r, cw_scratch *s, cw_err *e)
{
    const cw_frame *f = &job->frame;
    u64 first = cw_block_start(f, block), rows = cw_block_length(f, block);
    if (f->predict == CW_PREDICT_MIXED) return decode_mixed_rows(job, first, rows, r, s, e);
    return f->bits == 8 ? decode_byte_rows(job, first, rows, r, s, e) : decode_wide_rows(job, first, rows, r, s, e);
}

#define SCRATCH_ALWAYS ((u64)16 << 20) /* ordinary blocks need a few MiB; the limit is about frames that ask for more */

/* Scratch that a block needs, roughly from above: planes, codes, tiles, margins. */
static u64 scratch_needed(const cw_frame *f, u64 n)
{
    u64 code = f->bits == 1 ? 1 : f->bits / 8u, need = 0;
    int over;
    if (cw_in_image(f)) {
        const cw_image *g = &f->image;
        over = __builtin_mul_overflow(g->width + CW_MARGIN_LEFT + CW_MARGIN_RIGHT + 16, n + 31, &need);
        over |= __builtin_mul_overflow(need, 2 * code * g->channels, &need);
    } else {
        over = __builtin_mul_overflow(n, 3 * code, &need);
    }
    return over ? UINT64_MAX : need;
}

int cw_decode_block(const cw_decode_job *job, u64 block, cw_scratch *s, cw_err *e)
{
    const cw_frame *f = &job->frame;
    u64 offset = job->offsets[block], size = job->offsets[block + 1] - offset;
    const u8 *from = f->data + offset;
    u32 found = f->is_short ? 0 : cw_crc32c(from, size), stored = f->is_short ? 0 : job->checksums[block];
    int rc;
    if (found != stored) {
        rc = cw_fail(e, CW_BLOCK_CHECKSUM, "block checksum", found, stored, offset);
    } else if (f->coder != CW_STORED && scratch_needed(f, cw_block_length(f, block)) > CW_MAX(job->limit, SCRATCH_ALWAYS)) {
        rc = cw_fail(e, CW_LIMIT, "memory for a block", scratch_needed(f, cw_block_length(f, block)), job->limit, offset);
    } else {
        cw_reader r = {from, from + size, f->data};
        rc = cw_in_image(f) ? decode_rows(job, block, &r, s, e) : decode_elements(job, block, &r, s, e);
        cw_finish_end(&job->finish);
    }
    if (rc) e->block = (i64)block;
    cw_scratch_reset(s);
    return rc;
}
