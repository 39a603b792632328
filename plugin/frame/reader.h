/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

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

#pragma once

#include <thriftps/wire.h>

#include "plugin/frame/message.h"

G_BEGIN_DECLS

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
