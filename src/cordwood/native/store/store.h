/* Shards of a store, as docs/format/store.md has them: rows that say where a sample's frames are. */
#ifndef CW_STORE_H
#define CW_STORE_H

#include "cw.h"

/* guard.c: copies out of mappings whose file may become shorter */
CW_API void cw_guard_init(void);                                        /* once */
CW_API void cw_guard_prepare(void);                                     /* before a group of copies: others set handlers too */
CW_API int cw_guarded_copy(void *to, const void *from, size_t n, u32 *crc, int past_caches); /* -1: the file ends before that */

/* Beside the reasons of cw.h; docs/format/store.md has no numbers, messages are made of the field's name. */
enum { CW_OUT_SHAPE = 200, CW_OUT_DTYPE = 201, CW_ROW_CHECKSUM = 210, CW_ROW_OFFSETS = 211, CW_CUT_SHORT = 212, CW_ROW_TAG = 213, CW_NO_FRAME = 214 };

#define CW_SHARD_HEADER 32

typedef struct {
    const u8 *base;  /* the whole file, mapped; NULL: not attached */
    u64 size, rows;  /* bytes; where the rows begin */
    u64 count;
    void *owner;     /* a Py_buffer, if it is no mapping but memory of the caller's */
} cw_shard;

/* Where a sample is. */
typedef struct { const cw_shard *shard; u64 row; } cw_place;

/* Copies a row and checks it: checksum, offsets in order and inside the shard. `to` has 8 bytes of room before it. */
CW_API int cw_row_read(const cw_place *at, u32 row_size, u32 frames, u8 *to, cw_err *e);
static inline u64 cw_row_offset(const u8 *row, u32 k) { return cw_load64(row + 8 * (size_t)k); }
static inline u32 cw_row_tag(const u8 *row, u32 frames, u32 k) { return cw_load32(row + 8 * ((size_t)frames + 1) + 4 * (size_t)k); }

/* A frame on its way: its header is read from a private copy, the rest stays in the mapping until it is known where it goes. */
typedef struct {
    cw_decode_job job;
    const u8 *mapped;   /* the frame in the shard */
    u8 *copy;           /* room for all of it */
    u64 copied;         /* bytes that are there */
    u64 start;          /* in the shard, for messages */
} cw_fetched;

/* Reads the header of frame k of a checked row and finds its plan; CW_NO_FRAME if the sample has none. */
CW_API int cw_frame_fetch(const cw_place *at, const u8 *row, u32 frames, u32 k, const cw_plan *plans, size_t n_plans, cw_scratch *s, cw_fetched *f, cw_err *e);
/* When the job is prepared: stored elements go straight to where they are wanted, and are checked there; returns -1 if that was not
 * possible. Then the rest is copied with cw_frame_complete, and decoded block by block. */
CW_API int cw_frame_direct(cw_fetched *f, cw_err *e);
CW_API int cw_frame_complete(cw_fetched *f, cw_err *e);

#endif
