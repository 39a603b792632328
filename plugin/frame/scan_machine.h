/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Inside of the scanner: the machine that scan_binary.c and scan_compact.c are written for. Private
 * to plugin/frame.
 *
 * A scanner is always in one state, and each state has one step function per protocol. A step looks
 * at the bytes that are here and either takes a whole token (a field header, a number, a length)
 * and sets the next state, or says TPS_STEP_MORE and takes nothing. So a step never has to remember
 * half a token: where a chunk ends inside one, scan.c keeps the few bytes and puts them before the
 * next chunk.
 *
 *   START -> PROTOCOL -> HEADER -> ... -> NAME -> ... -> NEXT <-> VALUE -> DONE
 *              |   ^                                      |  ^
 *         THEADER -> INFO                                 |  |
 *                                                  RAW, BODY (bytes of strings, lists of numbers)
 *
 * Structs and containers that are open lie on a stack of levels. Every byte and every declared size
 * is held against what is left of the message before anything is reserved for it.
 */

#pragma once

#include "plugin/frame/scan.h"

G_BEGIN_DECLS

/* Field ids below 0 or above 255 that one struct may have: none of our services has any. */
#define TPS_SCAN_FIRST_LEVELS 6
#define TPS_SCAN_MAX_ODD_IDS 16
#define TPS_SCAN_CARRY_BYTES 16     /* at least the longest token, a varint of 10 bytes */
#define TPS_SCAN_THEADER_FIRST 0x0f /* first byte of a THeader frame's content */

typedef enum
{
  TPS_STEP_OK,   /* go on with the step of the state that is now set */
  TPS_STEP_MORE, /* more bytes are needed: nothing was taken, or (RAW, NAME) all that was there */
  TPS_STEP_STOP, /* a message is complete, or a body begins */
  TPS_STEP_BAD,  /* scanner->error is set */
} TpsScanStep;

typedef enum
{
  TPS_SCAN_START,    /* before the frame length, or before an unframed message */
  TPS_SCAN_THEADER,  /* before the fixed part of a THeader frame's header */
  TPS_SCAN_INFO,     /* in the rest of that header */
  TPS_SCAN_PROTOCOL, /* before the first byte of a message */
  TPS_SCAN_HEADER,   /* the codec's: version and kind */
  TPS_SCAN_SEQID,
  TPS_SCAN_NAME_LENGTH,
  TPS_SCAN_NAME,
  TPS_SCAN_NEXT,  /* before a field, an element, a key or a value */
  TPS_SCAN_VALUE, /* before a value of scanner->type */
  TPS_SCAN_RAW,   /* n_raw bytes that go into the head as they are */
  TPS_SCAN_BODY,  /* bytes that go into a body */
  TPS_SCAN_DONE,  /* a message waits for tps_scanner_take() */
  TPS_SCAN_N_STATES,
} TpsScanState;

/* The bytes that a step may look at. */
typedef struct
{
  const guint8 *next;
  const guint8 *end;  /* where the bytes that are here end, or the message */
  const guint8 *stop; /* where the bytes that are here end */
  /* binary protocol: bytes from here to `next` belong into the head as they are; else NULL */
  const guint8 *span;
  gsize n_tail; /* bytes of the message (framed) or of its limit beyond `end` */
} TpsScanInput;

typedef TpsScanStep (*TpsScanStepFunc) (TpsScanner *scanner, TpsScanInput *in);

/* An open struct, list, set or map. */
typedef struct
{
  gboolean is_struct;
  guint8
      types[2]; /* container: of what comes when n_left is even (a map's keys), odd (its values) */
  guint32 n_left; /* container: values to come, a map's keys and values both counted */
  gint16 last_id; /* struct in compact protocol */
  guint8 n_odd_ids;
  guint64 seen_ids[4]; /* struct: bit i = field i was there */
  gint16 odd_ids[TPS_SCAN_MAX_ODD_IDS];
} TpsScanLevel;

typedef struct
{
  TpsProtocolKind protocol;
  const guint8 *min_bytes; /* [16] of a value on this wire, by type; 0 = no such type */
  TpsScanStepFunc steps[TPS_SCAN_N_STATES];
} TpsScanCodec;

struct TpsScanner
{
  gsize max_message_bytes;
  gsize max_head_bytes;
  TpsBufferPool *pool;
  gboolean transferred;

  gint framed; /* -1 = not known yet */
  TpsScanState state;
  const TpsScanCodec *codec;
  GError *error;

  gsize limit;  /* bytes of the message: the frame's length, or the most an unframed one may have */
  gsize n_left; /* of `limit`, from the first byte in `carry` on */
  guint n_carry;
  guint8 carry[TPS_SCAN_CARRY_BYTES];

  TpsMessage *message;
  gsize n_head;      /* bytes used of message->head, which is longer while the message grows */
  gsize n_raw;       /* TPS_SCAN_RAW, TPS_SCAN_NAME: bytes to come */
  gsize n_filled;    /* TPS_SCAN_BODY: bytes of the last body that are there */
  guint n_info;      /* TPS_SCAN_INFO: bytes of the header */
  guint n_info_here; /* of them, how many are there */
  guint n_name;      /* TPS_SCAN_NAME: bytes of the name that are there */
  guint8 *scratch;   /* where bytes of refused bodies go */

  guint8 type; /* TPS_SCAN_VALUE */
  guint depth;
  TpsScanLevel first_levels[TPS_SCAN_FIRST_LEVELS];
  TpsScanLevel *deep_levels; /* the others; NULL until a message is nested so deeply */
};

extern const TpsScanCodec tps_scan_codec_binary;
extern const TpsScanCodec tps_scan_codec_compact;

/* The innermost level; there is one. */
static inline TpsScanLevel *
tps_scan_get_level (TpsScanner *scanner)
{
  guint i = scanner->depth - 1;

  return i < TPS_SCAN_FIRST_LEVELS ? &scanner->first_levels[i]
                                   : &scanner->deep_levels[i - TPS_SCAN_FIRST_LEVELS];
}

static inline gsize
tps_scan_n_here (const TpsScanInput *in)
{
  return (gsize) (in->end - in->next);
}

/* Bytes up to the end of the message, or to the limit of an unframed one. */
static inline gsize
tps_scan_n_left (const TpsScanInput *in)
{
  return tps_scan_n_here (in) + in->n_tail;
}

/* Sets `end` and `n_tail` for a message of which `n_left` bytes are to come. */
static inline void
tps_scan_input_limit (TpsScanInput *in, gsize n_left)
{
  gsize n_here = (gsize) (in->stop - in->next);

  in->end = n_here > n_left ? in->next + n_left : in->stop;
  in->n_tail = n_left - tps_scan_n_here (in);
}

/* Sets the error, with the place in the message, and returns TPS_STEP_BAD. */
TpsScanStep tps_scan_refuse (TpsScanner *scanner, const TpsScanInput *in, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* The same for something longer than what is left: a defect in a frame, a limit where there is
 * none. */
TpsScanStep tps_scan_refuse_length (TpsScanner *scanner, const TpsScanInput *in, const gchar *what,
                                    guint64 n_bytes);

/* No memory for `n_bytes` of the message: it is read to its end, which keeps the connection, and
 * holds nothing. */
void tps_scan_refuse_memory (TpsScanner *scanner, gsize n_bytes);

/* Room for `n_bytes` more, at most 256, in the head, which then count as used; NULL: refused. */
guint8 *tps_scan_head_extend (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes);

/* Copies the bytes since `span` into the head. FALSE: refused. */
gboolean tps_scan_flush_span (TpsScanner *scanner, TpsScanInput *in);

/* Checks the field id against those that the struct had before and notes it. FALSE: refused. */
gboolean tps_scan_mark_field (TpsScanner *scanner, const TpsScanInput *in, TpsScanLevel *level,
                              gint16 id);

/* Parts of steps; each sets the next state. */
TpsScanStep tps_scan_begin_name (TpsScanner *scanner, const TpsScanInput *in, gint64 n_bytes);
TpsScanStep tps_scan_begin_arguments (TpsScanner *scanner, TpsScanInput *in);
TpsScanStep tps_scan_begin_struct (TpsScanner *scanner, TpsScanInput *in);
TpsScanStep tps_scan_end_level (TpsScanner *scanner, TpsScanInput *in);

/* A string or binary of `n_bytes` comes next; its length prefix is in the head or the span. */
TpsScanStep tps_scan_begin_binary (TpsScanner *scanner, TpsScanInput *in, gint64 n_bytes);

/* Checks types, count and depth of a container. `types` are key and value; a list has its element
 * type twice. FALSE: refused. */
gboolean tps_scan_check_container (TpsScanner *scanner, const TpsScanInput *in, gboolean is_map,
                                   const guint8 types[2], gint64 n_elems);
TpsScanStep tps_scan_begin_container (TpsScanner *scanner, gboolean is_map, const guint8 types[2],
                                      guint32 n_elems);

/* Makes the message that comes next, and charges for it. */
void tps_scan_begin_message (TpsScanner *scanner);

/* Steps of a THeader frame's header (scan_header.c). After them the codec is known. */
TpsScanStep tps_scan_step_theader (TpsScanner *scanner, TpsScanInput *in);
TpsScanStep tps_scan_step_info (TpsScanner *scanner, TpsScanInput *in);

/* Steps that do not depend on the protocol. */
TpsScanStep tps_scan_step_name (TpsScanner *scanner, TpsScanInput *in);
TpsScanStep tps_scan_step_raw (TpsScanner *scanner, TpsScanInput *in);

G_END_DECLS
