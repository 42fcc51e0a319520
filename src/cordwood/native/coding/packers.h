/* zstd and lz4, from the static library that Blosc2's wheel brings. Its headers are not in the wheel; these declarations are of
 * the stable part of their interfaces. */
#ifndef CW_PACKERS_H
#define CW_PACKERS_H

#include "cw.h"

/* A dictionary made ready once for all planes and threads that use it, to pack at one level, or to unpack. NULL: it cannot be, or there is no memory. */
typedef struct ZSTD_CDict_s cw_pack_words;
typedef struct ZSTD_DDict_s cw_unpack_words;
CW_API cw_pack_words *cw_pack_words_new(const u8 *dictionary, size_t size, int level);
CW_API void cw_pack_words_free(cw_pack_words *w);
CW_API cw_unpack_words *cw_unpack_words_new(const u8 *dictionary, size_t size);
CW_API void cw_unpack_words_free(cw_unpack_words *w);

#define CW_ZSTD_MAGIC 0xFD2FB528u

/* One whole frame of today's kind; `words`: NULL for none; bare: without its magic number; room: bytes that may be written. */
CW_API int cw_zstd_unpack(const u8 *from, u64 n, u8 *to, u64 size, u64 room, const cw_unpack_words *words, int bare);
CW_API int cw_lz4_unpack(const u8 *from, u64 n, u8 *to, u64 size);
/* Return the packed size, 0 when it does not fit in `room` or fails. */
CW_API u64 cw_zstd_pack(const u8 *from, u64 n, u8 *to, u64 room, int level, const u8 *dictionary, size_t dictionary_size);
CW_API u64 cw_zstd_pack_bare(const u8 *from, u64 n, u8 *to, u64 room, int level, const cw_pack_words *words); /* without the magic number and the dictionary's */
CW_API u64 cw_lz4_pack(const u8 *from, u64 n, u8 *to, u64 room, int level);
CW_API size_t cw_zstd_train(u8 *dictionary, size_t room, const u8 *samples, const size_t *sizes, unsigned n);
CW_API u64 cw_packed_bound(u64 n);

#endif
