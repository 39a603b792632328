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

#include <thriftps/wire.h>

#include "plugin/frame/sharing.h"
#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_MESSAGE_MAX_DEPTH 32
#define TPS_MESSAGE_MAX_NAME 512 /* bytes of the method name, service prefix included */
/* Binaries of at least this size get a buffer of their own. */
#define TPS_MESSAGE_BODY_THRESHOLD 4096
/* The minimum charge of a message and its call, for their structs and the overhead of the
 * allocator. */
#define TPS_MESSAGE_BYTES 1024
/* Room for a login, which must not fail because other peers hold the memory for strangers. */
#define TPS_MESSAGE_FREE_BYTES ((gsize) 16384)
#define TPS_MESSAGE_MAX_HEADER_BYTES 16384 /* limit of a THeader frame's header */
#define TPS_MESSAGE_MAX_HEADERS 64         /* limit of its key/value pairs */
/* The length prefix of a binary of 2^31 bytes or more in a transferred message; its length follows
 * as an i64. */
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

typedef struct
{
  gsize head_offset; /* position that the first byte of the body would have in the head */
  gsize n_bytes;
  TpsBuffer *buffer; /* a reference */
} TpsBody;

typedef struct
{
  TpsMessageKind kind;
  TpsProtocolKind protocol;
  gboolean framed;
  gboolean transferred; /* came in chunks: binaries and replies may be longer than 2^31 - 1 */
  gboolean has_header;  /* came in a THeader frame; its reply must be sent in one, too */
  gint32 header_seqid;  /* with has_header: the frame's sequence id, which the reply must repeat */
  gint32 seqid;
  /* The method name as sent: "Service:method" if multiplexed; NUL-terminated UTF-8; see
   * tps_message_set_name(). */
  gchar *name;
  GByteArray *head;
  TpsBody *bodies; /* [n_bodies] */
  guint n_bodies;
  gsize n_bytes_bodies; /* the total size of all bodies, dropped ones included */
  /* The total size of the parts for which there was no memory. If it is not 0, these parts and all
   * bodies were read and dropped, and the receiver must fail the call with RESOURCE_EXHAUSTED. */
  gsize n_bytes_refused;
  gboolean has_secret; /* the head contains a token, and is cleared before it is freed or reused */
  GHashTable *context; /* pairs to use for missing headers; a reference; NULL = none */
  TpsSharing *sharing; /* a reference, set by the receiver; NULL: the connection shares no memory */
  /* The time at which the receiving thread noticed the last bytes, on the monotonic clock; set by
   * the receiver. 0 = not known. */
  gint64 received_ns;
  /* If n_bytes_refused is not 0: the limit of the pool's budget, and the memory that all bodies
   * would take from that budget; G_MAXSIZE if their sum overflows. */
  gsize pool_limit;
  gsize n_bytes_dropped;

  /* The charges of the message to the pool's budget, not counting its bodies; see
   * tps_message_charge(). */
  TpsCharge charge;   /* with a reference to the budget; may exceed `n_bytes_held` */
  gsize n_bytes_head; /* the share of the head in `n_bytes_held`, as allocated */
  gsize n_bytes_held; /* bytes of the message, its head, and values decoded from it */
  gsize n_bytes_free; /* the first bytes of `n_bytes_held`, which are not charged; 0 except for
                       * messages of peers whose pool was chosen (TpsScannerOptions) */

  guint n_bodies_room; /* private: `bodies` has memory for this number */

  /* Private: memory of the name, reused by later messages. */
  gchar *name_memory;
  gsize n_name_memory;

  /* Private: the pairs of the frame's header, each as key, NUL, value, NUL. */
  gchar *headers;
  gsize n_headers_memory;
  gsize n_header_bytes; /* of `headers`, as reserved */
  guint n_headers;
} TpsMessage;

TpsMessage *tps_message_new (void);
void tps_message_free (TpsMessage *message);

/* Returns a message without arguments that has the kind, protocol, framing, sequence ids, name,
 * header pairs and context of `message`. The caller owns the result. */
TpsMessage *tps_message_new_like (const TpsMessage *message);

/* Returns the value of the header `name` in the sender's THeader frame or else in the message's
 * context; NULL if there is none. UTF-8, borrowed from the message. A message whose memory was
 * refused (n_bytes_refused) may have lost its headers. Thread: any. */
const gchar *tps_message_get_header (const TpsMessage *message, const gchar *name);

/* Returns memory for `n_bytes` of headers, borrowed from the message; called by the scanner only.
 * The message has no headers until the scanner sets `n_headers`. */
gchar *tps_message_reserve_headers (TpsMessage *message, gsize n_bytes);

/* Charges further `n_bytes` until the message is freed, for values that are created from it.
 * Errors: RESOURCE_EXHAUSTED, as tps_budget_charge(). Thread: one at a time. */
gboolean tps_message_charge (TpsMessage *message, gsize n_bytes, GError **error);

/* Appends a body and takes ownership of its buffer. The list of bodies is charged as it grows.
 * Returns FALSE if there is no memory; the caller then still owns the buffer. Errors:
 * RESOURCE_EXHAUSTED. */
gboolean tps_message_add_body (TpsMessage *message, const TpsBody *body, GError **error);

void tps_message_drop_bodies (TpsMessage *message);

/* Sets the name to memory for `n_bytes` and a NUL, and returns that memory, which the caller must
 * fill in. Borrowed from the message. */
gchar *tps_message_reserve_name (TpsMessage *message, gsize n_bytes);

/* Sets the name to a copy of `name`, which must not be memory of the message. */
void tps_message_set_name (TpsMessage *message, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMessage, tps_message_free)

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the fields of a canonical message. The code of a decoder follows the layout:
 *
 *   tps_reader_struct_begin (in);
 *   while (tps_reader_field (in, &id, &type))
 *     if (id == 1 && type == TPS_WIRE_I32)
 *       trainer = tps_reader_i32 (in);
 *     else
 *       tps_reader_skip (in, type);
 *   tps_reader_struct_end (in);
 *
 * After an error, a reader stays bad: values are 0, NULL or empty, and structs have no more fields.
 * The scanner has checked the message, so this happens only if a value is read as a different type,
 * or was dropped (TpsMessage.n_bytes_refused). */

/* The state of a reader, in the caller's storage. It borrows the message. */
struct TpsReader
{
  const TpsMessage *message;
  gsize position;
  guint next_body;
  gboolean bad;
  /* The decoder must copy tensors in shared memory, see plugin/wire/wire_tensor.h. */
  gboolean copies_shared;
};

/* Borrowed bytes. `buffer` (borrowed) contains them if they are a body; it is NULL if they are in
 * the head. */
typedef struct
{
  const guint8 *data;
  gsize n_bytes;
  TpsBuffer *buffer;
} TpsBytesView;

/* Initialises a reader at the first struct of `message`, which is borrowed. */
void tps_reader_init (TpsReader *in, const TpsMessage *message);

/* Begin and end a struct, whose fields are read with tps_reader_field(). */
void tps_reader_struct_begin (TpsReader *in);
/* Reads the header of the next field. Returns FALSE at the end of the struct, or if the reader is
 * bad. */
gboolean tps_reader_field (TpsReader *in, gint16 *id, TpsWireType *type);
void tps_reader_struct_end (TpsReader *in);

/* Each function reads one value of the type in its name. The caller must have checked the type of
 * the field or element. The bytes of a binary are borrowed from the message. */
gboolean tps_reader_bool (TpsReader *in);
gint8 tps_reader_byte (TpsReader *in);
gint16 tps_reader_i16 (TpsReader *in);
gint32 tps_reader_i32 (TpsReader *in);
gint64 tps_reader_i64 (TpsReader *in);
gdouble tps_reader_double (TpsReader *in);
TpsBytesView tps_reader_binary (TpsReader *in);

/* Begin a list or set, or a map, and set the types and the number of the elements or pairs, which
 * the caller must read next. */
void tps_reader_list_begin (TpsReader *in, TpsWireType *type, guint32 *n_elems);
void tps_reader_map_begin (TpsReader *in, TpsWireType *key_type, TpsWireType *value_type,
                           guint32 *n_elems);

/* Charges the message for values that are created from it; see tps_message_charge(). */
gboolean tps_reader_charge (TpsReader *in, gsize n_bytes, GError **error);

/* Skips a value of this type and all values inside it. */
void tps_reader_skip (TpsReader *in, TpsWireType type);

G_END_DECLS
