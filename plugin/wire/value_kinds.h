/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The kinds of values that fields have, see descriptor.h. "Of" says what TpsField.of is. */

#pragma once

#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

/* -- numbers; optional ones are set if they are not 0 -- */

/* The least number that is taken, and how errors say it: "is -1, expected >= 0". */
typedef struct
{
  gint64 min;
  const gchar *expected;
} TpsLimit;

extern const TpsLimit tps_limit_not_negative; /* ">= 0" */

extern const TpsValueKind tps_kind_bool; /* gboolean */
extern const TpsValueKind tps_kind_i32;  /* gint32, or guint with a limit. Of a TpsLimit or NULL */
extern const TpsValueKind tps_kind_i64;  /* gint64. Of a TpsLimit or NULL */
extern const TpsValueKind tps_kind_double; /* gdouble */
extern const TpsValueKind tps_kind_number; /* gdouble; NaN = missing */
extern const TpsValueKind tps_kind_finite; /* gdouble, neither infinite nor NaN; NaN = missing */

/* -- enums -- */

typedef struct
{
  const gchar *name;
  gint32 value;
} TpsEnumValue;

typedef struct
{
  const gchar *name;          /* in thrift/ */
  const TpsEnumValue *values; /* ends with a value without a name */
} TpsEnum;

extern const TpsValueKind tps_kind_enum;      /* gint32 or a C enum. Of a TpsEnum */
extern const TpsValueKind tps_kind_open_enum; /* the same, of values that are judged elsewhere */

/* -- texts and bytes; optional ones are set if they are not NULL -- */

extern const TpsValueKind tps_kind_string; /* gchar *, newly allocated: UTF-8 without NUL */
extern const TpsValueKind tps_kind_name;   /* the same: [A-Za-z0-9_.:/-]{1,255} */

/* GBytes *: a reference of the body, or a copy where the value is small. Written: borrowed until
 * the writer lets go. */
extern const TpsValueKind tps_kind_bytes;

/* Exactly as many bytes, into an array. Of a gsize. */
extern const TpsValueKind tps_kind_array;

/* Whether `n_bytes` at `name` are a name of tables, parameters, keys or clients. */
gboolean tps_name_is_valid (const gchar *name, gsize n_bytes);

/* -- structs -- */

/* The struct itself, or with a `read` and `write` of its own whatever these expect. Of a
 * TpsStruct. */
extern const TpsValueKind tps_kind_struct;

/* -- lists -- */

typedef enum
{
  /* a guint, their number, and next to it the pointer to the elements; not optional */
  TPS_LIST_COUNTED,
  TPS_LIST_ARRAY,     /* GArray *; made where it is NULL */
  TPS_LIST_PTR_ARRAY, /* GPtrArray * of elements allocated one by one; made where it is NULL */
  TPS_LIST_STRV,      /* gchar ** */
} TpsListForm;

typedef struct
{
  TpsField elem; /* kind and of */
  TpsListForm form;
  gsize elem_size;
  GDestroyNotify clear; /* ARRAY: clears an element in place; PTR_ARRAY: frees it. May be NULL */
} TpsList;

/* Grows with what is read, never by a count that was sent: a struct of one byte on the wire may be
 * hundreds here. After a failure it holds what was read. Optional ones are set if they are not
 * NULL. Of a TpsList. */
extern const TpsValueKind tps_kind_list;

G_END_DECLS
