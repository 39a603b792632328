/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One received Thrift message in canonical form, which does not depend on its protocol and framing.
 *
 * The scanner (scan.h) converts messages of the binary and the compact protocol, framed or not, to
 * this form as their bytes arrive:
 *
 *   head    the arguments (or result) struct in Thrift binary protocol, big-endian, without the
 *           message header. The bytes of large binaries are left out, but their length prefixes
 *           stay.
 *   bodies  the large binaries, in order, each in a 64-byte-aligned buffer of its own
 *
 * A message that the scanner accepts is well-formed: every type is known, every length lies inside
 * the message, the nesting is at most TPS_MESSAGE_MAX_DEPTH, and no field id occurs twice in one
 * struct. Readers of a message therefore check meaning, not structure.
 */

#pragma once

#include "plugin/frame/sharing.h"
#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_MESSAGE_MAX_DEPTH 32
#define TPS_MESSAGE_MAX_NAME 512 /* bytes of the method name, service prefix included */
/* Binaries of at least this size get a buffer of their own. */
#define TPS_MESSAGE_BODY_THRESHOLD 4096
/* The minimum charge of a message with its call: their structs, and the overhead of the
 * allocator. */
#define TPS_MESSAGE_BYTES 1024
#define TPS_MESSAGE_MAX_HEADER_BYTES 16384 /* limit of a THeader frame's header */
#define TPS_MESSAGE_MAX_HEADERS 64         /* limit of its key/value pairs */
/* The length prefix of a long binary in a transferred message: an i64 with its length follows. */
#define TPS_MESSAGE_LONG_LENGTH 0xffffffffu

/* Thrift's wire types, with their numbers in the binary protocol. */
typedef enum
{
  TPS_WIRE_STOP = 0,
  TPS_WIRE_BOOL = 2,
  TPS_WIRE_BYTE = 3,
  TPS_WIRE_DOUBLE = 4,
  TPS_WIRE_I16 = 6,
  TPS_WIRE_I32 = 8,
  TPS_WIRE_I64 = 10,
  TPS_WIRE_BINARY = 11, /* also strings */
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
  gsize head_offset; /* position in the head that the body's bytes would have */
  gsize n_bytes;
  TpsBuffer *buffer; /* a reference */
} TpsBody;

typedef struct
{
  TpsMessageKind kind;
  TpsProtocolKind protocol;
  gboolean framed;
  gboolean transferred; /* came in chunks: binaries and replies may be longer than 2^31 - 1 */
  gboolean has_header;  /* came in a THeader frame, and so must its reply */
  gint32 header_seqid;  /* with has_header: the frame's sequence id, which the reply must repeat */
  gint32 seqid;
  /* As sent, "Service:method" if multiplexed; NUL-terminated UTF-8; see tps_message_set_name(). */
  gchar *name;
  GByteArray *head;
  TpsBody *bodies; /* [n_bodies] */
  guint n_bodies;
  gsize n_bytes_bodies; /* the total size of all bodies, dropped ones included */
  /* The total size of the parts for which there was no memory. If it is not 0, these parts and all
   * bodies were read and dropped, and the call must fail with RESOURCE_EXHAUSTED. */
  gsize n_bytes_refused;
  gboolean has_secret; /* the head contains a token, and is cleared before it is freed or reused */
  GHashTable *context; /* pairs that replace missing headers; a reference, NULL = none */
  TpsSharing *sharing; /* a reference, set by the receiver; NULL: the connection shares no memory */
  /* When the receiving thread learned of the last bytes, on the monotonic clock; set by the
   * receiver. 0 = not known. */
  gint64 received_ns;
  /* If n_bytes_refused is not 0: the limit of the pool's budget, and the memory that all bodies
   * would take from that budget; G_MAXSIZE if their sum overflows. */
  gsize pool_limit;
  gsize n_bytes_dropped;

  /* The message's charges in addition to its bodies, to the budget of the pool: see
   * tps_message_charge(). */
  TpsCharge charge;   /* with a reference of the budget; may exceed `n_bytes_held` */
  gsize n_bytes_head; /* the share of the head in `n_bytes_held`, as allocated */
  gsize n_bytes_held; /* of the message, its head, and values decoded from it */

  guint n_bodies_room; /* private: `bodies` has memory for this number */

  /* Private: memory of the name, kept from message to message. */
  gchar *name_memory;
  gsize n_name_memory;

  /* Private: the pairs of the frame's header, each as key, NUL, value, NUL. */
  gchar *headers;
  gsize n_headers_memory;
  gsize n_header_bytes; /* of `headers`, as reserved */
  guint n_headers;
} TpsMessage;

/* Returns an empty message, which the caller owns. Thread: any. */
TpsMessage *tps_message_new (void);
void tps_message_free (TpsMessage *message);

/* Returns a message without arguments and with the same attributes of the sender: kind, protocol,
 * framing, sequence ids, name and header pairs. The caller owns it. */
TpsMessage *tps_message_new_like (const TpsMessage *message);

/* Returns the value of `name` in the key/value pairs of the sender's THeader frame, or else in
 * those of the message's context; NULL if there is none. It is UTF-8 without NUL and borrowed while
 * the message lives. A message in another frame has no pairs of its own, and a message whose memory
 * was refused (n_bytes_refused) may have lost them. Keys are compared byte by byte. Thread: any. */
const gchar *tps_message_get_header (const TpsMessage *message, const gchar *name);

/* Returns memory for `n_bytes` of headers, for the scanner. The message has no pairs until the
 * scanner sets `n_headers`. */
gchar *tps_message_reserve_headers (TpsMessage *message, gsize n_bytes);

/* Charges `n_bytes` more to the message until it is freed, for values that are made from it.
 * Errors: RESOURCE_EXHAUSTED, as tps_budget_charge(). Thread: one at a time. */
gboolean tps_message_charge (TpsMessage *message, gsize n_bytes, GError **error);

/* Appends a body and takes ownership of its buffer. The list of bodies is charged as it grows.
 * FALSE: there is no memory, and the caller keeps the buffer. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_message_add_body (TpsMessage *message, const TpsBody *body, GError **error);

/* Releases all bodies. */
void tps_message_drop_bodies (TpsMessage *message);

/* Returns memory for a name of `n_bytes` and its NUL, which the caller must fill in. */
gchar *tps_message_reserve_name (TpsMessage *message, gsize n_bytes);

/* Copies `name`, which must not be the message's own. */
void tps_message_set_name (TpsMessage *message, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMessage, tps_message_free)

G_END_DECLS
