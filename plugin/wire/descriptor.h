/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Descriptors: the layout of a struct on the wire and in C, for reading and for writing. wire.py
 * generates those of thrift/ during the build. thriftps/wire.h has their types and the public kinds
 * of values, wire_forms.h those of single structs.
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
 * Reading. Errors: TPS_ERROR_INVALID_ARGUMENT, beginning with the path of the value:
 * "gradient.dense.shape is missing"; TPS_ERROR_RESOURCE_EXHAUSTED, if there is no memory for a
 * list. Unknown fields are skipped, since a newer peer may send them. Before the call, the C struct
 * must be zero, or contain the values of fields that may be missing. The caller must clear it, even
 * after a failure. Writing never fails. Thread: any.
 */

#pragma once

#include <sys/uio.h>

#include <thriftps/wire.h>

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* The position of a value in its message, for errors such as "gradient.dense.shape is missing". */

/* A path lies on the stack of the decoders, and each element points to its parent. The path NULL is
 * the arguments struct itself. */
struct TpsFieldPath
{
  const TpsFieldPath *parent; /* NULL: the outermost */
  const gchar *name;          /* NULL: an element of a list */
  guint32 index;
};

/* Returns "gradient.dense", "batches[3].input", or "arguments" for NULL. The caller owns it. */
gchar *tps_field_path_to_string (const TpsFieldPath *path);

/* Sets `error` to INVALID_ARGUMENT with the text "PATH TEXT", and returns FALSE. */
gboolean tps_field_refuse (const TpsFieldPath *path, GError **error, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* Refuses a value of the wrong type with "PATH is of type i64, expected string". The type STOP is
 * refused with "PATH is missing". Returns TRUE if the type is right. */
gboolean tps_field_check_type (const TpsFieldPath *path, TpsWireType type, TpsWireType expected,
                               GError **error);

/* Refuses a value with "PATH cannot be read" if the reader is bad; otherwise returns TRUE. */
gboolean tps_field_check_reader (const TpsReader *in, const TpsFieldPath *path, GError **error);

/* Begins a list whose elements must be of `type` (an empty list may have any type). Charges memory
 * for structs to the message. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
gboolean tps_field_list_begin (TpsReader *in, const TpsFieldPath *path, TpsWireType type,
                               guint32 *n_elems, GError **error);

/* -- descriptors -- */

/* Reads and writes values of one kind. `object` is the C struct that the field belongs to. */
struct TpsValueKind
{
  TpsWireType type;

  gboolean (*read) (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                    GError **error);
  void (*write) (TpsWriter *out, const TpsField *field, gconstpointer object);

  /* Returns TRUE if an optional value must be written. NULL: always. */
  gboolean (*is_set) (const TpsField *field, gconstpointer object);

  /* Optional: sets the value of a missing field, if it is neither zero nor the previous value. */
  void (*set_missing) (const TpsField *field, gpointer object);
};

#define TPS_FIELD_VALUE(field, object) ((gpointer) ((guint8 *) (object) + (field)->offset))
#define TPS_FIELD_CONST_VALUE(field, object) \
  ((gconstpointer) ((const guint8 *) (object) + (field)->offset))

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

/* ---- kinds of values ------------------------------------------------------------------------- */

/* Kinds of values of fields that are not public, see thriftps/wire.h. "Of" gives the type of
 * TpsField.of. */

extern const TpsValueKind tps_kind_number; /* gdouble; NaN = missing */
extern const TpsValueKind tps_kind_finite; /* gdouble, neither infinite nor NaN; NaN = missing */

extern const TpsValueKind
    tps_kind_open_enum; /* as tps_kind_enum, for values that are checked elsewhere */

extern const TpsValueKind tps_kind_name; /* as tps_kind_string: [A-Za-z0-9_.:/-]{1,255} */

/* An array with a fixed number of bytes. Of a gsize, that number. */
extern const TpsValueKind tps_kind_array;

/* Bytes in one of two forms, or none. A writer borrows either form until it releases the bytes. */
typedef struct
{
  GBytes *received;           /* a reference to the body, or a copy if it is small */
  const struct iovec *pieces; /* outgoing bytes in their own memory */
  guint n_pieces;
} TpsChunkData;

void tps_chunk_data_clear (TpsChunkData *data);
extern const TpsValueKind tps_kind_chunk_data; /* TpsChunkData */

/* Returns TRUE if the `n_bytes` at `name` are a valid name of a table, parameter, key or client. */
gboolean tps_name_is_valid (const gchar *name, gsize n_bytes);

/* Converts the value of `field` (tps_field_write()) to JSON: a struct to an object whose members
 * have the names of the IDL, a list to an array. Enums become their names. A field that is not set
 * is left out if its `has` differs from 0, and so are NaN and binaries. Returns a new string, which
 * the caller owns. Thread: any. */
GString *tps_field_to_json (const TpsField *field, gconstpointer value);

/* ---- methods --------------------------------------------------------------------------------- */

/* One method of the contract: its name, its arguments and its result, for both server and client.
 * wire_*.h declare the methods, and contract.h lists them.
 *
 * Each declaration gives the C types of the arguments and the result. A struct must be zero before
 * it is read, and the caller must clear it, even after a failure. Thread: any.
 */

gboolean tps_rpc_read_arguments (const TpsRpc *rpc, TpsReader *in, gpointer arguments,
                                 GError **error);

/* Writes the fields of the arguments, without the begin and end of the struct. The writer borrows
 * values as described in writer.h. */
void tps_rpc_write_arguments (const TpsRpc *rpc, TpsWriter *out, gconstpointer arguments);

/* A method and its arguments as one pointer, for callbacks that write. */
typedef struct
{
  const TpsRpc *rpc;
  gconstpointer value;
} TpsRpcValue;

/* A TpsWriteArguments for a TpsRpcValue: writes the arguments. */
void tps_rpc_value_write_arguments (TpsWriter *out, gconstpointer rpc_value);

/* Reads the value of field 0, whose type on the wire is `type`; STOP: the field is missing. */
gboolean tps_rpc_read_result (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                              GError **error);

/* As tps_rpc_read_result(), for a client. Errors: INTERNAL (a bad result), naming the method. */
gboolean tps_rpc_read_answer (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                              GError **error);

/* Writes field 0 and its value; nothing for void. */
void tps_rpc_write_result (const TpsRpc *rpc, TpsWriter *out, gconstpointer result);

G_END_DECLS
