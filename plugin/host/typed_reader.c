/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/typed_reader.h"

#include "runtime/base/error.h"

/* Estimates of the bytes that generated code allocates for an object, with its share of the
 * container, and for a scalar in a list. */
#define OBJECT_BYTES 256
#define SCALAR_BYTES 8

static const gchar *
type_name (TpsWireType type)
{
  static const gchar *const names[] = {
    [TPS_WIRE_STOP] = "nothing",  [TPS_WIRE_BOOL] = "bool",     [TPS_WIRE_BYTE] = "byte",
    [TPS_WIRE_DOUBLE] = "double", [TPS_WIRE_I16] = "i16",       [TPS_WIRE_I32] = "i32",
    [TPS_WIRE_I64] = "i64",       [TPS_WIRE_BINARY] = "string", [TPS_WIRE_STRUCT] = "struct",
    [TPS_WIRE_MAP] = "map",       [TPS_WIRE_SET] = "set",       [TPS_WIRE_LIST] = "list",
  };

  return (guint) type < G_N_ELEMENTS (names) && names[type] != NULL ? names[type] : "?";
}

void
tps_typed_reader_init (TpsTypedReader *reader, const TpsMessage *message, guint max_elements)
{
  tps_reader_init (&reader->in, message);
  reader->n_elements_left = max_elements;
  reader->error = NULL;
  /* The message is treated as a list of one struct. */
  reader->n_levels = 1;
  reader->levels[0] = (TpsTypedLevel) { .kind = TPS_WIRE_LIST,
                                        .value = TPS_WIRE_STRUCT,
                                        .n_missing = 1 };
}

void
tps_typed_reader_clear (TpsTypedReader *reader)
{
  g_clear_error (&reader->error);
}

void
tps_typed_reader_fail (TpsTypedReader *reader, GError *reason)
{
  if (reader->error == NULL)
    reader->error = reason;
  else
    g_error_free (reason);
}

G_GNUC_PRINTF (3, 4)
static void
fail (TpsTypedReader *reader, gint code, const gchar *format, ...)
{
  va_list args;

  if (reader->error != NULL)
    return;
  va_start (args, format);
  reader->error = g_error_new_valist (TPS_ERROR, code, format, args);
  va_end (args);
}

static gboolean
has_failed (TpsTypedReader *reader)
{
  if (reader->in.bad && reader->in.message->n_bytes_refused > 0)
    fail (reader, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory is left for %zu bytes of the message",
          reader->in.message->n_bytes_refused);
  else if (reader->in.bad)
    fail (reader, TPS_ERROR_PROTOCOL, "the message ends inside a value");
  return reader->error != NULL;
}

static TpsWireType
take_next (TpsTypedLevel *level)
{
  TpsWireType next = level->value;

  if (level->kind == TPS_WIRE_STRUCT)
    {
      level->value = TPS_WIRE_STOP;
      return next;
    }
  if (level->n_missing == 0)
    return TPS_WIRE_STOP;
  if (level->kind == TPS_WIRE_MAP && level->n_missing % 2 == 0)
    next = level->key;
  level->n_missing--;
  return next;
}

/* Returns TRUE if the next value has this type and may be read. */
static gboolean
expect (TpsTypedReader *reader, TpsWireType type)
{
  TpsWireType next;

  if (has_failed (reader))
    return FALSE;
  next = take_next (&reader->levels[reader->n_levels - 1]);
  if (next == type)
    return TRUE;
  fail (reader, TPS_ERROR_PROTOCOL, "found a %s, expected a %s", type_name (next),
        type_name (type));
  return FALSE;
}

static void
push (TpsTypedReader *reader, TpsTypedLevel level)
{
  if (has_failed (reader))
    return;
  if (reader->n_levels == G_N_ELEMENTS (reader->levels))
    fail (reader, TPS_ERROR_PROTOCOL, "nested deeper than %d", TPS_MESSAGE_MAX_DEPTH);
  else
    reader->levels[reader->n_levels++] = level;
}

static void
pop (TpsTypedReader *reader)
{
  TpsTypedLevel *level = &reader->levels[reader->n_levels - 1];

  if (has_failed (reader))
    return;
  if (reader->n_levels == 1 || level->n_missing > 0 || level->value != TPS_WIRE_STOP)
    fail (reader, TPS_ERROR_PROTOCOL, "a %s was left before its end", type_name (level->kind));
  else
    reader->n_levels--;
}

static gboolean
charge (TpsTypedReader *reader, guint64 n, gsize n_bytes_each)
{
  GError *error = NULL;

  if (tps_reader_charge (&reader->in, n * n_bytes_each, &error))
    return TRUE;
  tps_typed_reader_fail (reader, error);
  return FALSE;
}

static gboolean
count_elements (TpsTypedReader *reader, guint64 n)
{
  if (n > reader->n_elements_left)
    {
      fail (reader, TPS_ERROR_RESOURCE_EXHAUSTED,
            "the message has too many strings, structs and containers inside containers");
      return FALSE;
    }
  reader->n_elements_left -= (guint) n;
  return charge (reader, n, OBJECT_BYTES);
}

void
tps_typed_reader_struct_begin (TpsTypedReader *reader)
{
  if (!expect (reader, TPS_WIRE_STRUCT))
    return;
  tps_reader_struct_begin (&reader->in);
  push (reader, (TpsTypedLevel) { .kind = TPS_WIRE_STRUCT });
}

TpsWireType
tps_typed_reader_field (TpsTypedReader *reader, gint16 *id)
{
  TpsTypedLevel *level = &reader->levels[reader->n_levels - 1];
  TpsWireType type = TPS_WIRE_STOP;

  *id = 0;
  if (has_failed (reader))
    return TPS_WIRE_STOP;
  if (level->kind != TPS_WIRE_STRUCT || level->value != TPS_WIRE_STOP)
    {
      fail (reader, TPS_ERROR_PROTOCOL, "a field was read, but a %s comes next",
            type_name (level->value));
      return TPS_WIRE_STOP;
    }
  if (!tps_reader_field (&reader->in, id, &type) || has_failed (reader))
    {
      *id = 0;
      return TPS_WIRE_STOP;
    }
  level->value = type;
  return type;
}

void
tps_typed_reader_struct_end (TpsTypedReader *reader)
{
  if (has_failed (reader))
    return;
  tps_reader_struct_end (&reader->in);
  pop (reader);
}

guint32
tps_typed_reader_list_begin (TpsTypedReader *reader, TpsWireType kind, TpsWireType *type)
{
  TpsTypedLevel level = { .kind = kind };
  guint32 n = 0;

  *type = TPS_WIRE_STOP;
  if (!expect (reader, kind))
    return 0;
  tps_reader_list_begin (&reader->in, &level.value, &n);
  if (has_failed (reader))
    return 0;
  level.n_missing = n;
  /* Generated code creates an object for each element of these types. */
  if (kind == TPS_WIRE_SET || level.value >= TPS_WIRE_BINARY ? !count_elements (reader, n)
                                                             : !charge (reader, n, SCALAR_BYTES))
    return 0;
  *type = level.value;
  push (reader, level);
  return reader->error == NULL ? n : 0;
}

guint32
tps_typed_reader_map_begin (TpsTypedReader *reader, TpsWireType *key, TpsWireType *value)
{
  TpsTypedLevel level = { .kind = TPS_WIRE_MAP };
  guint32 n = 0;

  *key = *value = TPS_WIRE_STOP;
  if (!expect (reader, TPS_WIRE_MAP))
    return 0;
  tps_reader_map_begin (&reader->in, &level.key, &level.value, &n);
  if (has_failed (reader) || !count_elements (reader, (guint64) n * 2))
    return 0;
  level.n_missing = (guint64) n * 2;
  *key = level.key;
  *value = level.value;
  push (reader, level);
  return reader->error == NULL ? n : 0;
}

void
tps_typed_reader_container_end (TpsTypedReader *reader)
{
  TpsTypedLevel *level = &reader->levels[reader->n_levels - 1];

  if (has_failed (reader))
    return;
  if (level->kind == TPS_WIRE_STRUCT)
    fail (reader, TPS_ERROR_PROTOCOL, "the end of a container was read inside a struct");
  if (level->n_missing == 0)
    level->value = TPS_WIRE_STOP;
  pop (reader);
}

#define DEFINE_READ(name, type, wire_type)                                              \
  type tps_typed_reader_##name (TpsTypedReader *reader)                                 \
  {                                                                                     \
    return expect (reader, TPS_WIRE_##wire_type) ? tps_reader_##name (&reader->in) : 0; \
  }

DEFINE_READ (bool, gboolean, BOOL)
DEFINE_READ (byte, gint8, BYTE)
DEFINE_READ (i16, gint16, I16)
DEFINE_READ (i32, gint32, I32)
DEFINE_READ (i64, gint64, I64)
DEFINE_READ (double, gdouble, DOUBLE)

TpsBytesView
tps_typed_reader_binary (TpsTypedReader *reader)
{
  TpsBytesView nothing = { NULL, 0, NULL };
  TpsBytesView view;

  if (!expect (reader, TPS_WIRE_BINARY))
    return nothing;
  view = tps_reader_binary (&reader->in);
  if (view.n_bytes > G_MAXINT32)
    fail (reader, TPS_ERROR_RESOURCE_EXHAUSTED,
          "a binary of %" G_GSIZE_FORMAT " bytes, more than generated code can hold", view.n_bytes);
  return !has_failed (reader) && charge (reader, view.n_bytes, 1) ? view : nothing;
}
