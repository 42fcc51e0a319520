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

static u64 load_some(const u8 *p, unsigned bytes)
{
    u64 v = 0;
    memcpy(&v, p, bytes);
    return v;
}

/* The tag of a frame that the row's checksum covers. */
static int covered_tag(const cw_shard *s, u64 offset, u64 size, u32 *tag, cw_err *e)
{
    u8 frame[CW_COVERED_MOST];
    if (cw_guarded_copy(frame, s->base + offset, size, NULL, 0)) return cw_fail(e, CW_CUT_SHORT, "frame", 0, size, offset);
    *tag = cw_crc32c(frame, size);
    return CW_OK;
}

/* `memory` takes what the checksum is of: the row's number, the tags of covered leaves, and the row as it is in the file. */
static int read_packed(const cw_place *at, u32 row_size, u32 frames, u8 *to, u8 *memory, cw_err *e)
{
    const cw_shard *s = at->shard;
    u64 start = s->rows + at->row * s->row_size;
    u32 n = s->row_size, tail = row_size - 12 * frames - 12;
    u8 *covered = memory + 8, *row = covered + 4 * (size_t)s->covered;
    cw_store64(memory, at->row);
    if (cw_guarded_copy(row, s->base + start, n, NULL, 0)) return cw_fail(e, CW_CUT_SHORT, "row", 0, n, start);
    const u8 *p = row + s->start_width, *tags = p;
    for (u32 k = 0; k < frames; k++) tags += s->leaf[k].width;
    u64 offset = s->start_width ? load_some(row, s->start_width) : CW_SHARD_HEADER, wrong = 0;
    u8 *wide_tags = to + 8 * ((size_t)frames + 1);
    for (u32 k = 0; k < frames; k++) {
        u64 size = load_some(p, s->leaf[k].width);
        u32 tag = 0;
        p += s->leaf[k].width;
        cw_store64(to + 8 * (size_t)k, offset);
        if (offset < CW_SHARD_HEADER || offset > s->frames_end || size > s->frames_end - offset || (s->leaf[k].covered && size > CW_COVERED_MOST)) {
            wrong = wrong ? wrong : CW_MAX(offset, (u64)1);
            size = 0; /* told at the end: most such rows have a wrong checksum, which says more */
        }
        if (!s->leaf[k].covered) {
            tag = cw_load32(tags);
            tags += 4;
        } else {
            int rc = size ? covered_tag(s, offset, size, &tag, e) : CW_OK;
            if (rc) return rc;
            cw_store32(covered, tag);
            covered += 4;
        }
        cw_store32(wide_tags + 4 * (size_t)k, tag);
        offset += size;
    }
    if (offset < CW_SHARD_HEADER || offset > s->frames_end) wrong = wrong ? wrong : CW_MAX(offset, (u64)1);
    cw_store64(to + 8 * (size_t)frames, offset);
    memcpy(wide_tags + 4 * (size_t)frames, tags, tail + 4);
    u32 found = cw_crc32c(memory, 8 + 4 * (size_t)s->covered + n - 4), stored = cw_load32(row + n - 4);
    if (found != stored) return cw_fail(e, CW_ROW_CHECKSUM, "row checksum", found, stored, start);
    if (wrong) return cw_fail(e, CW_ROW_OFFSETS, "offset of a frame", wrong, s->frames_end, start);
    return CW_OK;
}

#define ON_THE_STACK 1024 /* most rows are smaller, together with the tags of their leaves */

int cw_row_read(const cw_place *at, u32 row_size, u32 frames, u8 *to, cw_err *e)
{
    const cw_shard *s = at->shard;
    u64 start = s->rows + at->row * s->row_size; /* inside the file: checked when the shard was attached */
    if (s->leaf) {
        u8 few[ON_THE_STACK];
        size_t room = 8 + 4 * (size_t)s->covered + s->row_size;
        u8 *memory = room <= sizeof few ? few : malloc(room);
        if (!memory) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
        int rc = read_packed(at, row_size, frames, to, memory, e);
        if (memory != few) free(memory);
        return rc;
    }
    if (cw_guarded_copy(to, s->base + start, row_size, NULL, 0)) return cw_fail(e, CW_CUT_SHORT, "row", 0, row_size, start);
    cw_store64(to - 8, at->row); /* the checksum covers it, so that a row in a wrong place is not taken for another */
    u32 found = cw_crc32c(to - 8, (size_t)row_size + 4), stored = cw_load32(to + row_size - 4);
    if (found != stored) return cw_fail(e, CW_ROW_CHECKSUM, "row checksum", found, stored, start);
    u64 last = CW_SHARD_HEADER;
    for (u32 k = 0; k <= frames; k++) {
        u64 offset = cw_row_offset(to, k);
        if (offset < last || offset > s->rows) return cw_fail(e, CW_ROW_OFFSETS, "offset of a frame", offset, last, start + 8 * (u64)k);
        last = offset;
    }
    return CW_OK;
}
