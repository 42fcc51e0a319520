/* zstd and lz4, from the static library that Blosc2's wheel brings. Its headers are not in the wheel; these declarations are of
 * the stable part of their interfaces. */
#ifndef CW_PACKERS_H
#define CW_PACKERS_H

#include "cw.h"

CW_API int cw_zstd_unpack(const u8 *from, u64 n, u8 *to, u64 size, const u8 *dictionary, size_t dictionary_size);
CW_API int cw_lz4_unpack(const u8 *from, u64 n, u8 *to, u64 size);
/* Return the packed size, 0 when it does not fit in `room` or fails. */
CW_API u64 cw_zstd_pack(const u8 *from, u64 n, u8 *to, u64 room, int level, const u8 *dictionary, size_t dictionary_size);
CW_API u64 cw_lz4_pack(const u8 *from, u64 n, u8 *to, u64 room, int level);
CW_API size_t cw_zstd_train(u8 *dictionary, size_t room, const u8 *samples, const size_t *sizes, unsigned n);
CW_API u64 cw_packed_bound(u64 n);

#endif
