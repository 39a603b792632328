/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state machine of the scanner and its steps for the two protocols.
 *
 * A scanner is always in one state, and each state has a step function for each protocol. A step
 * reads the available bytes. It either consumes a whole token (a field header, a number, a length)
 * and sets the next state, or it returns TPS_STEP_MORE and consumes nothing. A step therefore never
 * stores part of a token. If a chunk ends inside a token, feed() keeps those few bytes and puts
 * them before the next chunk. Only the steps of RAW and NAME, whose bytes are not tokens, consume
 * all available bytes before they return TPS_STEP_MORE.
 *
 *   START -> PROTOCOL -> HEADER -> ... -> NAME -> ... -> NEXT <-> VALUE -> DONE
 *              |   ^                                      |  ^
 *         THEADER -> INFO                                 |  |
 *                                                  RAW, BODY (bytes of strings, lists of numbers)
 *
 * Open structs and containers are on a stack of levels. Every byte and every declared size is
 * checked against the rest of the message before any memory is reserved for it.
 */

#include "plugin/frame/scan.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"

#define DEFAULT_MAX_HEAD_BYTES ((gsize) 64 << 20)
#define LARGEST_HEAD_BYTES \
  ((gsize) 1 << 30) /* GByteArray counts in 32 bits, and grows in powers of two */
#define DROPPED_BYTES ((gsize) 16 << 10)
#define NO_LIMIT G_MAXSIZE

/* The destination of the bytes of refused bodies, which nothing reads. It is not allocated, because
 * a body may have been refused for lack of memory. */
static _Thread_local guint8 dropped[DROPPED_BYTES];

/* FIRST_LEVELS is the number of levels in the scanner itself. MAX_ODD_IDS limits the field ids of a
 * struct that are outside [0, 255]; no service of this project has such ids. */
#define TPS_SCAN_FIRST_LEVELS 6
#define TPS_SCAN_MAX_ODD_IDS 16
#define TPS_SCAN_CARRY_BYTES 16     /* at least the longest token, a varint of 10 bytes */
#define TPS_SCAN_THEADER_FIRST 0x0f /* first byte of a THeader frame's content */

typedef enum
{
  TPS_STEP_OK,   /* continue with the step of the new state */
  TPS_STEP_MORE, /* more bytes are needed: none were consumed, or (RAW, NAME) all were */
  TPS_STEP_STOP, /* a message is complete, or a body begins */
  TPS_STEP_BAD,  /* scanner->error is set */
} TpsScanStep;

typedef enum
{
  TPS_SCAN_START,    /* before the frame length, or before an unframed message */
  TPS_SCAN_THEADER,  /* before the fixed part of a THeader frame's header */
  TPS_SCAN_INFO,     /* in the rest of that header */
  TPS_SCAN_PROTOCOL, /* before the first byte of a message */
  TPS_SCAN_HEADER,   /* version and kind, read by the codec */
  TPS_SCAN_SEQID,
  TPS_SCAN_NAME_LENGTH,
  TPS_SCAN_NAME,
  TPS_SCAN_NEXT,  /* before a field, an element, a key or a value */
  TPS_SCAN_VALUE, /* before a value of scanner->type */
  TPS_SCAN_RAW,   /* in n_raw bytes that are copied into the head */
  TPS_SCAN_BODY,  /* in the bytes of a body */
  TPS_SCAN_DONE,  /* a message is ready for tps_scanner_take() */
  TPS_SCAN_N_STATES,
} TpsScanState;

/* The bytes that a step may read. */
typedef struct
{
  const guint8 *next;
  const guint8 *end;  /* `stop`, or the end of the message if that comes first */
  const guint8 *stop; /* end of the available bytes */
  /* Binary protocol: bytes from here to `next` are copied into the head unchanged; else NULL. */
  const guint8 *span;
  gsize n_tail; /* bytes of the message after `end`; of an unframed message, up to its limit */
} TpsScanInput;

typedef TpsScanStep (*TpsScanStepFunc) (TpsScanner *scanner, TpsScanInput *in);

/* An open struct, list, set or map. */
typedef struct
{
  gboolean is_struct;
  /* Container: the type of the next value is [0] if n_left is even (a map's keys), and [1] if it is
   * odd (a map's values). */
  guint8 types[2];
  guint32 n_left; /* container: values left; both keys and values of a map count */
  gint16 last_id; /* struct in compact protocol */
  guint8 n_odd_ids;
  guint64 seen_ids[4]; /* struct: bit i = field i has occurred */
  gint16 odd_ids[TPS_SCAN_MAX_ODD_IDS];
} TpsScanLevel;

typedef struct
{
  TpsProtocolKind protocol;
  /* [16] minimum encoded size of a value, by type; 0 = no such type */
  const guint8 *min_bytes;
  TpsScanStepFunc steps[TPS_SCAN_N_STATES];
} TpsScanCodec;

struct TpsScanner
{
  gsize max_message_bytes;
  gsize max_head_bytes;
  TpsBufferPool *bodies; /* a reference */
  TpsBufferPool *(*choose_bodies) (gpointer user_data);
  gpointer user_data;
  TpsBufferPool *pool; /* of the present message; borrowed */
  gboolean transferred;

  gint framed; /* -1 = not known yet */
  TpsScanState state;
  const TpsScanCodec *codec;
  GError *error;

  gsize limit;  /* size of the message: the frame's length, or the limit of an unframed one */
  gsize n_left; /* rest of `limit`, from the first byte in `carry` on */
  guint n_carry;
  guint8 carry[TPS_SCAN_CARRY_BYTES];

  TpsMessage *message;
  gsize n_head;      /* used bytes of message->head, which may be longer */
  gsize n_raw;       /* TPS_SCAN_RAW, TPS_SCAN_NAME: missing bytes */
  gsize n_body;      /* TPS_SCAN_BODY: bytes of the last body, which may be refused */
  gsize n_filled;    /* received bytes of `n_body` */
  guint n_info;      /* TPS_SCAN_INFO: bytes of the header */
  guint n_info_here; /* received bytes of `n_info` */
  guint n_name;      /* TPS_SCAN_NAME: received bytes of the name */

  guint8 type; /* TPS_SCAN_VALUE */
  guint depth;
  TpsScanLevel first_levels[TPS_SCAN_FIRST_LEVELS];
  TpsScanLevel *deep_levels; /* further levels; NULL until a message is nested so deeply */
};

/* Returns the number of bytes of the input that have not been read. */
static inline gsize
count_here (const TpsScanInput *in)
{
  return (gsize) (in->end - in->next);
}

/* Returns the number of bytes to the end of the message, or to the limit of an unframed one. */
static inline gsize
count_left (const TpsScanInput *in)
{
  return count_here (in) + in->n_tail;
}

/* Sets `end` and `n_tail`. `n_left` is the number of unread bytes of the message. */
static inline void
limit_input (TpsScanInput *in, gsize n_left)
{
  gsize n_here = (gsize) (in->stop - in->next);

  in->end = n_here > n_left ? in->next + n_left : in->stop;
  in->n_tail = n_left - count_here (in);
}

/* ---- the machine ----------------------------------------------------------------------------- */

#define FIRST_HEAD_BYTES 256

/* Returns the innermost level; there must be one. */
static TpsScanLevel *
get_level (TpsScanner *scanner)
{
  guint i = scanner->depth - 1;

  return i < TPS_SCAN_FIRST_LEVELS ? &scanner->first_levels[i]
                                   : &scanner->deep_levels[i - TPS_SCAN_FIRST_LEVELS];
}

static TpsScanStep
refuse_with (TpsScanner *scanner, const TpsScanInput *in, TpsErrorCode code, const gchar *text)
{
  if (scanner->error == NULL)
    g_set_error (&scanner->error, TPS_ERROR, code, "byte %" G_GSIZE_FORMAT " of a message: %s",
                 scanner->limit - count_left (in), text);
  return TPS_STEP_BAD;
}

/* Sets the error, with the position in the message, and returns TPS_STEP_BAD. */
static TpsScanStep
refuse (TpsScanner *scanner, const TpsScanInput *in, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  return refuse_with (scanner, in, TPS_ERROR_PROTOCOL, text);
}

/* As refuse(), for the length of `name`, which exceeds the rest of the message. The error
 * is PROTOCOL in a frame, and RESOURCE_EXHAUSTED in an unframed message, whose limit it exceeds. */
static TpsScanStep
refuse_length (TpsScanner *scanner, const TpsScanInput *in, const gchar *name, guint64 n_bytes)
{
  g_autofree gchar *text = NULL;

  if (scanner->framed == 1)
    return refuse (scanner, in,
                   "%s needs %" G_GUINT64_FORMAT " bytes, %" G_GSIZE_FORMAT
                   " are left in the frame",
                   name, n_bytes, count_left (in));
  text = g_strdup_printf ("%s needs %" G_GUINT64_FORMAT " bytes, the limit of %" G_GSIZE_FORMAT
                          " bytes for a message leaves %" G_GSIZE_FORMAT,
                          name, n_bytes, scanner->limit, count_left (in));
  return refuse_with (scanner, in, TPS_ERROR_RESOURCE_EXHAUSTED, text);
}

static void
count_dropped (TpsMessage *message, gsize n_bytes)
{
  gsize cost = tps_buffer_pool_get_cost (n_bytes);

  if (__builtin_add_overflow (message->n_bytes_dropped, cost, &message->n_bytes_dropped))
    message->n_bytes_dropped = G_MAXSIZE;
}

/* Drops the contents of the message, because there is no memory for `n_bytes` of it. Its bytes are
 * still read to the end, so the connection can stay open. */
static void
refuse_memory (TpsScanner *scanner, gsize n_bytes)
{
  TpsMessage *message = scanner->message;

  message->n_bytes_refused += n_bytes;
  message->pool_limit = tps_budget_get_max (tps_buffer_pool_get_budget (scanner->pool));
  for (guint i = 0; i < message->n_bodies; i++)
    count_dropped (message, message->bodies[i].n_bytes);
  tps_message_drop_bodies (message);
}

/* Creates the next message and charges for it. */
static void
create_message (TpsScanner *scanner)
{
  if (scanner->choose_bodies != NULL)
    scanner->pool = scanner->choose_bodies (scanner->user_data);
  scanner->message = tps_message_new ();
  scanner->message->framed = scanner->framed;
  scanner->message->transferred = scanner->transferred;
  scanner->message->charge.budget = tps_budget_ref (tps_buffer_pool_get_budget (scanner->pool));
  if (scanner->pool != scanner->bodies)
    scanner->message->n_bytes_free = TPS_MESSAGE_FREE_BYTES;
  if (!tps_message_charge (scanner->message, TPS_MESSAGE_BYTES, NULL))
    refuse_memory (scanner, TPS_MESSAGE_BYTES);
  scanner->n_head = 0;
}

/* Makes room in the head for `n_bytes` more bytes. The head grows in powers of two, and only for
 * received bytes, never for announced bytes. If there is no memory for the head, the message is
 * refused, and its further bytes are dropped. */
static gboolean
grow_head (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes)
{
  TpsMessage *message = scanner->message;
  gsize wanted = scanner->n_head + n_bytes;
  gsize n_bytes_new = MAX (FIRST_HEAD_BYTES, (gsize) message->head->len * 2);

  if (wanted > scanner->max_head_bytes)
    {
      g_autofree gchar *text = g_strdup_printf (
          "the message without its large binaries exceeds the limit of %" G_GSIZE_FORMAT " bytes",
          scanner->max_head_bytes);

      refuse_with (scanner, in, TPS_ERROR_RESOURCE_EXHAUSTED, text);
      return FALSE;
    }
  while (n_bytes_new < wanted)
    n_bytes_new *= 2;
  n_bytes_new = MIN (n_bytes_new, scanner->max_head_bytes);
  if (message->n_bytes_refused == 0
      && !tps_message_charge (message, n_bytes_new - message->n_bytes_head, NULL))
    refuse_memory (scanner, n_bytes_new);
  if (message->n_bytes_refused == 0)
    {
      message->n_bytes_head = n_bytes_new;
      if (!tps_byte_array_try_set_size (&message->head, (guint) n_bytes_new))
        refuse_memory (scanner, n_bytes_new);
    }
  if (message->n_bytes_refused > 0)
    {
      /* The codecs still write into the head. Their bytes now overwrite it from the beginning. */
      scanner->n_head = 0;
      g_byte_array_set_size (message->head, MAX (FIRST_HEAD_BYTES, message->head->len));
    }
  return TRUE;
}

/* Appends `n_bytes`, at most 256, to the used bytes of the head, and returns their memory,
 * borrowed. Sets scanner->error and returns NULL on failure. */
static guint8 *
head_extend (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes)
{
  guint8 *room;

  if (G_UNLIKELY (n_bytes > scanner->message->head->len - scanner->n_head)
      && !grow_head (scanner, in, n_bytes))
    return NULL;
  room = scanner->message->head->data + scanner->n_head;
  scanner->n_head += n_bytes;
  return room;
}

/* Appends bytes to the head, or drops them if the message is refused. FALSE: the input is
 * refused. */
static gboolean
append (TpsScanner *scanner, const TpsScanInput *in, const guint8 *bytes, gsize n_bytes)
{
  TpsMessage *message = scanner->message;

  if (G_UNLIKELY (n_bytes > message->head->len - scanner->n_head)
      && !grow_head (scanner, in, n_bytes))
    return FALSE;
  if (G_UNLIKELY (message->n_bytes_refused > 0))
    return TRUE;
  memcpy (message->head->data + scanner->n_head, bytes, n_bytes);
  scanner->n_head += n_bytes;
  return TRUE;
}

/* Copies the bytes from `span` to `next` into the head. Sets scanner->error on failure. */
static gboolean
flush_span (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = (gsize) (in->next - in->span);

  if (in->span == NULL || n_bytes == 0)
    return TRUE;
  if (!append (scanner, in, in->span, n_bytes))
    return FALSE;
  in->span = in->next;
  return TRUE;
}

static gboolean
refuse_duplicate (TpsScanner *scanner, const TpsScanInput *in, gint16 id)
{
  refuse (scanner, in, "field %d occurs twice in one struct", id);
  return FALSE;
}

static gboolean
mark_odd_field (TpsScanner *scanner, const TpsScanInput *in, TpsScanLevel *level, gint16 id)
{
  for (guint i = 0; i < level->n_odd_ids; i++)
    if (level->odd_ids[i] == id)
      return refuse_duplicate (scanner, in, id);
  if (level->n_odd_ids == TPS_SCAN_MAX_ODD_IDS)
    {
      refuse (scanner, in, "a struct has more than %d field ids outside [0, 255]",
              TPS_SCAN_MAX_ODD_IDS);
      return FALSE;
    }
  level->odd_ids[level->n_odd_ids++] = id;
  return TRUE;
}

/* Records the field id. Sets scanner->error and returns FALSE if the struct already has a field
 * with this id, or too many ids outside [0, 255]. */
static gboolean
mark_field (TpsScanner *scanner, const TpsScanInput *in, TpsScanLevel *level, gint16 id)
{
  guint64 bit = (guint64) 1 << (id & 63);

  if (G_UNLIKELY (id < 0 || id > 255))
    return mark_odd_field (scanner, in, level, id);
  if (level->seen_ids[id >> 6] & bit)
    return refuse_duplicate (scanner, in, id);
  level->seen_ids[id >> 6] |= bit;
  return TRUE;
}

static gboolean
check_depth (TpsScanner *scanner, const TpsScanInput *in)
{
  if (scanner->depth < TPS_MESSAGE_MAX_DEPTH)
    return TRUE;
  refuse (scanner, in, "structs and containers are nested more than %d deep",
          TPS_MESSAGE_MAX_DEPTH);
  return FALSE;
}

/* Deep levels are allocated on demand, because few messages are nested deeply, and an idle
 * connection should use little memory. */
static TpsScanLevel *
push_level (TpsScanner *scanner)
{
  if (scanner->depth < TPS_SCAN_FIRST_LEVELS)
    return &scanner->first_levels[scanner->depth++];
  if (scanner->deep_levels == NULL)
    scanner->deep_levels = g_new (TpsScanLevel, TPS_MESSAGE_MAX_DEPTH - TPS_SCAN_FIRST_LEVELS);
  return &scanner->deep_levels[scanner->depth++ - TPS_SCAN_FIRST_LEVELS];
}

static TpsScanStep
begin_struct (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanLevel *level;

  if (!check_depth (scanner, in))
    return TPS_STEP_BAD;
  level = push_level (scanner);
  level->is_struct = TRUE;
  level->last_id = 0;
  level->n_odd_ids = 0;
  memset (level->seen_ids, 0, sizeof level->seen_ids);
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
end_level (TpsScanner *scanner, TpsScanInput *in)
{
  if (--scanner->depth == 0)
    {
      if (scanner->framed == 1 && count_left (in) > 0)
        return refuse (scanner, in, "the message ends %" G_GSIZE_FORMAT " bytes before its frame",
                       count_left (in));
      scanner->state = TPS_SCAN_DONE;
      return TPS_STEP_STOP;
    }
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

/* Goes on in a list, set or map: its next element, or its end. */
static TpsScanStep
step_element (TpsScanner *scanner, TpsScanInput *in, TpsScanLevel *level)
{
  if (level->n_left == 0)
    return end_level (scanner, in);
  scanner->type = level->types[level->n_left & 1];
  level->n_left--;
  scanner->state = TPS_SCAN_VALUE;
  return TPS_STEP_OK;
}

/* Adds a body of `n_bytes` to the message. FALSE: there is no memory. */
static gboolean
add_body (TpsScanner *scanner, gsize n_bytes)
{
  TpsBody body = { .head_offset = scanner->n_head, .n_bytes = n_bytes };

  /* The frame limit does not bound the announcements of a transfer, so its bodies take memory only
   * for received bytes. */
  body.buffer = scanner->transferred ? tps_buffer_pool_get_empty (scanner->pool, n_bytes, NULL)
                                     : tps_buffer_pool_get (scanner->pool, n_bytes, NULL);
  if (body.buffer == NULL)
    return FALSE;
  if (tps_message_add_body (scanner->message, &body, NULL))
    return TRUE;
  tps_buffer_unref (body.buffer);
  return FALSE;
}

static TpsScanStep
begin_body (TpsScanner *scanner, TpsScanInput *in, gsize n_bytes)
{
  if (!flush_span (scanner, in))
    return TPS_STEP_BAD;
  /* A message that lacks a body cannot be handled, so its later bodies are refused, too. */
  if (scanner->message->n_bytes_refused > 0 || !add_body (scanner, n_bytes))
    {
      refuse_memory (scanner, n_bytes);
      count_dropped (scanner->message, n_bytes);
    }
  scanner->message->n_bytes_bodies += n_bytes;
  scanner->n_body = n_bytes;
  scanner->n_filled = 0;
  scanner->state = TPS_SCAN_BODY;
  return TPS_STEP_STOP;
}

/* Begins a string or binary of `n_bytes`. Its length prefix must already be in the head or the
 * span. */
static TpsScanStep
begin_binary (TpsScanner *scanner, TpsScanInput *in, gint64 n_bytes)
{
  if (n_bytes < 0)
    return refuse (scanner, in, "a string has the negative length %" G_GINT64_FORMAT, n_bytes);
  if ((guint64) n_bytes > count_left (in))
    return refuse_length (scanner, in, "a string", (guint64) n_bytes);
  if (n_bytes >= TPS_MESSAGE_BODY_THRESHOLD)
    return begin_body (scanner, in, (gsize) n_bytes);
  scanner->n_raw = (gsize) n_bytes;
  scanner->state = n_bytes > 0 ? TPS_SCAN_RAW : TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

/* Some writers give no type for an empty container. */
static gboolean
check_type (TpsScanner *scanner, const TpsScanInput *in, guint8 type, gint64 n_elems)
{
  if ((type < 16 && scanner->codec->min_bytes[type] > 0) || (type == TPS_WIRE_STOP && n_elems == 0))
    return TRUE;
  refuse (scanner, in, "elements have the unknown type %u",
          scanner->codec->protocol == TPS_PROTOCOL_COMPACT ? type & 0x0f : type);
  return FALSE;
}

/* Checks types, count and depth of a container. `types` are the types of key and value; for a list
 * or set, both are the element type. Sets scanner->error and returns FALSE if a check fails. */
static gboolean
check_container (TpsScanner *scanner, const TpsScanInput *in, gboolean is_map,
                 const guint8 types[2], gint64 n_elems)
{
  const gchar *name = is_map ? "a map" : "a list";
  guint64 n_bytes_min;

  if (n_elems < 0)
    {
      refuse (scanner, in, "%s has the negative size %" G_GINT64_FORMAT, name, n_elems);
      return FALSE;
    }
  if (!check_type (scanner, in, types[0], n_elems) || !check_type (scanner, in, types[1], n_elems))
    return FALSE;
  n_bytes_min = scanner->codec->min_bytes[types[0]];
  if (is_map)
    n_bytes_min += scanner->codec->min_bytes[types[1]];
  n_bytes_min *= (guint64) n_elems;
  if (n_bytes_min > count_left (in))
    {
      refuse_length (scanner, in, name, n_bytes_min);
      return FALSE;
    }
  return check_depth (scanner, in);
}

static TpsScanStep
begin_container (TpsScanner *scanner, gboolean is_map, const guint8 types[2], guint32 n_elems)
{
  TpsScanLevel *level;

  scanner->state = TPS_SCAN_NEXT;
  if (n_elems == 0)
    return TPS_STEP_OK;
  level = push_level (scanner);
  level->is_struct = FALSE;
  level->types[0] = types[0];
  level->types[1] = types[1];
  level->n_left = is_map ? 2 * n_elems : n_elems; /* no overflow: a size is below 2^31 */
  return TPS_STEP_OK;
}

static TpsScanStep
begin_name (TpsScanner *scanner, const TpsScanInput *in, gint64 n_bytes)
{
  gboolean is_call = scanner->message->kind == TPS_MESSAGE_CALL
                     || scanner->message->kind == TPS_MESSAGE_ONEWAY;

  if (n_bytes < (is_call ? 1 : 0) || n_bytes > TPS_MESSAGE_MAX_NAME)
    return refuse (scanner, in, "a method name of %" G_GINT64_FORMAT " bytes; 1 to %d are allowed",
                   n_bytes, TPS_MESSAGE_MAX_NAME);
  if ((guint64) n_bytes > count_left (in))
    return refuse_length (scanner, in, "the method name", (guint64) n_bytes);
  tps_message_reserve_name (scanner->message, (gsize) n_bytes);
  scanner->n_name = 0;
  scanner->n_raw = (gsize) n_bytes;
  scanner->state = TPS_SCAN_NAME;
  return TPS_STEP_OK;
}

static TpsScanStep
begin_arguments (TpsScanner *scanner, TpsScanInput *in)
{
  in->span = scanner->codec->protocol == TPS_PROTOCOL_BINARY ? in->next : NULL;
  return begin_struct (scanner, in);
}

static TpsScanStep
step_name (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = MIN (scanner->n_raw, count_here (in));
  gchar *name = scanner->message->name;

  memcpy (name + scanner->n_name, in->next, n_bytes);
  in->next += n_bytes;
  scanner->n_name += (guint) n_bytes;
  scanner->n_raw -= n_bytes;
  if (scanner->n_raw > 0)
    return TPS_STEP_MORE;
  name[scanner->n_name] = '\0';
  if (!g_utf8_validate_len (name, scanner->n_name, NULL))
    return refuse (scanner, in, "the method name is not UTF-8 without NUL");
  if (scanner->codec->protocol == TPS_PROTOCOL_COMPACT)
    return begin_arguments (scanner, in);
  scanner->state = TPS_SCAN_SEQID;
  return TPS_STEP_OK;
}

static TpsScanStep
step_raw (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = MIN (scanner->n_raw, count_here (in));

  if (in->span == NULL && !append (scanner, in, in->next, n_bytes))
    return TPS_STEP_BAD;
  in->next += n_bytes;
  scanner->n_raw -= n_bytes;
  if (scanner->n_raw > 0)
    return TPS_STEP_MORE;
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

/* ---- binary protocol -------------------------------------------------------------------------
 *
 * The strict binary protocol. It is already the canonical form, so its steps only check the bytes,
 * and copy them into the head in long spans. A boolean may be any byte; every byte except 0 is
 * true. */

#define BINARY_VERSION_MASK 0xffffff00u
#define BINARY_VERSION_1 0x80010000u

/* Minimum size of a value, by type. An empty struct consists of its stop byte. */
static const guint8 binary_min_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8, [TPS_WIRE_I16] = 2,
  [TPS_WIRE_I32] = 4,  [TPS_WIRE_I64] = 8,  [TPS_WIRE_BINARY] = 4, [TPS_WIRE_STRUCT] = 1,
  [TPS_WIRE_MAP] = 6,  [TPS_WIRE_SET] = 5,  [TPS_WIRE_LIST] = 5,
};

/* Size of the values of a type, if they all have the same size; 0 = they do not. */
static const guint8 fixed_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8,
  [TPS_WIRE_I16] = 2,  [TPS_WIRE_I32] = 4,  [TPS_WIRE_I64] = 8,
};

static guint32
get_be32 (const guint8 *bytes)
{
  guint32 value;

  memcpy (&value, bytes, sizeof value);
  return GUINT32_FROM_BE (value);
}

static TpsScanStep
binary_step_header (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 version;

  if (count_here (in) < 4)
    return TPS_STEP_MORE;
  version = get_be32 (in->next);
  if ((version & BINARY_VERSION_MASK) != BINARY_VERSION_1)
    return refuse (scanner, in, "the binary protocol has version 0x%08x, expected 0x80010000",
                   version);
  if ((version & 0xff) < TPS_MESSAGE_CALL || (version & 0xff) > TPS_MESSAGE_ONEWAY)
    return refuse (scanner, in, "unknown message type %u", version & 0xff);
  scanner->message->kind = (TpsMessageKind) (version & 0xff);
  in->next += 4;
  scanner->state = TPS_SCAN_NAME_LENGTH;
  return TPS_STEP_OK;
}

static TpsScanStep
binary_step_name_length (TpsScanner *scanner, TpsScanInput *in)
{
  if (count_here (in) < 4)
    return TPS_STEP_MORE;
  in->next += 4;
  return begin_name (scanner, in, (gint32) get_be32 (in->next - 4));
}

static TpsScanStep
binary_step_seqid (TpsScanner *scanner, TpsScanInput *in)
{
  if (count_here (in) < 4)
    return TPS_STEP_MORE;
  scanner->message->seqid = (gint32) get_be32 (in->next);
  in->next += 4;
  return begin_arguments (scanner, in);
}

static TpsScanStep
binary_begin_field (TpsScanner *scanner, TpsScanInput *in, TpsScanLevel *level)
{
  guint8 type;
  gsize n_bytes;

  if (count_here (in) < 3)
    return TPS_STEP_MORE;
  type = in->next[0];
  if (type >= 16 || binary_min_bytes[type] == 0)
    return refuse (scanner, in, "a field has the unknown type %u", type);
  if (!mark_field (scanner, in, level, (gint16) (in->next[1] << 8 | in->next[2])))
    return TPS_STEP_BAD;
  in->next += 3;
  n_bytes = fixed_bytes[type];
  if (n_bytes > 0 && n_bytes <= count_here (in))
    {
      in->next += n_bytes; /* the common case: the field's value is here, too */
      return TPS_STEP_OK;
    }
  scanner->type = type;
  scanner->state = TPS_SCAN_VALUE;
  return TPS_STEP_OK;
}

static TpsScanStep
binary_step_next (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanLevel *level = get_level (scanner);

  if (!level->is_struct)
    return step_element (scanner, in, level);
  if (count_here (in) < 1)
    return TPS_STEP_MORE;
  if (in->next[0] != TPS_WIRE_STOP)
    return binary_begin_field (scanner, in, level);
  in->next++;
  return end_level (scanner, in);
}

/* Elements of a fixed size are consumed as one piece. */
static TpsScanStep
binary_begin_elements (TpsScanner *scanner, TpsScanInput *in, gboolean is_map,
                       const guint8 types[2], gint64 n_elems)
{
  gsize n_bytes;

  if (!check_container (scanner, in, is_map, types, n_elems))
    return TPS_STEP_BAD;
  n_bytes = fixed_bytes[types[0]];
  if (n_bytes == 0 || (is_map && fixed_bytes[types[1]] == 0))
    return begin_container (scanner, is_map, types, (guint32) n_elems);
  if (is_map)
    n_bytes += fixed_bytes[types[1]];
  scanner->n_raw = n_bytes * (gsize) n_elems;
  scanner->state = scanner->n_raw > 0 ? TPS_SCAN_RAW : TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
binary_begin_list (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2];

  if (count_here (in) < 5)
    return TPS_STEP_MORE;
  types[0] = types[1] = in->next[0];
  in->next += 5;
  return binary_begin_elements (scanner, in, FALSE, types, (gint32) get_be32 (in->next - 4));
}

/* An empty map has no types in compact protocol, so the canonical form has zeros for them. */
static TpsScanStep
begin_empty_map (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 *room;

  if (!flush_span (scanner, in))
    return TPS_STEP_BAD;
  room = head_extend (scanner, in, 6);
  if (room == NULL)
    return TPS_STEP_BAD;
  memset (room, 0, 6);
  in->next += 6;
  in->span = in->next;
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
binary_begin_map (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2];
  gint32 n_elems;

  if (count_here (in) < 6)
    return TPS_STEP_MORE;
  types[0] = in->next[0];
  types[1] = in->next[1];
  n_elems = (gint32) get_be32 (in->next + 2);
  if (n_elems == 0 && check_container (scanner, in, TRUE, types, 0))
    return begin_empty_map (scanner, in);
  in->next += 6;
  return binary_begin_elements (scanner, in, TRUE, types, n_elems);
}

/* Reads a prefix that consists of the length -1 and the true length. */
static TpsScanStep
begin_long_string (TpsScanner *scanner, TpsScanInput *in)
{
  gint64 n_bytes;

  if (count_here (in) < 12)
    return TPS_STEP_MORE;
  memcpy (&n_bytes, in->next + 4, sizeof n_bytes);
  in->next += 12;
  return begin_binary (scanner, in, GINT64_FROM_BE (n_bytes));
}

static TpsScanStep
binary_begin_string (TpsScanner *scanner, TpsScanInput *in)
{
  if (count_here (in) < 4)
    return TPS_STEP_MORE;
  if (scanner->transferred && get_be32 (in->next) == TPS_MESSAGE_LONG_LENGTH)
    return begin_long_string (scanner, in);
  in->next += 4;
  return begin_binary (scanner, in, (gint32) get_be32 (in->next - 4));
}

static TpsScanStep
binary_step_value (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = fixed_bytes[scanner->type];

  switch (scanner->type)
    {
    case TPS_WIRE_BINARY:
      return binary_begin_string (scanner, in);
    case TPS_WIRE_STRUCT:
      return begin_struct (scanner, in);
    case TPS_WIRE_MAP:
      return binary_begin_map (scanner, in);
    case TPS_WIRE_LIST:
    case TPS_WIRE_SET:
      return binary_begin_list (scanner, in);
    default:
      break;
    }
  if (count_here (in) < n_bytes)
    return TPS_STEP_MORE;
  in->next += n_bytes;
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static const TpsScanCodec codec_binary = {
  .protocol = TPS_PROTOCOL_BINARY,
  .min_bytes = binary_min_bytes,
  .steps = {
    [TPS_SCAN_HEADER] = binary_step_header,
    [TPS_SCAN_NAME_LENGTH] = binary_step_name_length,
    [TPS_SCAN_NAME] = step_name,
    [TPS_SCAN_SEQID] = binary_step_seqid,
    [TPS_SCAN_NEXT] = binary_step_next,
    [TPS_SCAN_VALUE] = binary_step_value,
    [TPS_SCAN_RAW] = step_raw,
  },
};

/* ---- compact protocol ------------------------------------------------------------------------
 *
 * Every token is rewritten into the head in binary protocol.
 *
 * Source: doc/specs/thrift-compact-protocol.md of Apache Thrift; doubles are little-endian, as in
 * all implementations. A varint may be longer than its value needs, but must not be longer than its
 * type allows. */

#define COMPACT_VERSION 1
#define MAX_BYTES_32 5
#define MAX_BYTES_64 10

enum
{
  COMPACT_TRUE = 1,
  COMPACT_FALSE = 2,
};

/* The canonical type of each compact type; 0 = no such type. Type 13 is UUID, which the binary
 * protocol of Thrift 0.17 does not have. */
static const guint8 wire_types[16] = {
  [COMPACT_TRUE] = TPS_WIRE_BOOL,
  [COMPACT_FALSE] = TPS_WIRE_BOOL,
  [3] = TPS_WIRE_BYTE,
  [4] = TPS_WIRE_I16,
  [5] = TPS_WIRE_I32,
  [6] = TPS_WIRE_I64,
  [7] = TPS_WIRE_DOUBLE,
  [8] = TPS_WIRE_BINARY,
  [9] = TPS_WIRE_LIST,
  [10] = TPS_WIRE_SET,
  [11] = TPS_WIRE_MAP,
  [12] = TPS_WIRE_STRUCT,
};

/* Minimum size of a value, by canonical type. */
static const guint8 compact_min_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8, [TPS_WIRE_I16] = 1,
  [TPS_WIRE_I32] = 1,  [TPS_WIRE_I64] = 1,  [TPS_WIRE_BINARY] = 1, [TPS_WIRE_STRUCT] = 1,
  [TPS_WIRE_MAP] = 1,  [TPS_WIRE_SET] = 1,  [TPS_WIRE_LIST] = 1,
};

static guint8
wire_type (guint compact_type)
{
  /* An unknown type becomes a value that is in no table, so that error messages can name it. */
  if (compact_type != 0 && wire_types[compact_type] == 0)
    return (guint8) (0xf0 | compact_type);
  return wire_types[compact_type];
}

/* Reads the varint that begins `offset` bytes ahead, without consuming it. Sets `n_bytes` to its
 * length. */
static TpsScanStep
peek_varint (TpsScanner *scanner, const TpsScanInput *in, gsize offset, guint n_bytes_max,
             guint64 *value, gsize *n_bytes)
{
  gsize n_here = count_here (in);
  guint8 last_max = n_bytes_max == MAX_BYTES_32 ? 0x0f : 0x01;

  *value = 0;
  *n_bytes = 0;
  for (guint i = 0; i < n_bytes_max; i++)
    {
      guint8 byte;

      if (offset + i >= n_here)
        return TPS_STEP_MORE;
      byte = in->next[offset + i];
      if (i == n_bytes_max - 1 && byte > last_max)
        break;
      *value |= (guint64) (byte & 0x7f) << (7 * i);
      if (byte < 0x80)
        {
          *n_bytes = i + 1;
          return TPS_STEP_OK;
        }
    }
  return refuse (scanner, in, "a varint is longer than %u bits",
                 n_bytes_max == MAX_BYTES_32 ? 32 : 64);
}

static TpsScanStep
take_u32 (TpsScanner *scanner, TpsScanInput *in, guint32 *value)
{
  guint64 wide;
  gsize n_bytes;
  TpsScanStep step = peek_varint (scanner, in, 0, MAX_BYTES_32, &wide, &n_bytes);

  if (step != TPS_STEP_OK)
    return step;
  in->next += n_bytes;
  *value = (guint32) wide;
  return TPS_STEP_OK;
}

static gint64
unzigzag (guint64 value)
{
  return (gint64) (value >> 1) ^ -(gint64) (value & 1);
}

/* Writes the low `n_bytes` of a value big-endian into the head. */
static TpsScanStep
put (TpsScanner *scanner, const TpsScanInput *in, guint64 value, guint n_bytes)
{
  guint8 *room = head_extend (scanner, in, n_bytes);
  guint64 big_endian = GUINT64_TO_BE (value << (64 - 8 * n_bytes));

  if (room == NULL)
    return TPS_STEP_BAD;
  memcpy (room, &big_endian, n_bytes);
  return TPS_STEP_OK;
}

static TpsScanStep
compact_step_header (TpsScanner *scanner, TpsScanInput *in)
{
  guint version, kind;

  if (count_here (in) < 2)
    return TPS_STEP_MORE;
  version = in->next[1] & 0x1f;
  kind = in->next[1] >> 5;
  if (version != COMPACT_VERSION)
    return refuse (scanner, in, "the compact protocol has version %u, expected %d", version,
                   COMPACT_VERSION);
  if (kind < TPS_MESSAGE_CALL || kind > TPS_MESSAGE_ONEWAY)
    return refuse (scanner, in, "unknown message type %u", kind);
  scanner->message->kind = (TpsMessageKind) kind;
  in->next += 2;
  scanner->state = TPS_SCAN_SEQID;
  return TPS_STEP_OK;
}

static TpsScanStep
compact_step_seqid (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 seqid;
  TpsScanStep step = take_u32 (scanner, in, &seqid);

  if (step != TPS_STEP_OK)
    return step;
  scanner->message->seqid = (gint32) seqid;
  scanner->state = TPS_SCAN_NAME_LENGTH;
  return TPS_STEP_OK;
}

static TpsScanStep
compact_step_name_length (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 n_bytes;
  TpsScanStep step = take_u32 (scanner, in, &n_bytes);

  return step == TPS_STEP_OK ? begin_name (scanner, in, (gint32) n_bytes) : step;
}

/* Reads the id from a field header. Sets `n_bytes` to the length of the header. */
static TpsScanStep
peek_field_id (TpsScanner *scanner, const TpsScanInput *in, gint16 last_id, gint64 *id,
               gsize *n_bytes)
{
  guint delta = in->next[0] >> 4;
  guint64 value;
  TpsScanStep step;

  if (delta > 0)
    {
      *id = (gint64) last_id + delta;
      *n_bytes = 1;
    }
  else
    {
      step = peek_varint (scanner, in, 1, MAX_BYTES_32, &value, n_bytes);
      if (step != TPS_STEP_OK)
        return step;
      *id = unzigzag (value);
      *n_bytes += 1;
    }
  if (*id < G_MININT16 || *id > G_MAXINT16)
    return refuse (scanner, in, "field id %" G_GINT64_FORMAT " is outside 16 bits", *id);
  return TPS_STEP_OK;
}

static TpsScanStep
compact_begin_field (TpsScanner *scanner, TpsScanInput *in, TpsScanLevel *level)
{
  guint compact_type = in->next[0] & 0x0f;
  guint8 type = wire_type (compact_type);
  gint64 id;
  gsize n_bytes;
  TpsScanStep step;

  if (type >= 16 || type == 0)
    return refuse (scanner, in, "a field has the unknown type %u", compact_type);
  step = peek_field_id (scanner, in, level->last_id, &id, &n_bytes);
  if (step != TPS_STEP_OK)
    return step;
  if (!mark_field (scanner, in, level, (gint16) id))
    return TPS_STEP_BAD;
  level->last_id = (gint16) id;
  in->next += n_bytes;
  if (type == TPS_WIRE_BOOL) /* the header contains the value, too */
    return put (scanner, in,
                (guint64) type << 24 | (guint64) (guint16) id << 8 | (compact_type == COMPACT_TRUE),
                4);
  scanner->type = type;
  scanner->state = TPS_SCAN_VALUE;
  return put (scanner, in, (guint64) type << 16 | (guint16) id, 3);
}

static TpsScanStep
compact_step_next (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanLevel *level = get_level (scanner);

  if (!level->is_struct)
    return step_element (scanner, in, level);
  if (count_here (in) < 1)
    return TPS_STEP_MORE;
  if (in->next[0] != TPS_WIRE_STOP)
    return compact_begin_field (scanner, in, level);
  if (put (scanner, in, TPS_WIRE_STOP, 1) != TPS_STEP_OK)
    return TPS_STEP_BAD;
  in->next++;
  return end_level (scanner, in);
}

static TpsScanStep
compact_begin_elements (TpsScanner *scanner, TpsScanInput *in, gboolean is_map,
                        const guint8 types[2], guint32 n_elems)
{
  TpsScanStep step;

  if (!check_container (scanner, in, is_map, types, (gint32) n_elems))
    return TPS_STEP_BAD;
  step = is_map ? put (scanner, in, (guint64) types[0] << 8 | types[1], 2)
                : put (scanner, in, types[0], 1);
  if (step != TPS_STEP_OK || put (scanner, in, n_elems, 4) != TPS_STEP_OK)
    return TPS_STEP_BAD;
  if (is_map || types[0] != TPS_WIRE_BYTE)
    return begin_container (scanner, is_map, types, n_elems);
  scanner->n_raw = n_elems;
  scanner->state = n_elems > 0 ? TPS_SCAN_RAW : TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
compact_begin_list (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2];
  guint64 n_elems;
  gsize n_bytes;
  TpsScanStep step;

  if (count_here (in) < 1)
    return TPS_STEP_MORE;
  types[0] = types[1] = wire_type (in->next[0] & 0x0f);
  n_elems = in->next[0] >> 4;
  if (n_elems < 15)
    {
      in->next++;
      return compact_begin_elements (scanner, in, FALSE, types, (guint32) n_elems);
    }
  step = peek_varint (scanner, in, 1, MAX_BYTES_32, &n_elems, &n_bytes);
  if (step != TPS_STEP_OK)
    return step;
  in->next += 1 + n_bytes;
  return compact_begin_elements (scanner, in, FALSE, types, (guint32) n_elems);
}

static TpsScanStep
compact_begin_map (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2] = { TPS_WIRE_STOP, TPS_WIRE_STOP };
  guint64 n_elems;
  gsize n_bytes;
  TpsScanStep step = peek_varint (scanner, in, 0, MAX_BYTES_32, &n_elems, &n_bytes);

  if (step != TPS_STEP_OK)
    return step;
  if (n_elems > 0)
    {
      if (count_here (in) <= n_bytes)
        return TPS_STEP_MORE;
      types[0] = wire_type (in->next[n_bytes] >> 4);
      types[1] = wire_type (in->next[n_bytes] & 0x0f);
      n_bytes++;
    }
  in->next += n_bytes;
  return compact_begin_elements (scanner, in, TRUE, types, (guint32) n_elems);
}

static TpsScanStep
compact_begin_string (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 n_bytes;
  TpsScanStep step = take_u32 (scanner, in, &n_bytes);

  if (step != TPS_STEP_OK)
    return step;
  if (put (scanner, in, n_bytes, 4) != TPS_STEP_OK)
    return TPS_STEP_BAD;
  return begin_binary (scanner, in, (gint32) n_bytes);
}

/* Reads a boolean element: 1 is true, and 2 is false. Some writers send 0 for false. */
static TpsScanStep
take_bool (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 value;

  if (count_here (in) < 1)
    return TPS_STEP_MORE;
  value = in->next[0];
  if (value > COMPACT_FALSE)
    return refuse (scanner, in, "a boolean is %u, neither true (1) nor false (2 or 0)", value);
  in->next++;
  return put (scanner, in, value == COMPACT_TRUE, 1);
}

static TpsScanStep
take_byte (TpsScanner *scanner, TpsScanInput *in)
{
  if (count_here (in) < 1)
    return TPS_STEP_MORE;
  in->next++;
  return put (scanner, in, in->next[-1], 1);
}

static TpsScanStep
take_double (TpsScanner *scanner, TpsScanInput *in)
{
  guint64 bits;

  if (count_here (in) < sizeof bits)
    return TPS_STEP_MORE;
  memcpy (&bits, in->next, sizeof bits);
  in->next += sizeof bits;
  return put (scanner, in, GUINT64_FROM_LE (bits), sizeof bits);
}

static TpsScanStep
take_integer (TpsScanner *scanner, TpsScanInput *in, guint n_bytes)
{
  guint64 value;
  gsize n_taken;
  gint64 number;
  TpsScanStep step = peek_varint (scanner, in, 0, n_bytes == 8 ? MAX_BYTES_64 : MAX_BYTES_32,
                                  &value, &n_taken);

  if (step != TPS_STEP_OK)
    return step;
  number = unzigzag (value);
  if (n_bytes == 2 && (number < G_MININT16 || number > G_MAXINT16))
    return refuse (scanner, in,
                   "an i16 has the value %" G_GINT64_FORMAT ", which is outside [-32768, 32767]",
                   number);
  in->next += n_taken;
  return put (scanner, in, (guint64) number, n_bytes);
}

static TpsScanStep
take_primitive (TpsScanner *scanner, TpsScanInput *in)
{
  switch (scanner->type)
    {
    case TPS_WIRE_BOOL:
      return take_bool (scanner, in);
    case TPS_WIRE_BYTE:
      return take_byte (scanner, in);
    case TPS_WIRE_DOUBLE:
      return take_double (scanner, in);
    case TPS_WIRE_I16:
      return take_integer (scanner, in, 2);
    case TPS_WIRE_I32:
      return take_integer (scanner, in, 4);
    default:
      return take_integer (scanner, in, 8);
    }
}

static TpsScanStep
compact_step_value (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanStep step;

  switch (scanner->type)
    {
    case TPS_WIRE_BINARY:
      return compact_begin_string (scanner, in);
    case TPS_WIRE_STRUCT:
      return begin_struct (scanner, in);
    case TPS_WIRE_MAP:
      return compact_begin_map (scanner, in);
    case TPS_WIRE_LIST:
    case TPS_WIRE_SET:
      return compact_begin_list (scanner, in);
    default:
      break;
    }
  step = take_primitive (scanner, in);
  if (step == TPS_STEP_OK)
    scanner->state = TPS_SCAN_NEXT;
  return step;
}

static const TpsScanCodec codec_compact = {
  .protocol = TPS_PROTOCOL_COMPACT,
  .min_bytes = compact_min_bytes,
  .steps = {
    [TPS_SCAN_HEADER] = compact_step_header,
    [TPS_SCAN_SEQID] = compact_step_seqid,
    [TPS_SCAN_NAME_LENGTH] = compact_step_name_length,
    [TPS_SCAN_NAME] = step_name,
    [TPS_SCAN_NEXT] = compact_step_next,
    [TPS_SCAN_VALUE] = compact_step_value,
    [TPS_SCAN_RAW] = step_raw,
  },
};

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Runs the machine over the received chunks: limits, framing, bodies, and tokens that lie in two
 * chunks. The happy path:
 *
 *   feed -> run_carry   the few bytes kept from the last chunk, with the rest of their token
 *        -> run         steps over the chunk itself
 *        -> keep_rest   the beginning of a token at its end
 */

/* -- the header of a frame -- */

/* The header of a THeader frame, between the frame's length and the message:
 *
 *   u16 magic 0x0fff, u16 flags, i32 sequence id, u16 size of the rest / 4, and the rest:
 *   varint protocol (0 = binary, 2 = compact), varint number of transforms, their ids,
 *   info blocks, each a varint kind and its content
 *     kind 1: varint number of pairs, each a key and a value (varint length, bytes)
 *   zeros up to a multiple of 4 bytes
 *
 * Source: doc/specs/HeaderFormat.md of Apache Thrift. A block of an unknown kind ends the header,
 * as in Thrift's own readers. The rest, at most TPS_MESSAGE_MAX_HEADER_BYTES, is collected and then
 * parsed at once. Parsing converts it to the pairs of the message in place. This is possible
 * because a pair with two NULs is not longer than a pair with two lengths. */

#define FIXED_BYTES 10
#define MAGIC 0x0fff
#define PROTOCOL_BINARY 0
#define PROTOCOL_COMPACT 2
#define TRANSFORM_ZLIB 1
#define INFO_PAIRS 1
/* The part that is kept if there is no memory for a header: the protocol and the number of
 * transforms. */
#define MIN_INFO_BYTES (2 * MAX_BYTES_32)

static guint
get_be16 (const guint8 *bytes)
{
  return (guint) bytes[0] << 8 | bytes[1];
}

static TpsScanStep
step_theader (TpsScanner *scanner, TpsScanInput *in)
{
  gint32 seqid;
  guint n_bytes;

  if (count_here (in) < FIXED_BYTES)
    return TPS_STEP_MORE;
  if (get_be16 (in->next) != MAGIC)
    return refuse (scanner, in,
                   "a frame begins with 0x%04x, neither a message nor the header 0x0fff",
                   get_be16 (in->next));
  memcpy (&seqid, in->next + 4, sizeof seqid);
  n_bytes = 4 * get_be16 (in->next + 8);
  in->next += FIXED_BYTES;
  if (n_bytes > count_left (in))
    return refuse_length (scanner, in, "the frame's header", n_bytes);
  if (n_bytes == 0 || n_bytes > TPS_MESSAGE_MAX_HEADER_BYTES)
    return refuse (scanner, in, "the frame's header has %u bytes; 4 to %d are allowed", n_bytes,
                   TPS_MESSAGE_MAX_HEADER_BYTES);
  create_message (scanner);
  scanner->message->has_header = TRUE;
  scanner->message->header_seqid = GINT32_FROM_BE (seqid);
  if (scanner->message->n_bytes_refused == 0
      && !tps_message_charge (scanner->message, n_bytes, NULL))
    refuse_memory (scanner, n_bytes);
  scanner->n_info = n_bytes;
  scanner->n_info_here = 0;
  scanner->state = TPS_SCAN_INFO;
  return TPS_STEP_OK;
}

/* ---- rest of the header --------------------------------------------------------------------- */

typedef struct
{
  TpsScanner *scanner;
  const TpsScanInput *in; /* the input after the header, for error messages */
  const guint8 *next;
  const guint8 *end;
} Info;

static gboolean
refuse_end (Info *info)
{
  refuse (info->scanner, info->in, "the frame's header ends inside a number or a string");
  return FALSE;
}

/* Reads a varint of 32 bits. FALSE: refused. */
static gboolean
take_varint (Info *info, guint32 *value)
{
  guint64 wide = 0;

  for (guint i = 0; i < MAX_BYTES_32; i++)
    {
      guint8 byte;

      if (info->next == info->end)
        return refuse_end (info);
      byte = *info->next++;
      wide |= (guint64) (byte & 0x7f) << (7 * i);
      if (byte < 0x80 && wide <= G_MAXUINT32)
        {
          *value = (guint32) wide;
          return TRUE;
        }
    }
  refuse (info->scanner, info->in, "the frame's header has a varint of more than 32 bits");
  return FALSE;
}

/* Moves a string to `*dest`, which may overlap it, and appends a NUL. FALSE: refused. */
static gboolean
take_string (Info *info, gchar **dest)
{
  guint32 n_bytes;

  if (!take_varint (info, &n_bytes))
    return FALSE;
  if (n_bytes > (gsize) (info->end - info->next))
    return refuse_end (info);
  if (!g_utf8_validate_len ((const gchar *) info->next, n_bytes, NULL))
    {
      refuse (info->scanner, info->in,
              "a key or a value in the frame's header is not UTF-8 without NUL");
      return FALSE;
    }
  memmove (*dest, info->next, n_bytes);
  info->next += n_bytes;
  *dest += n_bytes;
  *(*dest)++ = '\0';
  return TRUE;
}

/* Reads one pair to `*dest`. FALSE: refused. */
static gboolean
take_pair (Info *info, gchar **dest)
{
  TpsMessage *message = info->scanner->message;
  const gchar *key = *dest;

  if (message->n_headers == TPS_MESSAGE_MAX_HEADERS)
    {
      refuse (info->scanner, info->in, "the frame's header has more than %d pairs",
              TPS_MESSAGE_MAX_HEADERS);
      return FALSE;
    }
  if (!take_string (info, dest))
    return FALSE;
  if (tps_message_get_header (message, key) != NULL)
    {
      refuse (info->scanner, info->in, "the frame's header has the key \"%.64s\" twice", key);
      return FALSE;
    }
  if (!take_string (info, dest))
    return FALSE;
  message->n_headers++;
  return TRUE;
}

/* Reads the blocks of pairs. FALSE: refused. */
static gboolean
take_blocks (Info *info)
{
  gchar *dest = info->scanner->message->headers;

  while (info->next < info->end)
    {
      guint32 kind, n_pairs;

      if (!take_varint (info, &kind))
        return FALSE;
      if (kind != INFO_PAIRS)
        return TRUE;
      if (!take_varint (info, &n_pairs))
        return FALSE;
      for (; n_pairs > 0; n_pairs--)
        if (!take_pair (info, &dest))
          return FALSE;
    }
  return TRUE;
}

/* Reads the number of transforms, which must be 0. FALSE: refused. */
static gboolean
check_transforms (Info *info)
{
  guint32 n_transforms, id;

  if (!take_varint (info, &n_transforms))
    return FALSE;
  if (n_transforms == 0)
    return TRUE;
  if (take_varint (info, &id))
    refuse (info->scanner, info->in,
            "the frame's header requires transform %u%s: transforms are not supported", id,
            id == TRANSFORM_ZLIB ? " (zlib)" : "");
  return FALSE;
}

/* Reads the protocol and sets the codec. FALSE: refused. */
static gboolean
take_protocol (Info *info)
{
  guint32 protocol;

  if (!take_varint (info, &protocol))
    return FALSE;
  if (protocol == PROTOCOL_BINARY)
    info->scanner->codec = &codec_binary;
  else if (protocol == PROTOCOL_COMPACT)
    info->scanner->codec = &codec_compact;
  else
    {
      refuse (info->scanner, info->in,
              "the frame's header announces protocol %u, neither binary (0) nor compact "
              "(2)",
              protocol);
      return FALSE;
    }
  return TRUE;
}

static TpsScanStep
read_info (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes)
{
  const guint8 *bytes = (const guint8 *) scanner->message->headers;
  Info info = { scanner, in, bytes, bytes + n_bytes };

  if (!take_protocol (&info) || !check_transforms (&info))
    return TPS_STEP_BAD;
  if (scanner->message->n_bytes_refused == 0 && !take_blocks (&info))
    return TPS_STEP_BAD;
  scanner->state = TPS_SCAN_PROTOCOL;
  return TPS_STEP_OK;
}

static TpsScanStep
step_info (TpsScanner *scanner, TpsScanInput *in)
{
  TpsMessage *message = scanner->message;
  guint n_kept = message->n_bytes_refused > 0 ? MIN (scanner->n_info, MIN_INFO_BYTES)
                                              : scanner->n_info;
  guint n_new = (guint) MIN (scanner->n_info - scanner->n_info_here, count_here (in));

  if (scanner->n_info_here == 0)
    tps_message_reserve_headers (message, n_kept);
  if (scanner->n_info_here < n_kept)
    memcpy (message->headers + scanner->n_info_here, in->next,
            MIN (n_new, n_kept - scanner->n_info_here));
  in->next += n_new;
  scanner->n_info_here += n_new;
  if (scanner->n_info_here < scanner->n_info)
    return TPS_STEP_MORE;
  return read_info (scanner, in, n_kept);
}

/* -- the scanner -- */

TpsScanner *
tps_scanner_new (const TpsScannerOptions *options)
{
  TpsScanner *scanner = g_new0 (TpsScanner, 1);
  gsize max_head_bytes = options->max_head_bytes;

  if (max_head_bytes == 0)
    max_head_bytes = MIN (DEFAULT_MAX_HEAD_BYTES, options->max_message_bytes);
  scanner->max_message_bytes = options->max_message_bytes;
  scanner->max_head_bytes = MIN (max_head_bytes, LARGEST_HEAD_BYTES);
  scanner->bodies = tps_buffer_pool_ref (options->bodies != NULL ? options->bodies
                                                                 : tps_buffer_pool_get_default ());
  scanner->pool = scanner->bodies;
  scanner->choose_bodies = options->choose_bodies;
  scanner->user_data = options->user_data;
  scanner->transferred = options->transferred;
  scanner->framed = options->transferred ? 0 : -1;
  scanner->state = TPS_SCAN_START;
  scanner->n_left = NO_LIMIT;
  scanner->limit = NO_LIMIT;
  return scanner;
}

void
tps_scanner_free (TpsScanner *scanner)
{
  if (scanner == NULL)
    return;
  g_clear_pointer (&scanner->message, tps_message_free);
  g_clear_error (&scanner->error);
  tps_buffer_pool_unref (scanner->bodies);
  g_free (scanner->deep_levels);
  g_free (scanner);
}

static TpsScanStep
begin_message (TpsScanner *scanner, TpsScanInput *in, gsize n_bytes)
{
  scanner->limit = n_bytes;
  limit_input (in, n_bytes);
  scanner->state = TPS_SCAN_PROTOCOL;
  return TPS_STEP_OK;
}

/* No memory may be reserved for the frame before this returns TRUE. */
static gboolean
check_frame_length (TpsScanner *scanner, guint32 n_bytes)
{
  if (n_bytes == 0)
    g_set_error_literal (&scanner->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                         "a frame has the length 0, expected at least 1");
  else if (n_bytes > G_MAXINT32)
    g_set_error (&scanner->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                 "a frame has the negative length 0x%08x", n_bytes);
  else if (n_bytes > scanner->max_message_bytes)
    g_set_error (&scanner->error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "a frame has %u bytes; the limit is %" G_GSIZE_FORMAT, n_bytes,
                 scanner->max_message_bytes);
  return scanner->error == NULL;
}

static TpsScanStep
step_frame_length (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 n_bytes;

  if (count_here (in) < sizeof n_bytes)
    return TPS_STEP_MORE;
  memcpy (&n_bytes, in->next, sizeof n_bytes);
  n_bytes = GUINT32_FROM_BE (n_bytes);
  if (!check_frame_length (scanner, n_bytes))
    return TPS_STEP_BAD;
  in->next += sizeof n_bytes;
  return begin_message (scanner, in, n_bytes);
}

/* Examines the first bytes of a connection: 1 = they begin a frame; 0 = they begin an unframed
 * message; -1 = one byte is not enough. */
static gint
detect_framed (const TpsScanInput *in)
{
  if (in->next[0] < 0x80)
    return 1;
  if (in->next[0] == 0x82)
    return 0;
  if (in->next[0] == 0x80 && count_here (in) < 2)
    return -1;
  /* Other bytes are refused later, as the beginning of a message or as a negative frame length. */
  return in->next[0] == 0x80 && in->next[1] == 0x01 ? 0 : 1;
}

static TpsScanStep
step_start (TpsScanner *scanner, TpsScanInput *in)
{
  if (count_here (in) == 0)
    return TPS_STEP_MORE;
  if (scanner->framed < 0)
    scanner->framed = detect_framed (in);
  if (scanner->framed < 0)
    return TPS_STEP_MORE;
  if (scanner->framed == 1)
    return step_frame_length (scanner, in);
  return begin_message (scanner, in, scanner->max_message_bytes);
}

static TpsScanStep
step_protocol (TpsScanner *scanner, TpsScanInput *in)
{
  const TpsScanCodec *codec;

  if (count_here (in) == 0)
    return TPS_STEP_MORE;
  if (in->next[0] == TPS_SCAN_THEADER_FIRST && scanner->framed == 1 && scanner->message == NULL)
    {
      scanner->state = TPS_SCAN_THEADER;
      return TPS_STEP_OK;
    }
  codec = in->next[0] == 0x80 ? &codec_binary : &codec_compact;
  if (in->next[0] != 0x80 && in->next[0] != 0x82)
    return refuse (
        scanner, in,
        "a message begins with 0x%02x, neither binary protocol with version (0x80) nor compact "
        "protocol (0x82)",
        in->next[0]);
  if (scanner->message == NULL)
    create_message (scanner);
  else if (codec != scanner->codec)
    return refuse (scanner, in,
                   "a message begins with 0x%02x, but its frame's header announces the "
                   "other protocol",
                   in->next[0]);
  scanner->codec = codec;
  scanner->message->protocol = codec->protocol;
  scanner->state = TPS_SCAN_HEADER;
  return TPS_STEP_OK;
}

static TpsScanStep
step_before (TpsScanner *scanner, TpsScanInput *in)
{
  switch (scanner->state)
    {
    case TPS_SCAN_START:
      return step_start (scanner, in);
    case TPS_SCAN_THEADER:
      return step_theader (scanner, in);
    case TPS_SCAN_INFO:
      return step_info (scanner, in);
    default:
      return step_protocol (scanner, in);
    }
}

static TpsScanStep
step (TpsScanner *scanner, TpsScanInput *in)
{
  if (G_LIKELY (scanner->state > TPS_SCAN_PROTOCOL))
    return scanner->codec->steps[scanner->state](scanner, in);
  return step_before (scanner, in);
}

static void
input_init (const TpsScanner *scanner, TpsScanInput *in, const guint8 *bytes, gsize n_bytes)
{
  gboolean in_arguments = scanner->state >= TPS_SCAN_NEXT;

  in->next = bytes;
  in->stop = bytes + n_bytes;
  in->span = in_arguments && scanner->codec->protocol == TPS_PROTOCOL_BINARY ? bytes : NULL;
  limit_input (in, scanner->n_left);
}

/* Ends a run over one input: counts the consumed bytes, and copies the span into the head. */
static TpsScanStep
input_finish (TpsScanner *scanner, TpsScanInput *in, TpsScanStep last)
{
  scanner->n_left = count_left (in);
  if (last == TPS_STEP_BAD || !flush_span (scanner, in))
    return TPS_STEP_BAD;
  if (last != TPS_STEP_MORE || in->n_tail > 0)
    return last;
  /* The step needs more bytes than the message may have. */
  if (scanner->framed == 1)
    return refuse (scanner, in, "the frame ends inside the message");
  return refuse_length (scanner, in, "the message", count_left (in) + 1);
}

/* Completes the token that began in the last chunk, and sets `n_used` to the number of bytes used
 * from this chunk. */
static TpsScanStep
run_carry (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gsize *n_used)
{
  gsize n_old = scanner->n_carry;
  gsize n_new = MIN (n_bytes, sizeof scanner->carry - n_old);
  gsize n_taken;
  TpsScanInput in;
  TpsScanStep last;

  memcpy (scanner->carry + n_old, bytes, n_new);
  input_init (scanner, &in, scanner->carry, n_old + n_new);
  do
    last = step (scanner, &in);
  while (last == TPS_STEP_OK && in.next < scanner->carry + n_old);
  last = input_finish (scanner, &in, last);
  n_taken = (gsize) (in.next - scanner->carry);
  *n_used = n_new;
  if (last == TPS_STEP_BAD)
    return last;
  if (n_taken < n_old) /* the token is still incomplete, so the chunk has no more bytes */
    {
      scanner->n_carry = (guint) (n_old + n_new - n_taken);
      memmove (scanner->carry, scanner->carry + n_taken, scanner->n_carry);
      return TPS_STEP_MORE;
    }
  scanner->n_carry = 0;
  *n_used = n_taken - n_old;
  return last == TPS_STEP_MORE ? TPS_STEP_OK : last;
}

static TpsScanStep
run (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gsize *n_used)
{
  TpsScanInput in;
  TpsScanStep last;

  input_init (scanner, &in, bytes, n_bytes);
  do
    last = step (scanner, &in);
  while (last == TPS_STEP_OK);
  last = input_finish (scanner, &in, last);
  *n_used = (gsize) (in.next - bytes);
  return last;
}

/* Returns the destination of the next byte of the body; NULL = the body is refused. */
static guint8 *
body_room (const TpsScanner *scanner)
{
  const TpsMessage *message = scanner->message;

  if (message->n_bytes_refused > 0)
    return NULL;
  return tps_buffer_get_data (message->bodies[message->n_bodies - 1].buffer) + scanner->n_filled;
}

static void
fill_body (TpsScanner *scanner, gsize n_bytes)
{
  scanner->n_filled += n_bytes;
  scanner->n_left -= n_bytes;
  if (scanner->n_filled == scanner->n_body)
    scanner->state = TPS_SCAN_NEXT;
}

static gsize
feed_body (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes)
{
  gsize n_used = MIN (n_bytes, scanner->n_body - scanner->n_filled);
  const TpsMessage *message = scanner->message;
  guint8 *room;

  if (scanner->transferred && message->n_bytes_refused == 0
      && !tps_buffer_charge (message->bodies[message->n_bodies - 1].buffer,
                             scanner->n_filled + n_used, NULL))
    refuse_memory (scanner, scanner->n_body);
  room = body_room (scanner);
  if (room != NULL)
    memcpy (room, bytes, n_used);
  fill_body (scanner, n_used);
  return n_used;
}

static gboolean
report (const TpsScanner *scanner, GError **error)
{
  if (scanner->error == NULL)
    return TRUE;
  if (error != NULL)
    *error = g_error_copy (scanner->error);
  return FALSE;
}

gboolean
tps_scanner_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gsize *n_consumed,
                  GError **error)
{
  gsize n_done = 0, n_used = 0;
  TpsScanStep last = TPS_STEP_OK;

  *n_consumed = 0;
  if (scanner->error != NULL)
    return report (scanner, error);
  if (scanner->state == TPS_SCAN_BODY)
    n_done = feed_body (scanner, bytes, n_bytes);
  if (scanner->state == TPS_SCAN_BODY || scanner->state == TPS_SCAN_DONE || n_done == n_bytes)
    {
      *n_consumed = n_done;
      return TRUE;
    }
  if (scanner->n_carry > 0)
    {
      last = run_carry (scanner, bytes, n_bytes, &n_used);
      n_done = n_used;
    }
  if (last == TPS_STEP_OK)
    {
      last = run (scanner, bytes + n_done, n_bytes - n_done, &n_used);
      n_done += n_used;
      if (last == TPS_STEP_MORE)
        {
          memcpy (scanner->carry, bytes + n_done, n_bytes - n_done);
          scanner->n_carry = (guint) (n_bytes - n_done);
          n_done = n_bytes;
        }
    }
  *n_consumed = n_done;
  if (scanner->error != NULL)
    /* its memory is released at once, for other messages */
    g_clear_pointer (&scanner->message, tps_message_free);
  return report (scanner, error);
}

gboolean
tps_scanner_get_body (TpsScanner *scanner, guint8 **dest, gsize *n_missing)
{
  if (scanner->state != TPS_SCAN_BODY || scanner->error != NULL)
    return FALSE;
  *n_missing = scanner->n_body - scanner->n_filled;
  *dest = body_room (scanner);
  if (*dest != NULL)
    return TRUE;
  *dest = dropped;
  *n_missing = MIN (*n_missing, DROPPED_BYTES);
  return TRUE;
}

gboolean
tps_scanner_body_received (TpsScanner *scanner, gsize n_bytes, GError **error)
{
  if (!report (scanner, error))
    return FALSE;
  g_return_val_if_fail (
      scanner->state == TPS_SCAN_BODY && n_bytes <= scanner->n_body - scanner->n_filled, FALSE);
  fill_body (scanner, n_bytes);
  return TRUE;
}

TpsMessage *
tps_scanner_take (TpsScanner *scanner)
{
  if (scanner->state != TPS_SCAN_DONE || scanner->error != NULL)
    return NULL;
  g_byte_array_set_size (scanner->message->head, (guint) scanner->n_head);
  scanner->state = TPS_SCAN_START;
  scanner->n_left = NO_LIMIT;
  scanner->limit = NO_LIMIT;
  return g_steal_pointer (&scanner->message);
}

gboolean
tps_scanner_is_idle (const TpsScanner *scanner)
{
  return scanner->state == TPS_SCAN_START && scanner->n_carry == 0 && scanner->error == NULL;
}

gint
tps_scanner_get_framed (const TpsScanner *scanner)
{
  return scanner->framed;
}
