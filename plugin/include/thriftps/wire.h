/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Descriptors: the layout of a struct on the wire and in C, for the methods of a service of your
 * own (service.h) and for generic calls of any method (client.h). For this IDL
 *
 *   struct Point { 1: required string name, 2: optional i64 x }
 *   service Map { tensor.Tensor find (1: Point point, 2: list<string> tags) }
 *
 * the descriptors are
 *
 *   typedef struct { gchar *name; gint64 x; gboolean has_x; } Point;
 *   typedef struct { Point point; gchar **tags; } FindArguments;
 *
 *   static const TpsField point_fields[] = {
 *     TPS_FIELD_WITH (Point, name, 1, TPS_FIELD_REQUIRED, tps_kind_string, NULL),
 *     TPS_FIELD_HAS (Point, x, 2, tps_kind_i64, NULL),
 *     TPS_FIELD_END
 *   };
 *   static const TpsStruct point_struct = TPS_STRUCT ("Point", point_fields);
 *   static const TpsList tag_list = TPS_LIST_OF_STRINGS;
 *   static const TpsField find_arguments[] = {
 *     TPS_FIELD_WITH (FindArguments, point, 1, TPS_FIELD_DEFAULT, tps_kind_struct, &point_struct),
 *     TPS_FIELD_WITH (FindArguments, tags, 2, TPS_FIELD_DEFAULT, tps_kind_list, &tag_list),
 *     TPS_FIELD_END
 *   };
 *   static const TpsField find_result = TPS_RESULT (tps_kind_struct, &tps_tensor_struct);
 *   static const TpsRpc find_rpc = TPS_RPC ("Map", "find", find_arguments, &find_result);
 *
 * Before a struct is read, it must be zero, or contain the values of fields that may be missing.
 * Whoever reads must clear it, even after a failure; strings, lists, tensors and so on are newly
 * allocated. Unknown fields are skipped, since a newer peer may send them. A value that is missing,
 * of the wrong type or out of range is refused with TPS_ERROR_INVALID_ARGUMENT, whose message
 * begins with the path of the value: "point.name is missing". Writing never fails.
 *
 * Services with other types (byte, i16, sets, maps of other types) can be served by the processors
 * that Thrift's compiler generates; see tps_server_add_processor() in plugin.h.
 */

#pragma once

#include <thriftps/tensor.h>

G_BEGIN_DECLS

/* Thrift's protocols. */
typedef enum
{
  TPS_PROTOCOL_BINARY = 1,
  TPS_PROTOCOL_COMPACT = 2,
} TpsProtocolKind;

/* A kind of values; opaque. */
typedef struct TpsValueKind TpsValueKind;

typedef enum
{
  TPS_FIELD_DEFAULT,  /* optional when read, always written */
  TPS_FIELD_REQUIRED, /* required when read, always written */
  TPS_FIELD_OPTIONAL, /* optional when read, written if it is set */
} TpsPresence;

/* One field of a struct. A table of fields ends with a field without a name, and has at most 64. */
typedef struct
{
  const gchar *name; /* for errors */
  gint16 id;
  TpsPresence presence;
  const TpsValueKind *kind;
  gconstpointer of; /* a parameter of the kind: a TpsStruct, TpsEnum, TpsList, TpsLimit, … */
  gsize offset;     /* of the value in the C struct */

  /* Offset of a gboolean in the C struct that is TRUE if an optional field is set. 0: the kind
   * derives this from the value. */
  gsize has;
} TpsField;

/* The field `member` of the C struct `type`. */
#define TPS_FIELD_WITH(type, member, id, presence, kind, of)           \
  {                                                                    \
#member, id, presence, &kind, of, G_STRUCT_OFFSET(type, member), 0 \
  }
/* As above, for an optional field and the member has_<member>. */
#define TPS_FIELD_HAS(type, member, id, kind, of)                              \
  {                                                                            \
#member, id, TPS_FIELD_OPTIONAL, &kind, of, G_STRUCT_OFFSET(type, member), \
        G_STRUCT_OFFSET(type, has_##member)                                    \
  }
/* A value alone: the result of a method. */
#define TPS_RESULT(kind, of)                         \
  {                                                  \
    "success", 0, TPS_FIELD_DEFAULT, &kind, of, 0, 0 \
  }
/* The end of a table of fields. */
#define TPS_FIELD_END                            \
  {                                              \
    NULL, 0, TPS_FIELD_DEFAULT, NULL, NULL, 0, 0 \
  }

/* ---- numbers; optional ones are set if they are not 0 ---------------------------------------- */

/* The minimum, and its text in errors: "PATH is -1, expected >= 0". */
typedef struct
{
  gint64 min;
  const gchar *expected;
} TpsLimit;

extern const TpsValueKind tps_kind_bool; /* gboolean */
extern const TpsValueKind tps_kind_i32;  /* gint32, or guint with a limit. Of a TpsLimit or NULL */
extern const TpsValueKind tps_kind_i64;  /* gint64. Of a TpsLimit or NULL */
extern const TpsValueKind tps_kind_double; /* gdouble; an optional one needs `has` */

/* ---- enums ----------------------------------------------------------------------------------- */

typedef struct
{
  const gchar *name;
  gint32 value;
} TpsEnumValue;

typedef struct
{
  const gchar *name;          /* in the IDL */
  const TpsEnumValue *values; /* ends with a value without a name */
} TpsEnum;

extern const TpsValueKind tps_kind_enum; /* gint32 or a C enum. Of a TpsEnum */

/* ---- texts and bytes; optional ones are set if they are not NULL ----------------------------- */

extern const TpsValueKind tps_kind_string; /* gchar *, newly allocated: UTF-8 without NUL */

/* GBytes *: a reference to the message's own memory, or a copy if the value is small. A reply
 * borrows the bytes until it has been sent. */
extern const TpsValueKind tps_kind_bytes;

/* ---- structs --------------------------------------------------------------------------------- */

typedef struct TpsReader TpsReader;       /* opaque */
typedef struct TpsWriter TpsWriter;       /* opaque */
typedef struct TpsFieldPath TpsFieldPath; /* opaque */

typedef struct
{
  const gchar *name; /* in the IDL */
  const TpsField *fields;

  /* For structs of the library whose form in C differs from the form on the wire; NULL in yours. */
  gboolean (*read) (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error);
  void (*write) (TpsWriter *out, gconstpointer object);

  /* Optional: returns TRUE if an optional field of this struct must be written. NULL: such a field
   * needs `has`. */
  gboolean (*is_set) (gconstpointer object);
} TpsStruct;

#define TPS_STRUCT(name, fields)   \
  {                                \
    name, fields, NULL, NULL, NULL \
  }

extern const TpsValueKind tps_kind_struct; /* the C struct itself. Of a TpsStruct */

/* Structs of thrift/tensor.thrift: a TpsTensor and a TpsGradient. Their bytes are not copied:
 * tensors that were read refer to the message's memory, and writing keeps a reference to the
 * buffer. */
extern const TpsStruct tps_tensor_struct;
extern const TpsStruct tps_gradient_struct;

/* ---- lists and maps -------------------------------------------------------------------------- */

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

/* Elements of the C type `type` in the form COUNTED, and gchar **. */
#define TPS_LIST_OF(type, kind, of)                              \
  {                                                              \
    TPS_RESULT (kind, of), TPS_LIST_COUNTED, sizeof (type), NULL \
  }
#define TPS_LIST_OF_STRINGS                                                   \
  {                                                                           \
    TPS_RESULT (tps_kind_string, NULL), TPS_LIST_STRV, sizeof (gchar *), NULL \
  }

/* A list grows with the elements that are read, never by the announced count, because a struct of
 * one byte on the wire may have hundreds of bytes in memory. After a failure the list contains the
 * elements read so far. Optional lists are set if they are not NULL. Of a TpsList. */
extern const TpsValueKind tps_kind_list;

typedef struct
{
  guint max_entries;
  gsize max_bytes; /* of all keys and values */
} TpsTextsLimits;

/* A map of strings to strings: GHashTable *, which owns both; created if it is NULL. Optional ones
 * are set if they are not NULL. Of a TpsTextsLimits. */
extern const TpsValueKind tps_kind_texts;

/* ---- methods --------------------------------------------------------------------------------- */

/* One method: its name, its arguments and its result, for both server and client. */
typedef struct
{
  const gchar *service;
  const gchar *name;
  const TpsField *arguments; /* NULL: none */
  const TpsField *result;    /* NULL: void. Its id is 0; its name is for errors */

  /* The sizes of both in C, and functions that free their contents; NULL: there is nothing to
   * free. Calls of a method with a result (client.h) need n_result_bytes, and clear_result if the
   * result has strings, lists, tensors and so on; the rest is optional in your descriptors. */
  gsize n_argument_bytes, n_result_bytes;
  GDestroyNotify clear_arguments, clear_result;
} TpsRpc;

/* A method that is served (service.h). */
#define TPS_RPC(service, name, arguments, result)      \
  {                                                    \
    service, name, arguments, result, 0, 0, NULL, NULL \
  }
/* A method with a result of the C type `type`, which is called (client.h). `clear` is a
 * GDestroyNotify for it, or NULL. */
#define TPS_RPC_CALLED(service, name, arguments, result, type, clear) \
  {                                                                   \
    service, name, arguments, result, 0, sizeof (type), NULL, clear   \
  }

G_END_DECLS
