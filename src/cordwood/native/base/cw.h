/* Shared declarations of the native core. docs/format/frame.md is the law: names here follow it.
 *
 * The core knows nothing of Python: only the files in native/python do. Everything that comes out of a frame (sizes,
 * offsets, counts, table indices) is checked where it is read, before it is used; errors travel as a cw_err. */
#ifndef CW_H
#define CW_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

/* Elements at any address: frames lie in memory as they come, and so may the caller's arrays. */
typedef u16 __attribute__((aligned(1), may_alias)) u16_any;
typedef u32 __attribute__((aligned(1), may_alias)) u32_any;
typedef u64 __attribute__((aligned(1), may_alias)) u64_any;
typedef float __attribute__((aligned(1), may_alias)) f32_any;

#define CW_API __attribute__((visibility("hidden")))
#define CW_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CW_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* The numbers of docs/format/frame.md, "Reasons to reject". Never renumber. */
enum {
    CW_OK = 0,
    CW_TRUNCATED = 1, CW_MAGIC, CW_VERSION, CW_FLAGS, CW_HEADER_CHECKSUM, CW_DTYPE, CW_RANK, CW_SHAPE, CW_VARINT,
    CW_CHAIN, CW_NARROW, CW_PALETTE, CW_HEADER_SIZE, CW_FRAME_SIZE, CW_BLOCK_CHECKSUM, CW_PLAN_MISSING,
    CW_PLAN_MISMATCH, CW_MODE, CW_BLOCK_SIZE, CW_ZSTD, CW_LZ4, CW_TABLE, CW_TILE_MAP, CW_STREAM, CW_CODE, CW_LIMIT,
    /* not about bytes from outside */
    CW_NOMEM = 100, CW_PALETTE_MISS, CW_BAD_CALL,
};

typedef struct {
    int reason;
    const char *field;      /* static text: which field of the format */
    u64 found, expected;    /* what the message prints */
    u64 offset;             /* bytes from the start of the frame (or of the assets) */
    i64 block;              /* -1: in the header */
} cw_err;

CW_API int cw_fail(cw_err *e, int reason, const char *field, u64 found, u64 expected, u64 offset);

/* ---- little-endian loads, varints ------------------------------------------------------------------------------ */

static inline u16 cw_load16(const void *p) { u16 v; memcpy(&v, p, 2); return v; }
static inline u32 cw_load32(const void *p) { u32 v; memcpy(&v, p, 4); return v; }
static inline u64 cw_load64(const void *p) { u64 v; memcpy(&v, p, 8); return v; }
static inline void cw_store32(void *p, u32 v) { memcpy(p, &v, 4); }
static inline void cw_store64(void *p, u64 v) { memcpy(p, &v, 8); }

/* A cursor over bytes from outside: nothing reads past `end`. `origin` gives offsets for messages. */
typedef struct { const u8 *p, *end, *origin; } cw_reader;

static inline u64 cw_at(const cw_reader *r) { return (u64)(r->p - r->origin); }
static inline size_t cw_left(const cw_reader *r) { return (size_t)(r->end - r->p); }
/* `reason` is what running out of bytes means here: CW_TRUNCATED in a header, CW_BLOCK_SIZE in a block. */
static inline int cw_read_u8(cw_reader *r, u8 *v, int reason, const char *field, cw_err *e)
{
    if (r->p == r->end) return cw_fail(e, reason, field, 0, 1, cw_at(r)), reason;
    *v = *r->p++;
    return CW_OK;
}

CW_API int cw_read_long_varint(cw_reader *r, u64 *v, int reason, const char *field, cw_err *e); /* of any length */
static inline int cw_read_varint(cw_reader *r, u64 *v, int reason, const char *field, cw_err *e)
{
    if (r->p == r->end || *r->p > 127) return cw_read_long_varint(r, v, reason, field, e);
    *v = *r->p++;
    return CW_OK;
}

static inline int cw_take(cw_reader *r, u64 n, const u8 **v, int reason, const char *field, cw_err *e)
{
    if (n > cw_left(r)) return cw_fail(e, reason, field, cw_left(r), n, cw_at(r)), reason;
    *v = r->p;
    r->p += n;
    return CW_OK;
}

/* A growable output. After a failed allocation `failed` is set and further writes do nothing. */
typedef struct { u8 *data; size_t size, room; int failed; } cw_buffer;
CW_API u8 *cw_reserve(cw_buffer *b, size_t n);  /* room for n more bytes, NULL when out of memory */
CW_API void cw_put(cw_buffer *b, const void *p, size_t n);
CW_API void cw_put_u8(cw_buffer *b, u8 v);
CW_API void cw_put_varint(cw_buffer *b, u64 v);
CW_API void cw_buffer_free(cw_buffer *b);

/* ---- scratch memory: reused between calls, because fresh pages cost more than the work done on them -------------- */

typedef struct cw_scratch cw_scratch;
CW_API cw_scratch *cw_scratch_borrow(void);
CW_API void cw_scratch_return(cw_scratch *s);
CW_API void cw_scratch_reset(cw_scratch *s);
CW_API void *cw_scratch_take(cw_scratch *s, size_t n);  /* 64-byte aligned, not cleared; NULL when out of memory */

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Calls work(ctx, i) for every i below n, on up to `threads` threads including this one; returns when all are done. */
CW_API void cw_parallel(u64 n, int threads, void (*work)(void *ctx, u64 i), void *ctx);
CW_API void cw_threads_init(void); /* once, before anything else here */
CW_API int cw_fast_cpu(void);  /* x86-64 with AVX2, BMI2, FMA: chosen once */

/* ---- checksum ------------------------------------------------------------------------------------------------------ */

CW_API u32 cw_crc32c(const void *data, size_t n);
CW_API u32 cw_copy_crc32c(void *to, const void *from, size_t n, int past_caches); /* copies, and gives the sum of what was copied */
CW_API void cw_crc32c_init(void);
CW_API u32 cw_crc32(u32 crc, const void *data, size_t n); /* of zip archives; going on from `crc` */
CW_API void cw_crc32_init(void);
CW_API void cw_crc_slices(u32 slice[8][256], u32 polynomial); /* fills the tables */
CW_API u32 cw_crc_sliced(u32 slice[8][256], u32 c, const u8 *p, size_t n);
CW_API void cw_log2_init(void);

/* ---- dtypes ---------------------------------------------------------------------------------------------------------- */

#define CW_DTYPES 22
typedef struct { u8 itemsize, components; u8 kind; } cw_dtype; /* itemsize of an element; kind: 'u' unsigned, 'i' signed, 'f' float, 'o' other */
CW_API const cw_dtype *cw_dtype_of(unsigned code);
enum { CW_U8 = 1, CW_F16 = 9, CW_BF16 = 10, CW_F32 = 11, CW_F64 = 12, CW_C64 = 13, CW_C128 = 14, CW_C32 = 20 };

/* ---- a plan's assets --------------------------------------------------------------------------------------------------- */

#define CW_MAX_RANK 64
#define CW_MAX_TABLES 64
#define CW_MAX_PALETTE_VALUES ((u64)1 << 24) /* palettes times the largest count: a look-up table stays small */
#define CW_HUFF_LOG 11
enum { CW_HUFFMAN = 0, CW_ANS = 1 };

/* One coding table as described in bytes: frequencies (ans) or code lengths (huffman). */
typedef struct { u16 value[256]; u16 lo, hi; } cw_table;

typedef struct {
    u64 hash;
    u8 is_there;                   /* 0: it owns nothing, and no frame names it */
    u8 has_palette, palette_dtype, palette_bits, palette_axis;
    u32 palettes;
    const u32 *palette_counts;     /* [palettes] */
    const u8 *palette_values;      /* counts[0] elements, counts[1] elements, ... */
    u8 has_tables, coder, log;
    u32 tables;
    cw_table *table;               /* [tables] */
    void *decode_tables;           /* built once a plan: see entropy.h */
    const u8 *dictionary;
    size_t dictionary_size;
    void *unpack_words;            /* the dictionary, ready to unpack with: see packers.h */
    void *memory[3];
} cw_plan;

CW_API int cw_plan_parse(cw_plan *plan, u64 hash, const u8 *data, size_t n, cw_err *e);
CW_API void cw_plan_free(cw_plan *plan);

/* ---- the header ------------------------------------------------------------------------------------------------------------ */

enum { CW_AS_IS = 0, CW_VALUE_NARROW = 1, CW_VALUE_PALETTE = 2 };
enum { CW_NARROW_AS_IS = 6 };      /* in a short frame: narrow would gain nothing, codes are the elements' bits */
enum { CW_PREDICT_NONE = 0, CW_PREDICT_MED = 1, CW_PREDICT_DELTA = 2, CW_PREDICT_MIXED = 3 };
enum { CW_HW = 0, CW_CHW = 1, CW_HWC = 2 };
enum { CW_COLOR_NONE = 0, CW_COLOR_GREEN = 1, CW_COLOR_PREVIOUS = 2 };
enum { CW_TOGETHER = 0, CW_APART = 1, CW_ROTATED = 2 };
enum { CW_STORED = 0, CW_CODED = 1 };
enum { CW_RAW = 0, CW_CONSTANT = 1, CW_ENTROPY = 2, CW_MODE_ZSTD = 3, CW_MODE_LZ4 = 4, CW_MODE_ZSTD_DICT = 5, CW_MODE_SMALLEST = 6 /* for the encoder: entropy or zstd, whichever is smaller */ };
enum { CW_PALETTE_FRAME = 0, CW_PALETTE_FORMULA = 1, CW_PALETTE_PLAN = 2 };

typedef struct {
    u8 op, per_palette;
    const u8 *operands;            /* f32 or f64, unaligned */
} cw_op;

typedef struct {
    u8 bits, axis, source;
    u32 palettes;                  /* how many */
    u64 inner;                     /* elements that follow one another with the same index on the axis */
    u32 count;                     /* formula: values in each palette */
    u8 work, n_ops;
    cw_op ops[4];
    const u8 *values;              /* in frame: first palette's varint count */
    const u8 *values_end;
} cw_palette;

typedef struct {
    u8 geometry, color;
    u64 rows, height, width;       /* tall image: rows of all images, rows of one image */
    u32 channels;
} cw_image;

typedef struct {
    const u8 *data;
    u64 size;
    u8 major, minor, flags, dtype, rank;
    u64 elements;                  /* components counted */
    u32 itemsize;                  /* of an element */
    u64 nbytes;
    int has_plan;
    u64 plan_hash;
    u8 value;
    i64 minimum;
    u8 bits, shift;                /* of a code, whatever the value stage */
    u8 predict;
    cw_image image;
    u64 lag;
    u8 planes, coder, entropy, tile_h, tile_w;
    u64 block;                     /* rows or elements */
    u64 blocks;
    const u8 *block_table;
    u64 header_size;
    u8 is_short;                   /* it has no checksums of its own, and at most one block */
    cw_palette palette;            /* here, because a short frame without one need not have it copied */
    u64 dims[CW_MAX_RANK];         /* last: what is behind those that there are is neither cleared nor copied */
} cw_frame;

static inline void cw_frame_clear(cw_frame *f) { memset(f, 0, offsetof(cw_frame, dims)); }

CW_API int cw_frame_parse(cw_frame *f, const u8 *data, u64 size, cw_err *e);

static inline u64 cw_product(const u64 *dims, unsigned n)
{
    u64 p = 1;
    while (n--) p *= *dims++;
    return p;
}

/* Leaves out or replaces stages that the codes or the shape cannot take. A writer does so with the stages it was asked for, and a
 * reader with those of a short frame's template. */
CW_API void cw_frame_settle(cw_frame *f);
/* The number of rows or elements that blocks are pieces of. */
CW_API u64 cw_frame_units(const cw_frame *f);

/* Fills rows, height, width from the shape and the geometry, for a rank that has been checked; returns the number of channels. */
CW_API u64 cw_image_layout(cw_frame *f);
/* Reads a palette's formula: count, work type, operations. */
CW_API int cw_formula_read(cw_palette *p, cw_reader *r, cw_err *e);

/* Whether codes make up images: blocks are of rows then. */
static inline int cw_in_image(const cw_frame *f) { return f->predict == CW_PREDICT_MED || f->predict == CW_PREDICT_MIXED; }

/* Elements (or rows) of block i. */
static inline u64 cw_block_start(const cw_frame *f, u64 i) { return i * f->block; }
static inline u64 cw_block_length(const cw_frame *f, u64 i) {
    u64 all = cw_in_image(f) ? f->image.rows : f->elements;
    return CW_MIN(f->block, all - i * f->block);
}

/* ---- finish: codes to the caller's elements --------------------------------------------------------------------------------- */

typedef struct {
    u8 kind;                       /* one of CW_FINISH_* */
    u8 out_size;                   /* bytes of an output element */
    u8 code_size;                  /* 1, 2, 4, 8 */
    u64 minimum;
    u8 shift;
    const u8 *lut;                 /* [palettes][256 or 65536] output elements */
    u32 lut_entries;               /* of one palette: 256 or 65536 */
    u32 palettes;
    u64 inner;
    const u32 *counts;             /* valid codes of each palette, NULL: all */
    u8 affine;                     /* ((k / a) - b[c]) / d[c] in f32 equals the table: proved for every code */
    u8 past_caches;                /* the array is larger than they are, with all that is written beside it */
    const float *affine_terms;     /* a, 1/a, what 1/a leaves, then b, d, 1/d, what 1/d leaves for each palette */
} cw_finish;
enum { CW_FINISH_COPY = 0, CW_FINISH_NARROW = 1, CW_FINISH_LUT = 2 };

/* n codes that are elements first, first+step, first+2*step ... of the array; out is element 0 of the array. */
CW_API int cw_finish_run(const cw_finish *f, const u8 *codes, u64 n, u64 first, u64 step, u8 *out, cw_err *e);
/* Rows of n codes, `stride` bytes apart, that follow each other in the array. */
CW_API int cw_finish_rows(const cw_finish *f, const u8 *codes, u64 stride, u64 rows, u64 n, u64 first, u64 step, u8 *out, cw_err *e);
/* Rows of n bytes of three planes, `stride` bytes apart, to rows of n pixels that follow each other. */
CW_API void cw_interleave3(const u8 *a, const u8 *b, const u8 *c, u64 stride, u64 rows, u64 n, u8 *out);
CW_API void cw_finish_end(const cw_finish *f); /* after the last run of a block */
/* The finish of a frame. `lut_memory` receives what must be freed; it is not larger than `limit`. */
CW_API int cw_finish_make(cw_finish *fin, const cw_frame *f, const cw_plan *plan, u64 limit, void **lut_memory, cw_err *e);
/* With an affine finish: codes of n values of one palette; 0 when a value is not in it. */
CW_API int cw_affine_codes(const cw_finish *f, u32 palette, const u8 *from, u64 n, u8 *codes);
#define CW_AFFINE_TERMS(palettes) (3 + 4 * (size_t)(palettes))
CW_API int cw_finish_try_affine(cw_finish *fin, float a, const float *b, const float *d);

/* ---- menus: what short frames are read with ------------------------------------------------------------------------------------- */

#define CW_VARIES UINT64_MAX       /* a dimension that each frame tells */
#define CW_MOST_CHAINS 64          /* above is the first byte of a full frame */

typedef struct {
    cw_plan plan;                  /* what the chain owns; its hash is 0 if that is nothing */
    u8 has_short;                  /* whether a short frame can name it: then what such a frame does not tell of itself is here */
    cw_frame frame;
    cw_finish finish;              /* of a palette, made once for all frames */
    void *finish_memory;
} cw_chain;

typedef struct {
    u64 name;                      /* of the plan's file */
    u8 dtype, rank;
    u64 dims[CW_MAX_RANK];         /* CW_VARIES: in the frame */
    u32 n;
    cw_chain *chain;               /* [n] */
} cw_menu;

/* The template of a chain whose plan is parsed. */
CW_API int cw_template_parse(cw_chain *c, const cw_menu *m, const u8 *data, size_t n, cw_err *e);
CW_API int cw_short_parse(cw_frame *f, const cw_menu *m, const cw_chain **chain, const u8 *data, u64 size, cw_err *e);
CW_API void cw_menu_free(cw_menu *m);

/* ---- decoding ------------------------------------------------------------------------------------------------------------------ */

/* A finish given by the caller instead of the frame's own: uint8 frames to normalised floats. */
typedef struct { cw_finish finish; int axis; u32 palettes; } cw_normalize;

typedef struct {
    const cw_plan *plan;
    const cw_chain *chain;         /* of a short frame */
    cw_finish finish;
    void *lut_memory;
    u8 *out;
    u64 behind;                    /* bytes behind the array that may be written, too */
    u64 limit;                     /* bytes of scratch that a block may need */
    u8 past_caches;                /* for cw_decode_prepare: write so that caches are left alone, because a batch is larger than they are */
    u64 *offsets;                  /* [blocks + 1] of the blocks in the frame */
    u32 *checksums;                /* [blocks] */
    u64 first_unit;                /* in a batch: number of blocks before this frame */
    u64 few_offsets[3];            /* memory for the two arrays of a frame with one block or two: most have no more */
    u32 few_checksums[3];
    cw_frame frame;                /* last, because it is not cleared */
} cw_decode_job;

/* Zstandard takes care at every step that is near the end of its room: more of it makes small planes faster. */
#define CW_BEHIND 64

/* All else is filled by opening the frame, by its caller, or by cw_decode_prepare. */
static inline void cw_decode_clear(cw_decode_job *job)
{
    job->plan = NULL;
    job->chain = NULL;
    job->lut_memory = NULL;
    job->offsets = NULL;
    job->checksums = NULL;
    job->behind = 0;
    job->frame.size = 0;
}

static inline int cw_is_short(const u8 *frame, u64 size) { return size && frame[0] < CW_MOST_CHAINS; }
/* Read the header and find the plan, for a short frame in `own` (NULL: it is not there); then, when the caller's array is known to fit, make
 * tables (of at most table_limit bytes). */
CW_API int cw_decode_open(cw_decode_job *job, const u8 *data, u64 size, const cw_menu *menus, size_t n_menus, const cw_menu *own, cw_err *e);
CW_API int cw_decode_prepare(cw_decode_job *job, const cw_normalize *normalize, u64 table_limit, cw_err *e);
CW_API int cw_decode_fill(const cw_decode_job *job, cw_err *e); /* what no block says: arrays of one value */
CW_API int cw_decode_block(const cw_decode_job *job, u64 block, cw_scratch *s, cw_err *e);
CW_API void cw_decode_free(cw_decode_job *job);

/* ---- encoding ------------------------------------------------------------------------------------------------------------------- */

typedef struct {
    u8 dtype, rank;
    const u64 *dims;
    const u8 *data;
    u8 value;                      /* wanted: CW_AS_IS, CW_VALUE_NARROW, CW_VALUE_PALETTE */
    u8 pack_bits, align_top;       /* narrow: one-bit codes allowed; shift codes to the top of their bytes */
    u8 palette_bits, palette_axis, palette_source;
    const u8 *formula;             /* the formula's bytes as in the frame */
    size_t formula_size;
    u8 predict, geometry, color;
    u64 lag;
    u8 planes, coder, mode, entropy, tile_h, tile_w;
    u32 max_tables;
    int level;
    u8 saving;                     /* entropy only where it saves this much of a plane, in 1/256 */
    u64 block;                     /* 0: choose */
    const cw_plan *plan;           /* NULL: the frame is self-contained */
    const void *pack_words;        /* the plan's dictionary, ready to pack with */
    u8 short_chain;                /* 0: a full frame; else one more than the number of the chain, for a short one */
    const u64 *short_dims;         /* of the menu; NULL: no short frames are allowed */
    u8 range_known;                /* narrow: of integers, minimum and span */
    i64 minimum;
    u64 span;
} cw_recipe;

CW_API int cw_encode(const cw_recipe *r, int threads, cw_buffer *out, cw_err *e);
/* About how many bytes the array would become. */
CW_API int cw_encode_estimate(const cw_recipe *r, u64 *bytes, cw_err *e);
CW_API void cw_values_range(const u8 *data, u64 n, int dtype, i64 *minimum, u64 *span);

/* One of the ways to encode arrays of a kind. Costs stand for what decoding takes, in 1/65536 of a byte. */
typedef struct {
    cw_recipe recipe;
    u8 has_short;
    u64 per_sample, per_byte;      /* of the array */
} cw_alternative;

typedef struct {
    u8 has_shape, rank, narrows;   /* narrows: one of them wants the range of integers */
    u64 dims[CW_MAX_RANK];         /* of short frames; CW_VARIES */
    u32 n, menu;                   /* alternatives; the first so many are chosen from, the others are tried in order where none of these fits */
    cw_alternative *alternative;   /* [n] */
} cw_encoder;

/* The frame of the alternative with the lowest sum of size and costs: by trial for small arrays, by an estimate for others. */
CW_API int cw_encode_best(const cw_encoder *enc, const u8 *data, const u64 *dims, unsigned rank, int threads, cw_buffer *out, cw_err *e);

/* Tables that suit many arrays, for a plan to own: planes of every array go to one collection, which is then clustered. */
typedef struct cw_learner cw_learner;
CW_API cw_learner *cw_learner_new(void);
CW_API int cw_learner_add(cw_learner *l, const cw_recipe *r, cw_err *e);
CW_API int cw_learner_tables(cw_learner *l, int coder, u32 max_tables, cw_buffer *out); /* log, count, size, descriptions: as in assets */
CW_API void cw_learner_free(cw_learner *l);

#endif
