/* Codes to byte planes and back; rotated, a float's exponent has a byte of its own. */
#ifndef CW_PLANES_H
#define CW_PLANES_H

#include "cw.h"

/* size: bytes of a code (split: at least 2); planes[b] holds byte b of n codes. */
CW_API void cw_planes_merge(const u8 *const *planes, u64 n, unsigned size, int rotated, u8 *codes);
CW_API void cw_planes_split(const u8 *codes, u64 n, unsigned size, int rotated, u8 *const *planes);

#endif
