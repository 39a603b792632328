/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The kinds of values of fields, see descriptor.h. "Of" gives the type of TpsField.of. */

#pragma once

#include <sys/uio.h>

#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

/* -- numbers; optional ones are set if they are not 0 -- */

/* The minimum, and its text in errors: "PATH is -1, expected >= 0". */
typedef struct
{
  gint64 min;
  const gchar *expected;
} TpsLimit;

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
extern const TpsValueKind tps_kind_open_enum; /* the same, for values that are checked elsewhere */

/* -- texts and bytes; optional ones are set if they are not NULL -- */

extern const TpsValueKind tps_kind_string; /* gchar *, newly allocated: UTF-8 without NUL */
extern const TpsValueKind tps_kind_name;   /* as tps_kind_string: [A-Za-z0-9_.:/-]{1,255} */

/* GBytes *: a reference to the body, or a copy if the value is small. A writer borrows the bytes
 * until it releases them. */
extern const TpsValueKind tps_kind_bytes;

/* An array with a fixed number of bytes. Of a gsize, that number. */
extern const TpsValueKind tps_kind_array;

/* Bytes in one of two forms, or none. A writer borrows either form until it releases the bytes. */
typedef struct
{
  GBytes *received;           /* a reference to the body, or a copy if it is small */
  const struct iovec *pieces; /* outgoing bytes in their own memory */
  guint n_pieces;
} TpsChunkData;

/* Releases the received bytes. */
void tps_chunk_data_clear (TpsChunkData *data);
extern const TpsValueKind tps_kind_chunk_data; /* TpsChunkData */

/* Returns TRUE if the `n_bytes` at `name` are a valid name of a table, parameter, key or client. */
gboolean tps_name_is_valid (const gchar *name, gsize n_bytes);

/* -- structs -- */

/* The C struct itself, or the type that its own `read` and `write` use. Of a TpsStruct. */
extern const TpsValueKind tps_kind_struct;

/* -- lists -- */

typedef enum
{
  /* A guint, the number of elements, followed by a pointer to the elements; not optional. */
  TPS_LIST_COUNTED,
  TPS_LIST_PTR_ARRAY, /* GPtrArray * of separately allocated elements; created if it is NULL */
  TPS_LIST_STRV,      /* gchar ** */
} TpsListForm;

typedef struct
{
  TpsField elem; /* its kind and `of` */
  TpsListForm form;
  gsize elem_size;
  GDestroyNotify clear; /* PTR_ARRAY: frees an element */
} TpsList;

/* A list grows with the elements that are read, never by the announced count, because a struct of
 * one byte on the wire may have hundreds of bytes in memory. After a failure the list contains the
 * elements read so far. Optional lists are set if they are not NULL. Of a TpsList. */
extern const TpsValueKind tps_kind_list;

/* -- maps -- */

typedef struct
{
  guint max_entries;
  gsize max_bytes; /* of all keys and values */
} TpsTextsLimits;

/* GHashTable * of gchar * to gchar *, which owns both; created if it is NULL. Of a
 * TpsTextsLimits. */
extern const TpsValueKind tps_kind_texts;

G_END_DECLS
