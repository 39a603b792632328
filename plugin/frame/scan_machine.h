/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state machine of the scanner and its steps for the two protocols. Private to plugin/frame.
 *
 * A scanner is always in one state, and each state has a step function for each protocol. A step
 * reads the available bytes. It either consumes a whole token (a field header, a number, a length)
 * and sets the next state, or it returns TPS_STEP_MORE and consumes nothing. A step therefore never
 * stores part of a token. If a chunk ends inside a token, scan.c keeps those few bytes and puts
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

#pragma once

#include "plugin/frame/scan.h"

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

extern const TpsScanCodec tps_scan_codec_binary;
extern const TpsScanCodec tps_scan_codec_compact;

/* Returns the number of bytes of the input that have not been read. */
static inline gsize
tps_scan_n_here (const TpsScanInput *in)
{
  return (gsize) (in->end - in->next);
}

/* Returns the number of bytes to the end of the message, or to the limit of an unframed one. */
static inline gsize
tps_scan_n_left (const TpsScanInput *in)
{
  return tps_scan_n_here (in) + in->n_tail;
}

/* Sets `end` and `n_tail`. `n_left` is the number of unread bytes of the message. */
static inline void
tps_scan_input_limit (TpsScanInput *in, gsize n_left)
{
  gsize n_here = (gsize) (in->stop - in->next);

  in->end = n_here > n_left ? in->next + n_left : in->stop;
  in->n_tail = n_left - tps_scan_n_here (in);
}

/* Sets the error, with the position in the message, and returns TPS_STEP_BAD. */
TpsScanStep tps_scan_refuse (TpsScanner *scanner, const TpsScanInput *in, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* As tps_scan_refuse(), for the length of `name`, which exceeds the rest of the message. The error
 * is PROTOCOL in a frame, and RESOURCE_EXHAUSTED in an unframed message, whose limit it exceeds. */
TpsScanStep tps_scan_refuse_length (TpsScanner *scanner, const TpsScanInput *in, const gchar *name,
                                    guint64 n_bytes);

/* Drops the contents of the message, because there is no memory for `n_bytes` of it. Its bytes are
 * still read to the end, so the connection can stay open. */
void tps_scan_refuse_memory (TpsScanner *scanner, gsize n_bytes);

/* Copies the bytes from `span` to `next` into the head. Sets scanner->error on failure. */
gboolean tps_scan_flush_span (TpsScanner *scanner, TpsScanInput *in);

/* Creates the next message and charges for it. */
void tps_scan_begin_message (TpsScanner *scanner);
