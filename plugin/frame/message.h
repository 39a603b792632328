/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One received Thrift message in canonical form, whatever it travelled as.
 *
 * The scanner (scan.h) turns binary or compact protocol, framed or not, into this form while the
 * bytes come in:
 *
 *   head    the arguments (or result) struct in Thrift binary protocol, big-endian, without the
 *           message header, except that the bytes of every large binary are left out (its length
 *           prefix stays)
 *   bodies  the large binaries, each in a 64-byte-aligned buffer of its own, in order
 *
 * What the scanner accepts is well-formed: every type known, every length inside the message,
 * nesting at most TPS_MESSAGE_MAX_DEPTH, no field id twice in one struct. So readers of a message
 * check meaning, not structure.
 */

#pragma once

#include "plugin/frame/sharing.h"
#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_MESSAGE_MAX_DEPTH 32
#define TPS_MESSAGE_MAX_NAME 512 /* bytes of the method name, service prefix included */
#define TPS_MESSAGE_BODY_THRESHOLD \
  4096 /* binaries of at least this many bytes get a buffer of their own */
/* What a message with its call is charged at least: structs of ours and their share of what the
 * allocator takes. */
#define TPS_MESSAGE_BYTES 1024
#define TPS_MESSAGE_MAX_HEADER_BYTES 16384 /* of a THeader frame's header */
#define TPS_MESSAGE_MAX_HEADERS 64         /* key/value pairs in it */
#define TPS_MESSAGE_LONG_LENGTH \
  0xffffffffu /* of a binary in a transferred message: its length follows as an i64 */

/* Thrift's wire types, as in the binary protocol. */
typedef enum
{
  TPS_WIRE_STOP = 0,
  TPS_WIRE_BOOL = 2,
  TPS_WIRE_BYTE = 3,
  TPS_WIRE_DOUBLE = 4,
  TPS_WIRE_I16 = 6,
  TPS_WIRE_I32 = 8,
  TPS_WIRE_I64 = 10,
  TPS_WIRE_BINARY = 11, /* string too */
  TPS_WIRE_STRUCT = 12,
  TPS_WIRE_MAP = 13,
  TPS_WIRE_SET = 14,
  TPS_WIRE_LIST = 15,
} TpsWireType;

typedef enum
{
  TPS_MESSAGE_CALL = 1,
  TPS_MESSAGE_REPLY = 2,
  TPS_MESSAGE_EXCEPTION = 3,
  TPS_MESSAGE_ONEWAY = 4,
} TpsMessageKind;

typedef enum
{
  TPS_PROTOCOL_BINARY = 1,
  TPS_PROTOCOL_COMPACT = 2,
} TpsProtocolKind;

typedef struct
{
  gsize head_offset; /* where in the head the body's bytes would stand */
  gsize n_bytes;
  /* NULL: refused by the pool, its bytes were read and dropped; see TpsMessage.n_bytes_refused */
  TpsBuffer *buffer;
} TpsBody;

typedef struct
{
  TpsMessageKind kind;
  TpsProtocolKind protocol;
  gboolean framed;
  gboolean transferred; /* came in chunks, where binaries and answers may be longer than 2^31 - 1 */
  gboolean has_header;  /* came in a THeader frame; its reply must go in one too */
  gint32 header_seqid;  /* with has_header: the frame's sequence id, which its reply repeats */
  gint32 seqid;
  /* as sent, "Service:method" where multiplexed; NUL-terminated UTF-8; see
   * tps_message_set_name() */
  gchar *name;
  GByteArray *head;
  GArray *bodies; /* of TpsBody */
  /* > 0: the pool refused bodies of that many bytes; answer RESOURCE_EXHAUSTED */
  gsize n_bytes_refused;
  GHashTable *context; /* pairs that stand for headers that are missing; a reference, NULL = none */
  TpsSharing *sharing; /* NULL: the connection shares no memory. A reference, set by who receives */
  /* When the thread that received it learned that its last bytes were there, on the monotonic
   * clock; 0 = not known. Set by who receives. */
  gint64 received_ns;
  gsize pool_limit; /* with n_bytes_refused: what may be charged to the pool's budget in all */

  /* What the message is charged beside its bodies, to the budget of the pool: see
   * tps_message_charge(). */
  TpsCharge charge;   /* with a reference of the budget; may be more than `n_bytes_held` */
  gsize n_bytes_head; /* of `n_bytes_held`: of the head, as it was allocated */
  gsize n_bytes_held; /* of the message itself, its head, and what was decoded from it */

  /* Private: where the name stands, kept from message to message. */
  gchar *name_memory;
  gsize n_name_memory;

  /* Private: the pairs of the frame's header, each as key, NUL, value, NUL. */
  gchar *headers;
  gsize n_headers_memory;
  gsize n_header_bytes; /* of `headers`, as they were reserved */
  guint n_headers;
} TpsMessage;

TpsMessage *tps_message_new (void);
void tps_message_free (TpsMessage *message);

/* A message without arguments that says the same of its sender: kind, protocol, framing, sequence
 * ids, name and header pairs. The caller's. */
TpsMessage *tps_message_new_like (const TpsMessage *message);

/* The value that the sender gave to `name` among the key/value pairs of its THeader frame, or else
 * among those of the message's context; borrowed while the message lives, UTF-8 without NUL. NULL
 * if there is none. A message that came in another frame has no pairs of its own, and one whose
 * memory was refused (n_bytes_refused) may have lost them. Keys are compared byte by byte. Thread:
 * any. */
const gchar *tps_message_get_header (const TpsMessage *message, const gchar *name);

/* Memory for `n_bytes` of headers, for the scanner. The message has no pairs until it sets
 * `n_headers`. */
gchar *tps_message_reserve_headers (TpsMessage *message, gsize n_bytes);

/* Charges `n_bytes` more to the message, for what is made from it, until it is freed. Errors:
 * RESOURCE_EXHAUSTED, as tps_budget_charge(). Thread: one at a time. */
gboolean tps_message_charge (TpsMessage *message, gsize n_bytes, GError **error);

/* Gives the message memory for a name of `n_bytes` and its NUL, to be filled in by the caller. */
gchar *tps_message_reserve_name (TpsMessage *message, gsize n_bytes);

/* Copies `name`, which is not the message's own. */
void tps_message_set_name (TpsMessage *message, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMessage, tps_message_free)

G_END_DECLS
