/* A sample's frames out of a mapped shard. What they say is checked before it is believed. */
#include "store.h"

#define HEAD 256 /* most headers are shorter */
#define HEADER_SIZE_AT 6

static int copy_up_to(cw_fetched *f, u64 end, cw_err *e)
{
    if (cw_guarded_copy(f->room + f->copied, f->mapped + f->copied, end - f->copied, NULL, 0))
        return cw_fail(e, CW_CUT_SHORT, "frame", 0, end, f->start);
    f->copied = end;
    return CW_OK;
}

int cw_frame_fetch(const cw_rows *r, u64 i, u32 k, const cw_menus *menus, cw_scratch *s, cw_fetched *f, cw_err *e)
{
    const u8 *row = cw_row(r, i), *copy = r->covered[i * r->frames + k];
    u64 start = cw_row_offset(row, k), size = cw_row_offset(row, k + 1) - start;
    int rc;
    cw_decode_clear(&f->job);
    if (!size) return CW_NO_FRAME;
    if (copy) { /* it is the frame that was written: the row's checksum says so */
        f->copied = size;
        if (!cw_is_short(copy, size)) return cw_fail(e, CW_ROW_TAG, "first byte of a frame that the row covers", copy[0], CW_MOST_CHAINS - 1, start);
        return cw_decode_open(&f->job, copy, size, menus->all, menus->n, menus->own, e);
    }
    f->copied = 0;
    f->start = start;
    f->mapped = r->places[i].shard->base + start;
    f->room = cw_scratch_take(s, size);
    if (!f->room) return cw_fail(e, CW_NOMEM, "memory", 0, 0, 0);
    if ((rc = copy_up_to(f, CW_MIN(size, (u64)HEAD), e))) return rc;
    u32 expected = cw_row_tag(row, r->frames, k), found;
    int is_short = cw_is_short(f->room, size);
    if (is_short) { /* the tag is all that says whether it is the frame that was written */
        if (f->copied < size && (rc = copy_up_to(f, size, e))) return rc;
        if ((found = cw_crc32c(f->room, size)) != expected) return cw_fail(e, CW_ROW_TAG, "checksum of the frame", found, expected, start);
    }
    /* nothing behind the header is looked at while it is read */
    if (!is_short && f->copied < size && cw_load32(f->room + HEADER_SIZE_AT) > f->copied && (rc = copy_up_to(f, size, e))) return rc;
    if ((rc = cw_decode_open(&f->job, f->room, size, menus->all, menus->n, menus->own, e)) || is_short) return rc;
    found = cw_load32(f->room + f->job.frame.header_size - 4);
    return found == expected ? CW_OK : cw_fail(e, CW_ROW_TAG, "header checksum of the frame", found, expected, start);
}

int cw_frame_complete(cw_fetched *f, cw_err *e)
{
    u64 size = f->job.frame.size;
    return f->copied == size ? CW_OK : copy_up_to(f, size, e);
}

int cw_frame_direct(cw_fetched *f, cw_err *e)
{
    const cw_decode_job *job = &f->job;
    const cw_frame *frame = &job->frame;
    if (frame->is_short || frame->coder != CW_STORED || frame->value != CW_AS_IS || job->finish.kind != CW_FINISH_COPY) return -1;
    for (u64 i = 0; i < frame->blocks; i++) {
        u64 offset = job->offsets[i], size = job->offsets[i + 1] - offset, wanted = cw_block_length(frame, i) * frame->itemsize;
        u32 found;
        int rc = CW_OK;
        if (size != wanted) rc = cw_fail(e, CW_BLOCK_SIZE, "stored block", size, wanted, offset);
        else if (cw_guarded_copy(job->out + cw_block_start(frame, i) * frame->itemsize, f->mapped + offset, size, &found, job->past_caches))
            rc = cw_fail(e, CW_CUT_SHORT, "frame", 0, offset + size, f->start);
        else if (found != job->checksums[i]) rc = cw_fail(e, CW_BLOCK_CHECKSUM, "block checksum", found, job->checksums[i], offset);
        if (rc) {
            e->block = (i64)i;
            return rc;
        }
    }
    return CW_OK;
}
