/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "plugin/host/transcode_private.h"
#include "runtime/base/error.h"

#define BINARY_VERSION_1 0x80010000u
#define PENDING_BYTES 1024

typedef struct
{
  ThriftProtocol *in;
  TpsScanner *scanner;
  gsize n_pending; /* bytes in `pending`, which the scanner has not received yet */
  guint8 pending[PENDING_BYTES];
  guint depth;
  GError *error;
} Source;

static gboolean copy_value (Source *source, ThriftType type);

/* Returns TRUE if a call of the host's protocol has succeeded. Otherwise sets the error. Takes
 * ownership of `cause`. */
static gboolean
check (Source *source, gint32 n_bytes, GError *cause)
{
  if (n_bytes >= 0 && cause == NULL)
    return TRUE;
  return tps_transcode_blame (cause, "read a call", &source->error);
}

static gboolean
flush_pending (Source *source)
{
  gsize n_bytes = source->n_pending;

  source->n_pending = 0;
  return tps_transcode_feed (source->scanner, source->pending, n_bytes, &source->error);
}

static gboolean
put (Source *source, gconstpointer bytes, gsize n_bytes)
{
  if (source->n_pending + n_bytes > PENDING_BYTES && !flush_pending (source))
    return FALSE;
  if (n_bytes > PENDING_BYTES)
    return tps_transcode_feed (source->scanner, bytes, n_bytes, &source->error);
  if (n_bytes > 0)
    memcpy (source->pending + source->n_pending, bytes, n_bytes);
  source->n_pending += n_bytes;
  return TRUE;
}

static gboolean
put_8 (Source *source, guint8 value)
{
  return put (source, &value, sizeof value);
}

static gboolean
put_16 (Source *source, guint16 value)
{
  value = GUINT16_TO_BE (value);
  return put (source, &value, sizeof value);
}

static gboolean
put_32 (Source *source, guint32 value)
{
  value = GUINT32_TO_BE (value);
  return put (source, &value, sizeof value);
}

static gboolean
put_64 (Source *source, guint64 value)
{
  value = GUINT64_TO_BE (value);
  return put (source, &value, sizeof value);
}

/* Passes a count to the scanner at once. If the scanner refuses the container, no element is
 * read. */
static gboolean
put_count (Source *source, guint32 n)
{
  return put_32 (source, n) && flush_pending (source);
}

/* Defines a function that reads a number of one type and passes it on with the same wire type. */
#define DEFINE_COPY(name, type, read, put_value)  \
  static gboolean name (Source *source)           \
  {                                               \
    type value = 0;                               \
    GError *cause = NULL;                         \
    gint32 n = read (source->in, &value, &cause); \
                                                  \
    return check (source, n, cause) && put_value; \
  }

static guint64
double_bits (gdouble value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

DEFINE_COPY (copy_bool, gboolean, thrift_protocol_read_bool, put_8 (source, value ? 1 : 0))
DEFINE_COPY (copy_byte, gint8, thrift_protocol_read_byte, put_8 (source, (guint8) value))
DEFINE_COPY (copy_i16, gint16, thrift_protocol_read_i16, put_16 (source, (guint16) value))
DEFINE_COPY (copy_i32, gint32, thrift_protocol_read_i32, put_32 (source, (guint32) value))
DEFINE_COPY (copy_i64, gint64, thrift_protocol_read_i64, put_64 (source, (guint64) value))
DEFINE_COPY (copy_double, gdouble, thrift_protocol_read_double,
             put_64 (source, double_bits (value)))

/* In Debian's 0.17, a negative length becomes a large length without bytes. */
static gboolean
copy_binary (Source *source)
{
  g_autofree gpointer data = NULL;
  guint32 n_bytes = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_binary (source->in, &data, &n_bytes, &cause);

  if (!check (source, n, cause) || !put_32 (source, n_bytes))
    return FALSE;
  if (n_bytes > 0 && data == NULL)
    {
      if (flush_pending (source))
        g_set_error (&source->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                     "the bytes of a string of %u bytes are missing", n_bytes);
      return FALSE;
    }
  return put (source, data, n_bytes);
}

static gboolean
copy_elements (Source *source, guint32 n, ThriftType first, ThriftType second)
{
  for (guint32 i = 0; i < n; i++)
    if (!copy_value (source, first) || (second != T_STOP && !copy_value (source, second)))
      return FALSE;
  return TRUE;
}

static gboolean
copy_list (Source *source)
{
  ThriftType type = T_STOP;
  guint32 n_elems = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_list_begin (source->in, &type, &n_elems, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) type) || !put_count (source, n_elems)
      || !copy_elements (source, n_elems, type, T_STOP))
    return FALSE;
  n = thrift_protocol_read_list_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_set (Source *source)
{
  ThriftType type = T_STOP;
  guint32 n_elems = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_set_begin (source->in, &type, &n_elems, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) type) || !put_count (source, n_elems)
      || !copy_elements (source, n_elems, type, T_STOP))
    return FALSE;
  n = thrift_protocol_read_set_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_map (Source *source)
{
  ThriftType key = T_STOP;
  ThriftType value = T_STOP;
  guint32 n_elems = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_map_begin (source->in, &key, &value, &n_elems, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) key) || !put_8 (source, (guint8) value)
      || !put_count (source, n_elems) || !copy_elements (source, n_elems, key, value))
    return FALSE;
  n = thrift_protocol_read_map_end (source->in, &cause);
  return check (source, n, cause);
}

/* Copies the next field. Sets `type` to the type of the field, or T_STOP at the end of the
 * struct. */
static gboolean
copy_field (Source *source, ThriftType *type)
{
  g_autofree gchar *name = NULL;
  gint16 id = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_field_begin (source->in, &name, type, &id, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) *type))
    return FALSE;
  if (*type == T_STOP)
    return TRUE;
  if (!put_16 (source, (guint16) id) || !copy_value (source, *type))
    return FALSE;
  n = thrift_protocol_read_field_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_fields (Source *source)
{
  ThriftType type = T_VOID;

  while (type != T_STOP)
    if (!copy_field (source, &type))
      return FALSE;
  return TRUE;
}

static gboolean
copy_struct (Source *source)
{
  g_autofree gchar *name = NULL;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_struct_begin (source->in, &name, &cause);

  if (!check (source, n, cause))
    return FALSE;
  if (!copy_fields (source))
    {
      /* Without this call, the library's compact protocol leaks an entry of its list of open
       * structs. */
      thrift_protocol_read_struct_end (source->in, NULL);
      return FALSE;
    }
  n = thrift_protocol_read_struct_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_nested (Source *source, gboolean (*copy) (Source *source))
{
  gboolean ok;

  /* The scanner has the same limit, but checks it only after the recursion. */
  if (source->depth == TPS_MESSAGE_MAX_DEPTH)
    {
      g_set_error (&source->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                   "structs and containers are nested more than %d deep", TPS_MESSAGE_MAX_DEPTH);
      return FALSE;
    }
  source->depth++;
  ok = copy (source);
  source->depth--;
  return ok;
}

static gboolean
copy_value (Source *source, ThriftType type)
{
  switch (type)
    {
    case T_BOOL:
      return copy_bool (source);
    case T_BYTE:
      return copy_byte (source);
    case T_I16:
      return copy_i16 (source);
    case T_I32:
      return copy_i32 (source);
    case T_I64:
      return copy_i64 (source);
    case T_DOUBLE:
      return copy_double (source);
    case T_STRING:
      return copy_binary (source);
    case T_STRUCT:
      return copy_nested (source, copy_struct);
    case T_LIST:
      return copy_nested (source, copy_list);
    case T_SET:
      return copy_nested (source, copy_set);
    case T_MAP:
      return copy_nested (source, copy_map);
    default:
      g_set_error (&source->error, TPS_ERROR, TPS_ERROR_PROTOCOL, "a value has the unknown type %d",
                   (gint) type);
      return FALSE;
    }
}

/* Copies the beginning of a message. The scanner receives the binary protocol. */
static gboolean
copy_message_begin (Source *source)
{
  g_autofree gchar *name = NULL;
  ThriftMessageType type = (ThriftMessageType) 0;
  gint32 seqid = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_message_begin (source->in, &name, &type, &seqid, &cause);
  gsize n_name;

  if (!check (source, n, cause))
    return FALSE;
  n_name = name != NULL ? strlen (name) : 0;
  return put_32 (source, BINARY_VERSION_1 | ((guint32) type & 0xff))
         && put_32 (source, (guint32) n_name) && put (source, name, n_name)
         && put_32 (source, (guint32) seqid);
}

static gboolean
copy_message_end (Source *source)
{
  ThriftTransport *transport;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_message_end (source->in, &cause);

  if (!check (source, n, cause))
    return FALSE;
  transport = tps_transcode_dup_transport (source->in);
  n = transport == NULL || thrift_transport_read_end (transport, &cause) ? 0 : -1;
  g_clear_object (&transport);
  return check (source, n, cause);
}

TpsMessage *
tps_transcode_read (ThriftProtocol *in, const TpsScannerOptions *limits, GError **error)
{
  g_autoptr (TpsScanner) scanner = tps_scanner_new (limits);
  Source source = { .in = in, .scanner = scanner };
  TpsMessage *message = NULL;

  if (copy_message_begin (&source) && copy_nested (&source, copy_struct) && flush_pending (&source)
      && copy_message_end (&source))
    {
      message = tps_scanner_take (scanner);
      if (message == NULL)
        g_set_error_literal (&source.error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                             "the call is incomplete");
    }
  if (message == NULL)
    g_propagate_error (error, source.error);
  return message;
}
