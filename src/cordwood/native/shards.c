/* A sample's row and frames out of a mapped shard. What they say is checked before it is believed. */
#include "store.h"

int cw_row_read(const cw_place *at, u32 row_size, u32 frames, u8 *to, cw_err *e)
{
    const cw_shard *s = at->shard;
    u64 start = s->rows + at->row * row_size; /* inside the file: checked when the shard was attached */
    if (cw_guarded_copy(to, s->base + start, row_size)) return cw_fail(e, CW_CUT_SHORT, "row", 0, row_size, start);
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

int cw_frame_fetch(const cw_place *at, const u8 *row, u32 frames, u32 k, const cw_plan *plans, size_t n_plans, cw_scratch *s, cw_decode_job *job, cw_err *e)
{
    u64 start = cw_row_offset(row, k), size = cw_row_offset(row, k + 1) - start;
    if (!size) return CW_NO_FRAME;
    u8 *frame = cw_scratch_take(s, size);
    if (!frame) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    if (cw_guarded_copy(frame, at->shard->base + start, size)) return cw_fail(e, CW_CUT_SHORT, "frame", 0, size, start);
    int rc = cw_decode_open(job, frame, size, plans, n_plans, e);
    if (rc) return rc;
    u32 found = cw_load32(frame + job->frame.header_size - 4), expected = cw_row_tag(row, frames, k);
    return found == expected ? CW_OK : cw_fail(e, CW_ROW_TAG, "header checksum of the frame", found, expected, start);
}
