/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Descriptors: the layout of a struct on the wire and in C, for reading and for writing. wire.py
 * generates those of thrift/ during the build.
 *
 *   static const TpsField push_fields[] = {
 *     { "client", 1, TPS_FIELD_REQUIRED, &tps_kind_name,
 *       .offset = G_STRUCT_OFFSET (TpsPushId, client) },
 *     { "sequence", 2, TPS_FIELD_REQUIRED, &tps_kind_i64,
 *       .offset = G_STRUCT_OFFSET (TpsPushId, sequence) },
 *     { NULL },
 *   };
 *   const TpsStruct tps_push_id_struct = { "PushId", push_fields };
 *
 *   ok = tps_struct_read (&tps_push_id_struct, in, path, &push, error);
 *   tps_struct_write (&tps_push_id_struct, out, &push);
 *
 * value_kinds.h and wire_forms.h have the kinds of values.
 *
 * Reading. Errors: TPS_ERROR_INVALID_ARGUMENT, beginning with the path of the value:
 * "gradient.dense.shape is missing"; TPS_ERROR_RESOURCE_EXHAUSTED, if there is no memory for a
 * list. Unknown fields are skipped, since a newer peer may send them. Before the call, the C struct
 * must be zero, or contain the values of fields that may be missing. The caller must clear it, even
 * after a failure. Writing never fails. Thread: any.
 */

#pragma once

#include "plugin/frame/writer.h"
#include "plugin/wire/field_path.h"

G_BEGIN_DECLS

typedef struct TpsField TpsField;

/* Reads and writes values of one kind. `object` is the C struct that the field belongs to. */
typedef struct
{
  TpsWireType type;

  gboolean (*read) (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                    GError **error);
  void (*write) (TpsWriter *out, const TpsField *field, gconstpointer object);

  /* Returns TRUE if an optional value must be written. NULL: always. */
  gboolean (*is_set) (const TpsField *field, gconstpointer object);

  /* Optional: sets the value of a missing field, if it is neither zero nor the previous value. */
  void (*set_missing) (const TpsField *field, gpointer object);
} TpsValueKind;

typedef enum
{
  TPS_FIELD_DEFAULT,  /* optional when read, always written */
  TPS_FIELD_REQUIRED, /* required when read, always written */
  TPS_FIELD_OPTIONAL, /* optional when read, written if it is set */
} TpsPresence;

/* One field of a struct. A table of fields ends with a field without a name, and has at most 64. */
struct TpsField
{
  const gchar *name;
  gint16 id;
  TpsPresence presence;
  const TpsValueKind *kind;
  gconstpointer of; /* a parameter of the kind: a TpsStruct, TpsEnum, TpsList, TpsLimit, … */
  gsize offset;     /* of the value in the C struct */

  /* Offset of a gboolean in the C struct that is TRUE if an optional field is set. 0: the kind
   * derives this from the value. */
  gsize has;
};

#define TPS_FIELD_VALUE(field, object) ((gpointer) ((guint8 *) (object) + (field)->offset))
#define TPS_FIELD_CONST_VALUE(field, object) \
  ((gconstpointer) ((const guint8 *) (object) + (field)->offset))

typedef struct
{
  const gchar *name; /* in thrift/ */
  const TpsField *fields;

  /* Optional, for a C struct whose form differs from the form on the wire: these functions convert
   * through a struct that has the wire's form. */
  gboolean (*read) (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error);
  void (*write) (TpsWriter *out, gconstpointer object);

  /* Optional: returns TRUE if an optional field of this struct must be written. */
  gboolean (*is_set) (gconstpointer object);
} TpsStruct;

/* Read and write a struct, with its begin and end. `path` names the struct in errors; NULL = the
 * arguments struct. */
gboolean tps_struct_read (const TpsStruct *type, TpsReader *in, const TpsFieldPath *path,
                          gpointer object, GError **error);
void tps_struct_write (const TpsStruct *type, TpsWriter *out, gconstpointer object);

/* As tps_struct_read(), for a table of fields. `seen` (may be NULL): bit i is set if fields[i] was
 * present. */
gboolean tps_fields_read (const TpsField *fields, TpsReader *in, const TpsFieldPath *path,
                          gpointer object, guint64 *seen, GError **error);

/* Reads all valid fields. Values of a different type, and values that their kind refuses, count as
 * missing. For failures that a peer reports: a wrong detail must not hide the failure. */
void tps_fields_read_leniently (const TpsField *fields, TpsReader *in, gpointer object);

/* Writes the fields without the begin and end of the struct. */
void tps_fields_write (const TpsField *fields, TpsWriter *out, gconstpointer object);

/* Writes the header and the value of one field, whether it is set or not. */
void tps_field_write (const TpsField *field, TpsWriter *out, gconstpointer object);

/* Writes a field header alone, for writers of values. */
static inline void
tps_field_begin (const TpsField *field, TpsWriter *out)
{
  tps_writer_field (out, field->id, field->kind->type);
}

G_END_DECLS
