/* CRCs of reflected polynomials without special instructions: eight table look-ups take in eight bytes. */
#include "cw.h"

void cw_crc_slices(u32 slice[8][256], u32 polynomial)
{
    for (u32 i = 0; i < 256; i++) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? polynomial : 0);
        slice[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (u32 i = 0; i < 256; i++) slice[t][i] = slice[t - 1][i] >> 8 ^ slice[0][slice[t - 1][i] & 255];
}

u32 cw_crc_sliced(u32 slice[8][256], u32 c, const u8 *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        u64 v = cw_load64(p) ^ c;
        c = slice[7][v & 255] ^ slice[6][v >> 8 & 255] ^ slice[5][v >> 16 & 255] ^ slice[4][v >> 24 & 255] ^
            slice[3][v >> 32 & 255] ^ slice[2][v >> 40 & 255] ^ slice[1][v >> 48 & 255] ^ slice[0][v >> 56];
    }
    for (; n; n--) c = c >> 8 ^ slice[0][(c ^ *p++) & 255];
    return c;
}
