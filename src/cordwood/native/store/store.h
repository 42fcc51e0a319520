/* Shards of a store, as docs/format/store.md has them: rows that say where a sample's frames are. */
#ifndef CW_STORE_H
#define CW_STORE_H

#include "cw.h"

/* guard.c: copies out of mappings whose file may become shorter */
CW_API void cw_guard_init(void);                                        /* once */
CW_API void cw_guard_prepare(void);                                     /* before a group of copies: others set handlers too */
CW_API int cw_guarded_copy(void *to, const void *from, size_t n, u32 *crc, int past_caches); /* -1: the file ends before that */
typedef struct { u8 *to; const u8 *from; u64 n, sample; } cw_piece;      /* sample: for the caller */
CW_API u64 cw_guarded_copies(const cw_piece *pieces, u64 n);             /* how many: fewer than n if a file ends before the next one does */

/* Beside the reasons of cw.h; docs/format/store.md has no numbers, messages are made of the field's name. */
enum { CW_OUT_SHAPE = 200, CW_OUT_DTYPE = 201, CW_ROW_CHECKSUM = 210, CW_ROW_OFFSETS = 211, CW_CUT_SHORT = 212, CW_ROW_TAG = 213, CW_NO_FRAME = 214 };

#define CW_SHARD_HEADER 32

/* What a shard of version 2 says of one frame leaf. */
typedef struct {
    u8 width, covered; /* bytes of a size; whether the row's checksum covers its frames, whose tags are then not in the row */
    u64 plan;          /* the name of its plan; 0: none */
} cw_leaf;

typedef struct {
    const u8 *base;  /* the whole file, mapped; NULL: not attached */
    u64 size, rows;  /* bytes; where the rows begin */
    u64 frames_end;  /* where the frames end */
    u64 count;
    u32 row_size;    /* in the file */
    u32 covered;     /* leaves that are */
    u8 start_width;  /* bytes of the offset of a sample's first frame; 0: it is the shard's first byte of frames */
    cw_leaf *leaf;   /* [frames]; NULL: version 1, whose rows are in the file as they are in memory */
    void *owner;     /* a Py_buffer, if it is no mapping but memory of the caller's */
} cw_shard;

#define CW_COVERED_MOST 1024 /* bytes of a frame of a covered leaf */

/* Reads the table in front of the rows, and settles all but base, size, rows, count and owner. -1: it cannot be, or there is no memory. */
CW_API int cw_shard_layout(cw_shard *s, const u8 *table, size_t n, u32 row_size, u32 frames);

/* Where a sample is. */
typedef struct { const cw_shard *shard; u64 row; } cw_place;

/* Rows of a group of samples, in the form that rows have in memory (offsets, tags, columns, states, checksum: `row_size` bytes), and copies of the
 * frames whose tags the rows cover. */
typedef struct {
    const cw_place *places; /* [n]; the first four are the caller's */
    u64 n;
    u32 row_size, frames;
    u8 *row;                /* [n][stride], each with eight bytes of room before it */
    u64 stride;
    const u8 **covered;     /* [n][frames], NULL where there is none */
    cw_err *errors;         /* [n]; a row of no error is right: checksum, offsets in order and inside the shard, tags of the covered frames */
} cw_rows;

/* rows.c: all memory is from `s`; CW_NOMEM, or the errors tell. */
CW_API int cw_rows_read(cw_rows *r, cw_scratch *s);
static inline const u8 *cw_row(const cw_rows *r, u64 i) { return r->row + i * r->stride; }
static inline u64 cw_row_offset(const u8 *row, u32 k) { return cw_load64(row + 8 * (size_t)k); }
static inline u32 cw_row_tag(const u8 *row, u32 frames, u32 k) { return cw_load32(row + 8 * ((size_t)frames + 1) + 4 * (size_t)k); }

/* A frame on its way: its header is read from a private copy, the rest stays in the mapping until it is known where it goes. */
typedef struct {
    const u8 *mapped;   /* the frame in the shard */
    u8 *room;           /* for a copy of all of it */
    u64 copied;         /* bytes that are there */
    u64 start;          /* in the shard, for messages */
    cw_decode_job job;  /* last, as the frame in it */
} cw_fetched;

/* The plans that a frame may need: those that full frames name, and the one that short ones of its leaf are read with. */
typedef struct { const cw_menu *all; size_t n; const cw_menu *own; } cw_menus;

/* Reads the header of frame k of row i, which is right, and finds its plan; CW_NO_FRAME if the sample has none. */
CW_API int cw_frame_fetch(const cw_rows *r, u64 i, u32 k, const cw_menus *menus, cw_scratch *s, cw_fetched *f, cw_err *e);
/* When the job is prepared: stored elements go straight to where they are wanted, and are checked there; returns -1 if that was not
 * possible. Then the rest is copied with cw_frame_complete, and decoded block by block. */
CW_API int cw_frame_direct(cw_fetched *f, cw_err *e);
CW_API int cw_frame_complete(cw_fetched *f, cw_err *e);

#endif
