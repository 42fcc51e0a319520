/* Static entropy coding of byte planes: Huffman in eight streams, tabled ANS in four, up to 64 tables chosen by tile. */
#ifndef CW_ENTROPY_H
#define CW_ENTROPY_H

#include "cw.h"

#define CW_STREAMS(coder) ((coder) == CW_HUFFMAN ? 8u : 4u)
#define CW_ANS_LOG 11 /* what our encoder writes */

/* A decode table is an array indexed by the next 11 bits (huffman, u16: length | symbol << 8)
 * or by the state (ans, u32: bits to read | symbol << 8 | base << 16). */
typedef u16 cw_huff_entry;
typedef u32 cw_ans_entry;

static inline size_t cw_decode_table_bytes(int coder, unsigned log)
{
    return coder == CW_HUFFMAN ? sizeof(cw_huff_entry) << CW_HUFF_LOG : sizeof(cw_ans_entry) << log;
}
static inline size_t cw_decode_tables_size(int coder, unsigned log, u32 n) { return n * cw_decode_table_bytes(coder, log); }

/* tables.c */
CW_API int cw_tables_read(cw_table *t, u32 n, int coder, unsigned log, const u8 *bits, u64 bytes, u64 offset, cw_err *e);
CW_API void cw_tables_write(const cw_table *t, u32 n, int coder, cw_buffer *out);
CW_API void cw_table_from_counts(cw_table *t, const u32 *counts, int coder, unsigned log); /* counts: not all zero */
CW_API void cw_decode_tables_build(void *to, const cw_table *t, u32 n, int coder, unsigned log);
CW_API void cw_huff_build(cw_huff_entry *to, const cw_table *t, int differences); /* one; differences: symbols with the zigzag undone */
CW_API void cw_ans_spread(const cw_table *t, unsigned log, u8 *symbols /* [1 << log] */);
CW_API void cw_huff_codes(const cw_table *t, u16 *codes /* [256], bit-reversed */);
CW_API u32 cw_table_symbol_cost(const cw_table *t, unsigned symbol, int coder, unsigned log); /* 1/16 bits; large if it cannot */
CW_API u32 cw_log2_16(u32 x); /* 16 * log2(x), about, by integers alone: the same on every machine */

/* A plane of bytes as a matrix inside a larger memory. Where `stride` is 0 it lies in bands of 16 rows instead, for the prediction in
 * images, and a band along its diagonals: row y, column x, then row y+1, column x-1 and so on are neighbours. Such a plane is read
 * with the zigzag undone: it holds differences. */
typedef struct { u8 *data; u64 rows, cols, stride; } cw_plane;

#define CW_DIAGONAL(y, x) (17 * (y) + 16 * (x))
static inline u64 cw_band_bytes(u64 cols) { return 16 * ((cols + 15 + 15) & ~(u64)15); }

static inline u64 cw_tiles_of(const cw_plane *p, unsigned tile_h, unsigned tile_w)
{
    return ((p->rows + ((u64)1 << tile_h) - 1) >> tile_h) * ((p->cols + ((u64)1 << tile_w) - 1) >> tile_w);
}

CW_API int cw_entropy_decode(const cw_plane *planes, u32 n_planes, int coder, unsigned tile_h, unsigned tile_w,
                             const cw_plan *plan, cw_reader *r, cw_scratch *s, cw_err *e);

/* Appends an entropy section. plan: NULL, or its tables may be used where that is smaller (*used_plan is set then). */
CW_API int cw_entropy_encode(const cw_plane *planes, u32 n_planes, int coder, unsigned tile_h, unsigned tile_w, u32 max_tables,
                             const cw_plan *plan, int *used_plan, cw_buffer *out, cw_scratch *s, cw_err *e);

CW_API int cw_learner_take(cw_learner *l, const cw_plane *planes, u32 n, unsigned tile_h, unsigned tile_w, cw_err *e);

#endif
