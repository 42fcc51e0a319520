/* A sample's row out of a mapped shard. In memory a row is always wide: u64 offsets, u32 tags, columns, states, checksum. A file of version 1 has
 * it so; one of version 2 has it packed, with sizes in place of offsets, and without the tags of small frames. */
#include "store.h"

#include <stdlib.h>

#define TABLE_HEAD 8
#define TABLE_LEAF 10

int cw_shard_layout(cw_shard *s, const u8 *table, size_t n, u32 row_size, u32 frames)
{
    s->leaf = NULL;
    s->covered = 0;
    s->start_width = 0;
    s->row_size = row_size;
    s->frames_end = s->rows;
    if (!n) return 0;
    if (n != TABLE_HEAD + (size_t)TABLE_LEAF * frames + 4 || n > s->rows || s->rows - n < CW_SHARD_HEADER) return -1;
    s->frames_end = s->rows - n;
    s->start_width = table[4];
    if (s->start_width > 8 || (frames && !s->start_width) || !(s->leaf = malloc((frames + 1) * sizeof *s->leaf))) return -1;
    u32 tail = row_size - 12 * frames - 12; /* columns and states */
    s->row_size = s->start_width + tail + 4;
    for (u32 k = 0; k < frames; k++) {
        const u8 *from = table + TABLE_HEAD + (size_t)TABLE_LEAF * k;
        s->leaf[k] = (cw_leaf){.width = from[0], .covered = from[1] & 1, .plan = cw_load64(from + 2)};
        if (from[0] < 1 || from[0] > 8 || from[1] > 1) return -1;
        s->covered += s->leaf[k].covered;
        s->row_size += from[0] + (s->leaf[k].covered ? 0 : 4);
    }
    return 0;
}

/* A packed row on its way. `raw` takes what the checksum is of: the row's number, the tags of covered leaves, and the row as it is in the file. */
typedef struct { u8 *raw; u64 wrong; } packed;

#define SLACK 8 /* bytes behind a packed row, so that a field can be loaded as eight bytes */

static u64 load_some(const u8 *p, unsigned bytes) { return cw_load64(p) & UINT64_MAX >> (64 - 8 * bytes); }

static size_t raw_size(const cw_shard *s) { return 8 + 4 * (size_t)s->covered + s->row_size; }

/* Where the file ends before a piece does, that is told of its sample; the others are copied all the same. */
static void copy_pieces(cw_rows *r, const cw_piece *pieces, u64 n, const char *what)
{
    for (u64 at = 0; (at += cw_guarded_copies(pieces + at, n - at)) < n; at++) {
        const cw_piece *p = &pieces[at];
        if (!r->errors[p->sample].reason) cw_fail(&r->errors[p->sample], CW_CUT_SHORT, what, 0, p->n, (u64)(p->from - r->places[p->sample].shard->base));
    }
}

/* All that a packed row says: the tags of covered frames are not among it. Gives the bytes of these frames. */
static u64 unpack_row(const cw_rows *r, u64 i, packed *in)
{
    const cw_shard *s = r->places[i].shard;
    u8 *to = r->row + i * r->stride, *wide_tags = to + 8 * ((size_t)r->frames + 1);
    const u8 *row = in->raw + 8 + 4 * (size_t)s->covered, *p = row + s->start_width, *tags = p;
    u64 offset = s->start_width ? load_some(row, s->start_width) : CW_SHARD_HEADER, covered = 0;
    in->wrong = 0;
    for (u32 k = 0; k < r->frames; k++) tags += s->leaf[k].width;
    for (u32 k = 0; k < r->frames; k++) {
        const cw_leaf *leaf = &s->leaf[k];
        u64 size = load_some(p, leaf->width);
        p += leaf->width;
        cw_store64(to + 8 * (size_t)k, offset);
        if (offset < CW_SHARD_HEADER || offset > s->frames_end || size > s->frames_end - offset || (leaf->covered && size > CW_COVERED_MOST)) {
            in->wrong = in->wrong ? in->wrong : CW_MAX(offset, (u64)1);
            size = 0; /* told at the end: most such rows have a wrong checksum, which says more */
        }
        if (leaf->covered) {
            covered += size;
        } else {
            cw_store32(wide_tags + 4 * (size_t)k, cw_load32(tags));
            tags += 4;
        }
        offset += size;
    }
    if (offset < CW_SHARD_HEADER || offset > s->frames_end) in->wrong = in->wrong ? in->wrong : CW_MAX(offset, (u64)1);
    cw_store64(to + 8 * (size_t)r->frames, offset);
    memcpy(wide_tags + 4 * (size_t)r->frames, tags, (size_t)(row + s->row_size - tags));
    return covered;
}

/* Has the covered frames of a row copied to `to`; samples in random order are in no cache, and memory answers late: it is asked for all of them at once. */
static u8 *expect_covered(cw_rows *r, u64 i, u8 *to, cw_piece *pieces, u64 *n)
{
    const cw_shard *s = r->places[i].shard;
    for (u32 k = 0; k < r->frames; k++) {
        u64 start = cw_row_offset(cw_row(r, i), k), size = cw_row_offset(cw_row(r, i), k + 1) - start;
        if (!s->leaf[k].covered || !size) continue;
        for (u64 b = 0; b < size; b += 64) __builtin_prefetch(s->base + start + b);
        pieces[(*n)++] = (cw_piece){to, s->base + start, size, i};
        r->covered[i * r->frames + k] = to;
        to += size;
    }
    return to;
}

static void check_packed(const cw_rows *r, u64 i, const packed *in)
{
    const cw_shard *s = r->places[i].shard;
    u8 *row = r->row + i * r->stride, *tags = in->raw + 8;
    for (u32 k = 0; k < r->frames; k++) {
        if (!s->leaf[k].covered) continue;
        const u8 *frame = r->covered[i * r->frames + k];
        u32 tag = frame ? cw_crc32c(frame, cw_row_offset(row, k + 1) - cw_row_offset(row, k)) : 0;
        cw_store32(row + 8 * ((size_t)r->frames + 1) + 4 * (size_t)k, tag);
        cw_store32(tags, tag);
        tags += 4;
    }
    u64 start = s->rows + r->places[i].row * s->row_size;
    size_t n = raw_size(s) - 4;
    cw_store64(in->raw, r->places[i].row);
    u32 found = cw_crc32c(in->raw, n), stored = cw_load32(in->raw + n);
    if (found != stored) cw_fail(&r->errors[i], CW_ROW_CHECKSUM, "row checksum", found, stored, start);
    else if (in->wrong) cw_fail(&r->errors[i], CW_ROW_OFFSETS, "offset of a frame", in->wrong, s->frames_end, start);
}

static void check_wide(const cw_rows *r, u64 i)
{
    const cw_shard *s = r->places[i].shard;
    u64 start = s->rows + r->places[i].row * s->row_size, last = CW_SHARD_HEADER;
    u8 *row = r->row + i * r->stride;
    cw_store64(row - 8, r->places[i].row); /* the checksum covers it, so that a row in a wrong place is not taken for another */
    u32 found = cw_crc32c(row - 8, (size_t)r->row_size + 4), stored = cw_load32(row + r->row_size - 4);
    if (found != stored) cw_fail(&r->errors[i], CW_ROW_CHECKSUM, "row checksum", found, stored, start);
    for (u32 k = 0; k <= r->frames && !r->errors[i].reason; k++) {
        u64 offset = cw_row_offset(row, k);
        if (offset < last || offset > s->rows) cw_fail(&r->errors[i], CW_ROW_OFFSETS, "offset of a frame", offset, last, start + 8 * (u64)k);
        last = offset;
    }
}

int cw_rows_read(cw_rows *r, cw_scratch *s)
{
    u64 n_pieces = 0, raw_bytes = 0, covered = 0, frames = r->n * r->frames;
    for (u64 i = 0; i < r->n; i++) {
        const cw_shard *shard = r->places[i].shard;
        n_pieces += CW_MAX(shard->covered, 1u);
        raw_bytes += raw_size(shard) + SLACK;
        __builtin_prefetch(shard->base + shard->rows + r->places[i].row * shard->row_size);
    }
    r->stride = ((u64)r->row_size + 15) & ~(u64)7;
    r->row = cw_scratch_take(s, r->n * r->stride + 8);
    r->covered = cw_scratch_take(s, (frames + 1) * sizeof *r->covered);
    r->errors = cw_scratch_take(s, r->n * sizeof *r->errors);
    packed *in = cw_scratch_take(s, r->n * sizeof *in);
    u8 *raw = cw_scratch_take(s, raw_bytes);
    cw_piece *pieces = cw_scratch_take(s, n_pieces * sizeof *pieces);
    if (!r->row || !r->covered || !r->errors || !in || !raw || !pieces) return CW_NOMEM;
    r->row += 8;
    memset(r->covered, 0, frames * sizeof *r->covered);
    for (u64 i = 0; i < r->n; i++) {
        const cw_shard *shard = r->places[i].shard; /* its rows are inside the file: checked when it was attached */
        in[i].raw = raw;
        raw += raw_size(shard) + SLACK;
        u8 *to = shard->leaf ? in[i].raw + 8 + 4 * (size_t)shard->covered : r->row + i * r->stride;
        pieces[i] = (cw_piece){to, shard->base + shard->rows + r->places[i].row * shard->row_size, shard->row_size, i};
        r->errors[i].reason = CW_OK;
    }
    copy_pieces(r, pieces, r->n, "row");
    for (u64 i = 0; i < r->n; i++)
        if (r->places[i].shard->leaf && !r->errors[i].reason) covered += unpack_row(r, i, &in[i]);
    u8 *frame = cw_scratch_take(s, covered);
    if (!frame) return CW_NOMEM;
    n_pieces = 0;
    for (u64 i = 0; i < r->n; i++)
        if (r->places[i].shard->leaf && !r->errors[i].reason) frame = expect_covered(r, i, frame, pieces, &n_pieces);
    copy_pieces(r, pieces, n_pieces, "frame");
    for (u64 i = 0; i < r->n; i++) {
        if (r->errors[i].reason) continue;
        if (r->places[i].shard->leaf) check_packed(r, i, &in[i]);
        else check_wide(r, i);
    }
    return CW_OK;
}
