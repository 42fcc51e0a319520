/* Errors, the bounded reader, growable output, dtypes. */
#include "cw.h"

#include <stdlib.h>

int cw_fail(cw_err *e, int reason, const char *field, u64 found, u64 expected, u64 offset)
{
    e->reason = reason;
    e->field = field;
    e->found = found;
    e->expected = expected;
    e->offset = offset;
    e->block = -1;
    return reason;
}

int cw_read_long_varint(cw_reader *r, u64 *v, int reason, const char *field, cw_err *e)
{
    u64 value = 0;
    for (unsigned shift = 0;; shift += 7) {
        u8 byte = 0;
        int rc = cw_read_u8(r, &byte, reason, field, e);
        if (rc) return rc;
        /* the tenth byte holds bit 63 alone; a last byte of zero would make two spellings of one number */
        if ((shift == 63 && byte > 1) || (byte == 0 && shift > 0))
            return cw_fail(e, CW_VARINT, field, byte, shift == 63 ? 1 : 127, cw_at(r) - 1);
        value |= (u64)(byte & 127) << shift;
        if (byte < 128) break;
    }
    *v = value;
    return CW_OK;
}

u8 *cw_reserve(cw_buffer *b, size_t n)
{
    if (b->failed) return NULL;
    if (n > b->room - b->size) {
        size_t room = b->room + b->room / 2;
        if (room < b->size + n) room = b->size + n;
        u8 *grown = room < b->size ? NULL : realloc(b->data, room);
        if (!grown) {
            b->failed = 1;
            return NULL;
        }
        b->data = grown;
        b->room = room;
    }
    return b->data + b->size;
}

void cw_put(cw_buffer *b, const void *p, size_t n)
{
    u8 *to = cw_reserve(b, n);
    if (!to || n == 0) return;
    memcpy(to, p, n);
    b->size += n;
}

void cw_put_u8(cw_buffer *b, u8 v) { cw_put(b, &v, 1); }

void cw_put_varint(cw_buffer *b, u64 v)
{
    u8 bytes[10];
    size_t n = 0;
    for (; v > 127; v >>= 7) bytes[n++] = (u8)(v | 128);
    bytes[n++] = (u8)v;
    cw_put(b, bytes, n);
}

void cw_buffer_free(cw_buffer *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

static const cw_dtype dtypes[CW_DTYPES] = {
    {1, 1, 'u'}, {1, 1, 'u'}, {1, 1, 'i'}, {2, 1, 'u'}, {2, 1, 'i'}, {4, 1, 'u'}, {4, 1, 'i'}, {8, 1, 'u'},
    {8, 1, 'i'}, {2, 1, 'f'}, {2, 1, 'f'}, {4, 1, 'f'}, {8, 1, 'f'}, {4, 2, 'f'}, {8, 2, 'f'}, {1, 1, 'o'},
    {1, 1, 'o'}, {1, 1, 'o'}, {1, 1, 'o'}, {1, 1, 'o'}, {2, 2, 'f'}, {1, 1, 'o'},
};

const cw_dtype *cw_dtype_of(unsigned code) { return code < CW_DTYPES ? &dtypes[code] : NULL; }
