/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Descriptors: what a struct of thrift/ looks like on the wire and in C, said once, for reading and
 * for writing.
 *
 *   static const TpsField push_fields[] = {
 *     { "client", 1, TPS_FIELD_REQUIRED, &tps_kind_name, .offset = G_STRUCT_OFFSET (TpsPushId, client) },
 *     { "sequence", 2, TPS_FIELD_REQUIRED, &tps_kind_i64, .offset = G_STRUCT_OFFSET (TpsPushId, sequence) },
 *     { NULL },
 *   };
 *   const TpsStruct tps_push_id_struct = { "PushId", push_fields };
 *
 *   ok = tps_struct_read (&tps_push_id_struct, in, path, &push, error);
 *   tps_struct_write (&tps_push_id_struct, out, &push);
 *
 * The field numbers of the contract stand in these tables and nowhere else;
 * //tests/plugin/wire:contract_test compares them with thrift/. The kinds of values are in
 * value_kinds.h; a file may define its own.
 *
 * Reading. Errors are TPS_ERROR_INVALID_ARGUMENT and begin with the path of the value:
 * "gradient.dense.shape is missing". Unknown fields are skipped, since a newer peer may send them.
 * The C struct must be zero before (or hold the values of fields that may be missing); the caller
 * clears it, after a failure too. Writing never fails. Thread: any.
 */

#pragma once

#include "plugin/frame/writer.h"
#include "plugin/wire/field_path.h"

G_BEGIN_DECLS

typedef struct TpsField TpsField;

/* How values of one kind are read and written. `object` is the C struct that the field belongs
 * to. */
typedef struct
{
  TpsWireType type;

  /* The type in thrift/; NULL: it is named by what the field is `of`. */
  const gchar *idl_type;

  gboolean (*read) (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                    GError **error);
  void (*write) (TpsWriter *out, const TpsField *field, gconstpointer object);

  /* Whether an optional value is there to be written. NULL: always. */
  gboolean (*is_set) (const TpsField *field, gconstpointer object);

  /* Optional: the value of a field that was missing, where that is not zero or what stood there
   * before. */
  void (*set_missing) (const TpsField *field, gpointer object);
} TpsValueKind;

typedef enum
{
  TPS_FIELD_DEFAULT,  /* may be missing when read, is always written */
  TPS_FIELD_REQUIRED, /* must be there when read, is always written */
  TPS_FIELD_OPTIONAL, /* may be missing when read, is written if it is set */
} TpsPresence;

/* One field of a struct; a table of them ends with a field without a name. At most 64 in a
 * struct. */
struct TpsField
{
  const gchar *name;
  gint16 id;
  TpsPresence presence;
  const TpsValueKind *kind;
  gconstpointer of; /* what the kind needs to know: a TpsStruct, TpsEnum, TpsList, TpsLimit, … */
  gsize offset;     /* of the value in the C struct */

  /* Of a gboolean in the C struct that says whether an optional field is there; 0: its kind tells
   * by the value. */
  gsize has;
};

#define TPS_FIELD_VALUE(field, object) ((gpointer) ((guint8 *) (object) + (field)->offset))
#define TPS_FIELD_CONST_VALUE(field, object) \
  ((gconstpointer) ((const guint8 *) (object) + (field)->offset))

typedef struct
{
  const gchar *name; /* in thrift/ */
  const TpsField *fields;

  /* Optional, for a C struct of another form than that of the wire: these go by way of one that has
   * it. */
  gboolean (*read) (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error);
  void (*write) (TpsWriter *out, gconstpointer object);

  /* Optional: whether an optional field of this struct is there to be written. */
  gboolean (*is_set) (gconstpointer object);
} TpsStruct;

gboolean tps_struct_read (const TpsStruct *type, TpsReader *in, const TpsFieldPath *path,
                          gpointer object, GError **error);
void tps_struct_write (const TpsStruct *type, TpsWriter *out, gconstpointer object);

/* The same by the fields alone. `seen` (may be NULL): bit i is set if fields[i] was there. */
gboolean tps_fields_read (const TpsField *fields, TpsReader *in, const TpsFieldPath *path,
                          gpointer object, guint64 *seen, GError **error);

/* Takes what it can: values of another type and those that their kind refuses count as missing. For
 * what a peer says of its failure, which must not be lost over a detail. */
void tps_fields_read_leniently (const TpsField *fields, TpsReader *in, gpointer object);

/* Without the begin and end of the struct. */
void tps_fields_write (const TpsField *fields, TpsWriter *out, gconstpointer object);

/* One field, set or not: its header and its value. */
void tps_field_write (const TpsField *field, TpsWriter *out, gconstpointer object);

/* The header alone, for writers of values. */
static inline void
tps_field_begin (const TpsField *field, TpsWriter *out)
{
  tps_writer_field (out, field->id, field->kind->type);
}

G_END_DECLS
