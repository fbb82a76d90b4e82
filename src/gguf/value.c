// Reading values: by index, or by key with conversion between number types where nothing is lost.
#include "gguf/internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t gguf_n_values(const gguf *g)
{
    return g->parts[0].n_values;
}

const gguf_value *gguf_value_at(const gguf *g, size_t index)
{
    assert(index < g->parts[0].n_values);
    return &g->parts[0].values[index].value;
}

const gguf_value *gguf_find(const gguf *g, const char *key)
{
    return gguf_part_find(&g->parts[0], key);
}

// ---- one number -------------------------------------------------------------------------------

// A number as the file has it; `kind` says which field holds it.
typedef struct number {
    enum { NUMBER_INT, NUMBER_UINT, NUMBER_FLOAT } kind;
    int64_t i;
    uint64_t u;
    double f;
} number;

static number number_int(int64_t i)
{
    return (number){.kind = NUMBER_INT, .i = i};
}

static number number_uint(uint64_t u)
{
    return (number){.kind = NUMBER_UINT, .u = u};
}

static number load_number(const uint8_t *at, gguf_type type)
{
    uint32_t u32 = gguf_type_bytes(type) >= 4 ? load_u32(at) : 0;
    uint64_t u64 = gguf_type_bytes(type) == 8 ? load_u64(at) : 0;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    switch (type) {
    case GGUF_BOOL:
    case GGUF_U8: return number_uint(at[0]);
    case GGUF_I8: return number_int((int8_t)at[0]);
    case GGUF_U16: return number_uint(load_u16(at));
    case GGUF_I16: return number_int((int16_t)load_u16(at));
    case GGUF_U32: return number_uint(u32);
    case GGUF_I32: memcpy(&i32, &u32, 4); return number_int(i32);
    case GGUF_U64: return number_uint(u64);
    case GGUF_I64: memcpy(&i64, &u64, 8); return number_int(i64);
    case GGUF_F32: memcpy(&f32, &u32, 4); return (number){.kind = NUMBER_FLOAT, .f = (double)f32};
    case GGUF_F64: memcpy(&f64, &u64, 8); return (number){.kind = NUMBER_FLOAT, .f = f64};
    case GGUF_STRING:
    case GGUF_ARRAY: break;
    }
    assert(!"a number type");
    return number_int(0);
}

// Whole numbers between -2^63 and 2^64, as int or uint; false: not one.
static bool to_whole(number *n)
{
    if (n->kind != NUMBER_FLOAT) return true;
    if (!(n->f >= -0x1p63 && n->f < 0x1p64)) return false; // NaN too
    number whole = n->f < 0 ? number_int((int64_t)n->f) : number_uint((uint64_t)n->f);
    double back = whole.kind == NUMBER_INT ? (double)whole.i : (double)whole.u;
    if (back < n->f || back > n->f) return false;
    *n = whole;
    return true;
}

static bool to_u64(number n, uint64_t max, uint64_t *out)
{
    if (!to_whole(&n)) return false;
    if (n.kind == NUMBER_INT) {
        if (n.i < 0) return false;
        n.u = (uint64_t)n.i;
    }
    if (n.u > max) return false;
    *out = n.u;
    return true;
}

static bool to_i64(number n, int64_t *out)
{
    if (!to_whole(&n)) return false;
    if (n.kind == NUMBER_UINT) {
        if (n.u > INT64_MAX) return false;
        n.i = (int64_t)n.u;
    }
    *out = n.i;
    return true;
}

static bool to_f64(number n, double *out)
{
    double f = n.kind == NUMBER_INT ? (double)n.i : n.kind == NUMBER_UINT ? (double)n.u : n.f;
    // Back again it must be the same number; 2^63 and 2^64 themselves don't convert back.
    if (n.kind == NUMBER_INT && (f >= 0x1p63 || (int64_t)f != n.i)) return false;
    if (n.kind == NUMBER_UINT && (f >= 0x1p64 || (uint64_t)f != n.u)) return false;
    *out = f;
    return true;
}

static bool to_f32(number n, float *out)
{
    double f;
    if (!to_f64(n, &f)) return false;
    if (f > 0x1.fffffep127 || f < -0x1.fffffep127) {
        // Infinities stay what they are, other numbers of that size don't fit.
        if (f <= 0x1.fffffffffffffp1023 && f >= -0x1.fffffffffffffp1023) return false;
    }
    float g = (float)f;
    if ((double)g < f || (double)g > f) return false;
    *out = g;
    return true;
}

// ---- by key -----------------------------------------------------------------------------------

static bool is_number(gguf_type type)
{
    return type != GGUF_BOOL && type != GGUF_STRING && type != GGUF_ARRAY;
}

static pm_status wrong_type(const gguf_part *p, const gguf_value *v, const char *wanted)
{
    return error_set(PM_ERROR_FILE, "%s: key '%.*s' is of type %s, must be %s", p->path,
                     (int)v->key.len, v->key.data, gguf_type_name(v->type), wanted);
}

// The number under `key`. *there says whether the key is.
static pm_status find_number(const gguf_part *p, const char *key, const gguf_value **v, number *n)
{
    *v = gguf_part_find(p, key);
    if (!*v) return PM_OK;
    if (!is_number((*v)->type)) return wrong_type(p, *v, "a number");
    *n = load_number(p->header + ((const value_entry *)*v)->at, (*v)->type);
    return PM_OK;
}

static pm_status no_fit(const gguf_part *p, const gguf_value *v, number n, const char *allowed)
{
    char text[32];
    if (n.kind == NUMBER_INT)
        snprintf(text, sizeof text, "%" PRId64, n.i);
    else if (n.kind == NUMBER_UINT)
        snprintf(text, sizeof text, "%" PRIu64, n.u);
    else
        snprintf(text, sizeof text, "%.17g", n.f);
    return error_set(PM_ERROR_FILE, "%s: key '%.*s' is %s (%s), must be %s", p->path,
                     (int)v->key.len, v->key.data, text, gguf_type_name(v->type), allowed);
}

static pm_status part_uint(const gguf_part *p, const char *key, uint64_t max, const char *allowed,
                           uint64_t *out)
{
    const gguf_value *v;
    number n;
    pm_status status = find_number(p, key, &v, &n);
    if (status != PM_OK || !v || to_u64(n, max, out)) return status;
    return no_fit(p, v, n, allowed);
}

pm_status gguf_part_u64(const gguf_part *p, const char *key, uint64_t *out)
{
    return part_uint(p, key, UINT64_MAX, "a whole number from 0 to 18446744073709551615", out);
}

pm_status gguf_get_u64(const gguf *g, const char *key, uint64_t *out)
{
    return gguf_part_u64(&g->parts[0], key, out);
}

pm_status gguf_get_u32(const gguf *g, const char *key, uint32_t *out)
{
    uint64_t value = *out;
    pm_status status =
        part_uint(&g->parts[0], key, UINT32_MAX, "a whole number from 0 to 4294967295", &value);
    if (status == PM_OK) *out = (uint32_t)value;
    return status;
}

pm_status gguf_get_i64(const gguf *g, const char *key, int64_t *out)
{
    const gguf_value *v;
    number n;
    pm_status status = find_number(&g->parts[0], key, &v, &n);
    if (status != PM_OK || !v || to_i64(n, out)) return status;
    return no_fit(&g->parts[0], v, n, "a whole number from -2^63 to 2^63 - 1");
}

pm_status gguf_get_f64(const gguf *g, const char *key, double *out)
{
    const gguf_value *v;
    number n;
    pm_status status = find_number(&g->parts[0], key, &v, &n);
    if (status != PM_OK || !v || to_f64(n, out)) return status;
    return no_fit(&g->parts[0], v, n, "a number that an f64 holds exactly");
}

pm_status gguf_get_f32(const gguf *g, const char *key, float *out)
{
    const gguf_value *v;
    number n;
    pm_status status = find_number(&g->parts[0], key, &v, &n);
    if (status != PM_OK || !v || to_f32(n, out)) return status;
    return no_fit(&g->parts[0], v, n, "a number that an f32 holds exactly");
}

pm_status gguf_get_bool(const gguf *g, const char *key, bool *out)
{
    const gguf_part *p = &g->parts[0];
    const gguf_value *v = gguf_part_find(p, key);
    if (!v) return PM_OK;
    if (v->type != GGUF_BOOL) return wrong_type(p, v, "bool");
    *out = p->header[((const value_entry *)v)->at] != 0;
    return PM_OK;
}

pm_status gguf_get_string(const gguf *g, const char *key, gguf_string *out)
{
    const gguf_part *p = &g->parts[0];
    const gguf_value *v = gguf_part_find(p, key);
    if (!v) return PM_OK;
    if (v->type != GGUF_STRING) return wrong_type(p, v, "a string");
    *out = gguf_item_string(g, v, 0);
    return PM_OK;
}

// ---- items ------------------------------------------------------------------------------------

gguf_string gguf_item_string(const gguf *g, const gguf_value *v, uint64_t index)
{
    const gguf_part *p = &g->parts[0];
    const value_entry *entry = (const value_entry *)v;
    assert(v->item_type == GGUF_STRING && index < v->n_items);
    uint64_t at = v->type == GGUF_ARRAY ? p->strings[entry->first_string + index] : entry->at;
    return (gguf_string){.data = (const char *)p->header + at + 8,
                         .len = (size_t)load_u64(p->header + at)};
}

static number item(const gguf *g, const gguf_value *v, uint64_t index)
{
    const value_entry *entry = (const value_entry *)v;
    assert(index < v->n_items);
    // An array's items follow its item type and count.
    uint64_t at = entry->at + (v->type == GGUF_ARRAY ? 12 : 0);
    at += index * gguf_type_bytes(v->item_type);
    return load_number(g->parts[0].header + at, v->item_type);
}

double gguf_item_number(const gguf *g, const gguf_value *v, uint64_t index)
{
    number n = item(g, v, index);
    return n.kind == NUMBER_INT ? (double)n.i : n.kind == NUMBER_UINT ? (double)n.u : n.f;
}

int64_t gguf_item_int(const gguf *g, const gguf_value *v, uint64_t index)
{
    number n = item(g, v, index);
    assert(n.kind != NUMBER_FLOAT);
    return n.kind == NUMBER_INT ? n.i : (int64_t)n.u; // u64 beyond 2^63 wraps
}

void gguf_value_bytes(const gguf *g, const gguf_value *v, const void **data, uint64_t *n)
{
    const value_entry *entry = (const value_entry *)v;
    *data = g->parts[0].header + entry->at;
    *n = entry->bytes;
}
