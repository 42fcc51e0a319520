/* Which of a plan's chains an array is encoded by: the one with the lowest sum of size and costs. Sizes are found by trial where the array is
 * small; elsewhere they are estimated on patches of it. Nothing here reads a clock: the same array gives the same frame on every machine. */
#include "cw.h"

#include <stdlib.h>

#define TRIED ((u64)8 << 10)       /* bytes of an array that is encoded by all chains */
#define MOST_SHORT ((u64)16 << 10) /* bytes of an array that may have a short frame */
#define PATCHES 3
#define PATCH_ROWS 16
#define PATCH_COLUMNS 48
#define PATCH_BYTES ((u64)1 << 10) /* a line has patches of so many bytes, or of a 128th of it */
#define POINT 16                   /* bits of a score behind the point: scores are bytes */
#define NO_SCORE UINT64_MAX
#define SPARSE 16                  /* next to nothing: less than one byte in so many */
/* Estimates that are so near to the lowest one are tried, too. */
#define CLOSE_KIND(rival, lowest) ((rival) / 5 < (lowest) / 4)
#define CLOSE_COLOR(rival, lowest) ((rival) / 17 < (lowest) / 16)

/* An array as [outer][rows][columns][inner bytes]: rows and columns are what patches are cut out of. */
typedef struct { u64 outer, rows, columns, inner; unsigned axis; } view;

static view view_of(const cw_recipe *r)
{
    const cw_dtype *d = cw_dtype_of(r->dtype);
    view v = {.axis = r->rank >= 3 && r->dims[0] <= 64 ? r->rank - 2u : 0, .outer = 1, .rows = 1, .columns = 1, .inner = (u64)d->itemsize * d->components};
    if (!r->rank) return v;
    v.outer = cw_product(r->dims, v.axis);
    v.rows = r->dims[v.axis];
    if (v.axis + 1u < r->rank) v.columns = r->dims[v.axis + 1];
    if (v.axis + 2u < r->rank) v.inner *= cw_product(r->dims + v.axis + 2, r->rank - v.axis - 2u);
    return v;
}

/* A part of the array that stands for it, in memory that is freed by the caller; NULL: the whole array does. */
static int take_patches(const cw_recipe *r, u64 nbytes, u8 **taken, u64 *dims, u64 *size, cw_err *e)
{
    *taken = NULL;
    view v = view_of(r);
    u64 columns = CW_MIN(v.columns, (u64)PATCH_COLUMNS), rows = PATCH_ROWS;
    if (v.columns == 1) rows = CW_MAX(PATCH_BYTES, nbytes / 128) / CW_MAX(v.outer * v.inner, (u64)1);
    if (rows < 1 || v.rows < 2 * PATCHES * rows) return CW_OK;
    u64 row = columns * v.inner;
    *size = v.outer * PATCHES * rows * row;
    if (*size > nbytes / 2) return CW_OK;
    u8 *to = *taken = malloc(*size);
    if (!to) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    for (u64 o = 0; o < v.outer; o++)
        for (u64 k = 0; k < PATCHES; k++) {
            u64 top = (v.rows - rows) * k / (PATCHES - 1), left = (v.columns - columns) * ((k + 1) % PATCHES) / (PATCHES - 1);
            for (u64 y = top; y < top + rows; y++, to += row)
                memcpy(to, r->data + ((o * v.rows + y) * v.columns + left) * v.inner, row);
        }
    memcpy(dims, r->dims, r->rank * sizeof *dims);
    dims[v.axis] = PATCHES * rows;
    if (v.axis + 1u < r->rank) dims[v.axis + 1] = columns;
    return CW_OK;
}

static u64 score_of(const cw_alternative *a, u64 bytes, u64 nbytes)
{
    return (bytes << POINT) + a->per_sample + a->per_byte * nbytes;
}

typedef struct {
    const cw_encoder *enc;
    cw_recipe recipe;     /* of the array: what all alternatives share */
    u64 nbytes;
    int may_be_short, threads;
    int is_sparse;        /* it is next to nothing: all alternatives are tried, which is quick then, and estimates are too coarse */
    u64 *scores;          /* [menu] */
} choice;

static cw_recipe recipe_of(const choice *c, u32 k)
{
    const cw_alternative *a = &c->enc->alternative[k];
    cw_recipe r = a->recipe;
    r.dims = c->recipe.dims;
    r.rank = c->recipe.rank;
    r.data = c->recipe.data;
    r.range_known = c->recipe.range_known;
    r.minimum = c->recipe.minimum;
    r.span = c->recipe.span;
    r.short_dims = c->enc->has_shape ? c->enc->dims : NULL;
    r.short_chain = c->may_be_short && a->has_short ? (u8)(k + 1) : 0;
    return r;
}

/* Palettes that the plan has, by a formula or as values: where one of them fits, its codes are smaller than elements and than codes of a palette
 * that has to be in the frame. */
static int has_levels(const cw_recipe *r) { return r->value == CW_VALUE_PALETTE && r->palette_source != CW_PALETTE_FRAME; }

/* Of the alternatives with levels, or of the others. */
static int estimate_some(const choice *c, int levels, const u8 *data, const u64 *dims, u64 size, u64 *fewest, int *fits, cw_err *e)
{
    *fewest = NO_SCORE;
    *fits = 0;
    for (u32 k = 0; k < c->enc->menu; k++) {
        cw_recipe r = recipe_of(c, k);
        u64 bytes = 0;
        if (has_levels(&r) != levels) continue;
        r.data = data;
        r.dims = dims;
        r.short_chain = 0;
        if (r.mode == CW_MODE_ZSTD) r.level = 1; /* quicker, and near enough */
        int rc = cw_encode_estimate(&r, &bytes, e);
        c->scores[k] = NO_SCORE;
        if (rc == CW_PALETTE_MISS) continue;
        if (rc) return rc;
        *fits = 1;
        *fewest = CW_MIN(*fewest, bytes);
        c->scores[k] = score_of(&c->enc->alternative[k], bytes * (c->nbytes >> 8) / CW_MAX(size >> 8, (u64)1), c->nbytes);
    }
    return CW_OK;
}

static int in_image(const cw_encoder *enc, u32 k)
{
    u8 predict = enc->alternative[k].recipe.predict;
    return predict == CW_PREDICT_MED || predict == CW_PREDICT_MIXED;
}

static int estimate(choice *c, int levels, int *fits, cw_err *e)
{
    u64 dims[CW_MAX_RANK], size = 0, fewest = 0;
    u8 *patches;
    int rc = take_patches(&c->recipe, c->nbytes, &patches, dims, &size, e);
    if (!rc && patches) rc = estimate_some(c, levels, patches, dims, size, &fewest, fits, e);
    free(patches);
    /* where there is next to nothing in the patches, what is elsewhere decides */
    if (!rc && (!patches || (*fits && fewest < size / SPARSE))) {
        size = c->nbytes;
        rc = estimate_some(c, levels, c->recipe.data, c->recipe.dims, size, &fewest, fits, e);
    }
    c->is_sparse = fewest < size / SPARSE;
    /* patches cannot tell color transforms apart that are nearly as good: then the one that suits the plan's sample is taken */
    int is_first = 1;
    for (u32 k = 0; k < c->enc->menu && size < c->nbytes; k++) {
        if (!in_image(c->enc, k) || c->scores[k] == NO_SCORE) continue;
        if (!is_first) c->scores[k] += c->scores[k] / 32;
        is_first = 0;
    }
    return rc;
}

static int is_mixed(const cw_encoder *enc, u32 k) { return enc->alternative[k].recipe.predict == CW_PREDICT_MIXED; }

static int has_zstd(const cw_encoder *enc, u32 k) { return enc->alternative[k].recipe.mode >= CW_MODE_ZSTD; }

/* The lowest score of a kind: -1 for all, else whether it has zstd. */
static u32 lowest(const choice *c, int zstd)
{
    u32 best = c->enc->menu;
    for (u32 k = 0; k < c->enc->menu; k++)
        if (c->scores[k] != NO_SCORE && (zstd < 0 || has_zstd(c->enc, k) == zstd) && (best == c->enc->menu || c->scores[k] < c->scores[best])) best = k;
    return best; /* the number of alternatives if there is none */
}

/* Whether the quickest level, on the whole array, comes near enough to the best frame for zstd to be tried as it is. */
static int is_promising(const choice *c, u32 k, u64 best)
{
    cw_recipe r = recipe_of(c, k);
    cw_err ignored = {0};
    u64 bytes = 0;
    r.short_chain = 0;
    r.level = 1;
    return cw_encode_estimate(&r, &bytes, &ignored) || score_of(&c->enc->alternative[k], bytes, c->nbytes) / 9 < best / 8;
}

/* Keeps the better one of what is in `out` and this alternative's frame; the score of an alternative that was tried is used up. */
static int try_one(const choice *c, u32 k, u64 *best, cw_buffer *out, cw_buffer *other, cw_err *e)
{
    cw_recipe r = recipe_of(c, k);
    cw_buffer *to = *best == NO_SCORE ? out : other;
    to->size = 0;
    int rc = cw_encode(&r, c->threads, to, e);
    c->scores[k] = NO_SCORE;
    if (rc == CW_PALETTE_MISS) return CW_OK;
    if (rc) return rc;
    u64 score = score_of(&c->enc->alternative[k], to->size, c->nbytes);
    if (score >= *best) return CW_OK;
    if (to == other) {
        cw_buffer swap = *out;
        *out = *other;
        *other = swap;
    }
    *best = score;
    return CW_OK;
}

static int try_estimated(choice *c, u64 *best, cw_buffer *out, cw_buffer *other, cw_err *e)
{
    const cw_encoder *enc = c->enc;
    for (;;) {
        u32 k = lowest(c, -1);
        int rc;
        if (k == enc->menu) return CW_OK;
        u64 expected = c->scores[k];
        if ((rc = try_one(c, k, best, out, other, e))) return rc;
        if (*best == NO_SCORE || c->is_sparse) continue;
        /* patches say little of repeats that are far apart: a rival of the other kind that is close is tried, too */
        u32 rival = lowest(c, !has_zstd(enc, k));
        if (rival < enc->menu && CLOSE_KIND(c->scores[rival], expected)) {
            if (has_zstd(enc, rival) && !is_promising(c, rival, *best)) return CW_OK;
            return try_one(c, rival, best, out, other, e);
        }
        /* nor of which color transform suits an image: one more is tried */
        rival = lowest(c, -1);
        if (rival < enc->menu && is_mixed(enc, rival) && is_mixed(enc, k) && CLOSE_COLOR(c->scores[rival], expected))
            return try_one(c, rival, best, out, other, e);
        return CW_OK;
    }
}

static int encode_chosen(choice *c, cw_buffer *out, cw_buffer *other, u64 *best, cw_err *e)
{
    const cw_encoder *enc = c->enc;
    int rc = CW_OK;
    if (c->nbytes <= TRIED || enc->menu == 1) {
        for (u32 k = 0; k < enc->menu && !rc; k++) rc = try_one(c, k, best, out, other, e);
        return rc;
    }
    u32 with_levels = 0, last = 0;
    for (u32 k = 0; k < enc->menu; k++) {
        c->scores[k] = NO_SCORE;
        if (has_levels(&enc->alternative[k].recipe)) with_levels++, last = k;
    }
    if (with_levels == 1) rc = try_one(c, last, best, out, other, e); /* there is nothing to compare it with */
    for (int levels = with_levels > 1; levels >= 0 && *best == NO_SCORE && !rc; levels--) {
        int fits;
        if (!(rc = estimate(c, levels, &fits, e)) && fits) rc = try_estimated(c, best, out, other, e);
    }
    return rc;
}

int cw_encode_best(const cw_encoder *enc, const u8 *data, const u64 *dims, unsigned rank, int threads, cw_buffer *out, cw_err *e)
{
    const cw_recipe *first = &enc->alternative[0].recipe;
    const cw_dtype *d = cw_dtype_of(first->dtype);
    choice c = {.enc = enc, .threads = threads, .recipe = {.dtype = first->dtype, .rank = (u8)rank, .dims = dims, .data = data}};
    u64 elements = cw_product(dims, rank), scores[CW_MOST_CHAINS], best = NO_SCORE;
    int rc;
    c.nbytes = elements * d->itemsize * d->components;
    c.scores = scores;
    c.may_be_short = enc->has_shape && enc->rank == rank && c.nbytes <= MOST_SHORT;
    for (unsigned i = 0; i < rank && c.may_be_short; i++) c.may_be_short = enc->dims[i] == CW_VARIES || enc->dims[i] == dims[i];
    if (enc->narrows && first->dtype <= 8 && elements) {
        cw_values_range(data, elements, first->dtype, &c.recipe.minimum, &c.recipe.span);
        c.recipe.range_known = 1;
    }
    cw_buffer other = {0};
    rc = encode_chosen(&c, out, &other, &best, e);
    for (u32 k = enc->menu; k < enc->n && !rc && best == NO_SCORE; k++) { /* the last resorts */
        cw_recipe r = recipe_of(&c, k);
        out->size = 0;
        rc = cw_encode(&r, threads, out, e);
        if (!rc) best = 0;
        else if (rc == CW_PALETTE_MISS) rc = CW_OK;
    }
    cw_buffer_free(&other);
    if (!rc && best == NO_SCORE) return cw_fail(e, CW_PALETTE_MISS, "array without a chain that fits", elements, enc->n, 0);
    if (!rc) e->reason = CW_OK;
    return rc;
}
