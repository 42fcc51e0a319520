#include "packers.h"

#include <limits.h>
#include <pthread.h>

typedef struct ZSTD_CCtx_s ZSTD_CCtx;
typedef struct ZSTD_DCtx_s ZSTD_DCtx;
extern ZSTD_CCtx *ZSTD_createCCtx(void);
extern ZSTD_DCtx *ZSTD_createDCtx(void);
extern size_t ZSTD_freeCCtx(ZSTD_CCtx *);
extern size_t ZSTD_freeDCtx(ZSTD_DCtx *);
extern unsigned ZSTD_isError(size_t);
extern size_t ZSTD_compress_usingDict(ZSTD_CCtx *, void *, size_t, const void *, size_t, const void *, size_t, int);
extern cw_pack_words *ZSTD_createCDict(const void *, size_t, int);
extern size_t ZSTD_freeCDict(cw_pack_words *);
extern cw_unpack_words *ZSTD_createDDict(const void *, size_t);
extern size_t ZSTD_freeDDict(cw_unpack_words *);
extern size_t ZSTD_DCtx_setParameter(ZSTD_DCtx *, int, int);
extern size_t ZSTD_CCtx_reset(ZSTD_CCtx *, int);
extern size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *, int, int);
extern size_t ZSTD_CCtx_refCDict(ZSTD_CCtx *, const cw_pack_words *);
extern size_t ZSTD_compress2(ZSTD_CCtx *, void *, size_t, const void *, size_t);
extern size_t ZSTD_decompressDCtx(ZSTD_DCtx *, void *, size_t, const void *, size_t);
extern size_t ZSTD_decompress_usingDDict(ZSTD_DCtx *, void *, size_t, const void *, size_t, const cw_unpack_words *);
extern size_t ZSTD_findFrameCompressedSize(const void *, size_t);
extern size_t ZDICT_trainFromBuffer(void *, size_t, const void *, const size_t *, unsigned);
extern unsigned ZDICT_isError(size_t);
extern int LZ4_compress_fast(const char *, char *, int, int, int);
extern int LZ4_compress_HC(const char *, char *, int, int, int);
extern int LZ4_decompress_safe(const char *, char *, int, int);

/* A context a thread, kept: making one costs more than packing a small plane. Freed when the thread ends. */
static pthread_key_t packing_key, unpacking_key, bare_key;
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;

static void free_packing(void *p) { ZSTD_freeCCtx(p); }
static void free_unpacking(void *p) { ZSTD_freeDCtx(p); }
static void make_keys(void)
{
    pthread_key_create(&packing_key, free_packing);
    pthread_key_create(&unpacking_key, free_unpacking);
    pthread_key_create(&bare_key, free_unpacking);
}

cw_pack_words *cw_pack_words_new(const u8 *dictionary, size_t size, int level) { return ZSTD_createCDict(dictionary, size, level); }
void cw_pack_words_free(cw_pack_words *w) { ZSTD_freeCDict(w); }
cw_unpack_words *cw_unpack_words_new(const u8 *dictionary, size_t size) { return ZSTD_createDDict(dictionary, size); }
void cw_unpack_words_free(cw_unpack_words *w) { ZSTD_freeDDict(w); }

/* The size of the frame without magic number that is at the start of these bytes; 0: there is no whole one. The library would go on with what follows. */
static u64 bare_size(const u8 *p, u64 n)
{
    static const u8 ids[] = {0, 1, 2, 4}, sizes[] = {0, 2, 4, 8};
    if (!n) return 0;
    unsigned told = p[0], is_single = told >> 5 & 1;
    u64 at = 1u + !is_single + ids[told & 3] + (told >> 6 ? sizes[told >> 6] : is_single);
    for (u32 head = 0; !(head & 1);) { /* blocks; the last one says so */
        if (at + 3 > n) return 0;
        head = cw_load16(p + at) | (u32)p[at + 2] << 16;
        at += 3 + ((head >> 1 & 3) == 1 ? 1 : head >> 3); /* one byte is repeated, or as many are there */
    }
    at += told & 4; /* of a checksum */
    return at <= n ? at : 0;
}

enum { FORMAT = 1000, WITHOUT_MAGIC = 1 }; /* of ZSTD_dParameter: ZSTD_d_format */

int cw_zstd_unpack(const u8 *from, u64 n, u8 *to, u64 size, u64 room, const cw_unpack_words *words, int bare)
{
    pthread_once(&keys_once, make_keys);
    ZSTD_DCtx *ctx = pthread_getspecific(bare ? bare_key : unpacking_key);
    if (!ctx) {
        if (!(ctx = ZSTD_createDCtx())) return 0;
        if (bare && ZSTD_isError(ZSTD_DCtx_setParameter(ctx, FORMAT, WITHOUT_MAGIC))) return ZSTD_freeDCtx(ctx), 0;
        pthread_setspecific(bare ? bare_key : unpacking_key, ctx);
    }
    /* one frame of today's kind (the library may know older ones), nothing after it */
    if (bare ? bare_size(from, n) != n : n < 4 || cw_load32(from) != CW_ZSTD_MAGIC || ZSTD_findFrameCompressedSize(from, n) != n) return 0;
    size_t got = words ? ZSTD_decompress_usingDDict(ctx, to, room, from, n, words) : ZSTD_decompressDCtx(ctx, to, room, from, n);
    return !ZSTD_isError(got) && got == size;
}

static ZSTD_CCtx *packing_context(void)
{
    pthread_once(&keys_once, make_keys);
    ZSTD_CCtx *ctx = pthread_getspecific(packing_key);
    if (!ctx) pthread_setspecific(packing_key, ctx = ZSTD_createCCtx());
    return ctx;
}

u64 cw_zstd_pack(const u8 *from, u64 n, u8 *to, u64 room, int level, const u8 *dictionary, size_t dictionary_size)
{
    ZSTD_CCtx *ctx = packing_context();
    if (!ctx) return 0;
    size_t got = ZSTD_compress_usingDict(ctx, to, room, from, n, dictionary, dictionary_size, level);
    return ZSTD_isError(got) ? 0 : got;
}

enum { SESSION_AND_PARAMETERS = 3, LEVEL = 100, DICTIONARY_ID = 202 }; /* of ZSTD_ResetDirective and ZSTD_cParameter */

u64 cw_zstd_pack_bare(const u8 *from, u64 n, u8 *to, u64 room, int level, const cw_pack_words *words)
{
    ZSTD_CCtx *ctx = packing_context();
    if (!ctx) return 0;
    size_t bad = ZSTD_isError(ZSTD_CCtx_reset(ctx, SESSION_AND_PARAMETERS)) | ZSTD_isError(ZSTD_CCtx_setParameter(ctx, DICTIONARY_ID, 0));
    if (words) bad |= ZSTD_isError(ZSTD_CCtx_refCDict(ctx, words)); /* its level is used */
    else bad |= ZSTD_isError(ZSTD_CCtx_setParameter(ctx, LEVEL, level));
    size_t got = bad ? 0 : ZSTD_compress2(ctx, to, room, from, n);
    if (bad || ZSTD_isError(got) || got < 4) return 0;
    memmove(to, to + 4, got - 4);
    return got - 4;
}

int cw_lz4_unpack(const u8 *from, u64 n, u8 *to, u64 size)
{
    if (n > INT_MAX || size > INT_MAX) return 0;
    return LZ4_decompress_safe((const char *)from, (char *)to, (int)n, (int)size) == (int)size;
}

u64 cw_lz4_pack(const u8 *from, u64 n, u8 *to, u64 room, int level)
{
    if (n > INT_MAX || room > INT_MAX) return 0;
    int got = level > 2 ? LZ4_compress_HC((const char *)from, (char *)to, (int)n, (int)room, level)
                        : LZ4_compress_fast((const char *)from, (char *)to, (int)n, (int)room, 1);
    return got > 0 ? (u64)got : 0;
}

#define LEAST_LEARNED 64 /* bytes */

size_t cw_zstd_train(u8 *dictionary, size_t room, const u8 *samples, const size_t *sizes, unsigned n)
{
    /* It learns from the first three quarters of the samples, and crashes where these have fewer than eight bytes. */
    u64 learned = 0;
    for (unsigned i = 0; i < n - n / 2 && learned < LEAST_LEARNED; i++) learned += sizes[i];
    if (learned < LEAST_LEARNED) return 0;
    size_t got = ZDICT_trainFromBuffer(dictionary, room, samples, sizes, n);
    return ZDICT_isError(got) ? 0 : got;
}

u64 cw_packed_bound(u64 n) { return n + n / 128 + 1024; }
