/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads the fields of a canonical message. A decoder reads like the layout:
 *
 *   tps_reader_struct_begin (in);
 *   while (tps_reader_field (in, &id, &type))
 *     if (id == 1 && type == TPS_WIRE_I32)
 *       trainer = tps_reader_i32 (in);
 *     else
 *       tps_reader_skip (in, type);
 *   tps_reader_struct_end (in);
 *
 * A reader that goes bad stays bad: values are then 0, NULL or empty, and fields end. The scanner
 * has checked the message, so a reader only goes bad if a decoder reads a value as another type.
 */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

/* In the caller's storage; borrows the message. */
typedef struct
{
  const TpsMessage *message;
  gsize position;
  guint next_body;
  gboolean bad;
  /* Tensors in shared memory must be copied, see plugin/wire/wire_tensor.h. */
  gboolean copies_shared;
} TpsReader;

/* Borrowed bytes. `buffer` (borrowed) contains them if they are a body; it is NULL if they are in
 * the head. */
typedef struct
{
  const guint8 *data;
  gsize n_bytes;
  TpsBuffer *buffer;
} TpsBytesView;

/* Begins to read `message`, which is borrowed, at its first struct. */
void tps_reader_init (TpsReader *in, const TpsMessage *message);

/* Begin and end a struct, whose fields are read with tps_reader_field(). */
void tps_reader_struct_begin (TpsReader *in);
/* Reads a field header. FALSE at the end of the struct, or if the reader is bad. */
gboolean tps_reader_field (TpsReader *in, gint16 *id, TpsWireType *type);
void tps_reader_struct_end (TpsReader *in);

/* Read one value of the type in their name. The caller must have checked the type of the field or
 * element. The bytes of a binary are borrowed from the message. */
gboolean tps_reader_bool (TpsReader *in);
gint8 tps_reader_byte (TpsReader *in);
gint16 tps_reader_i16 (TpsReader *in);
gint32 tps_reader_i32 (TpsReader *in);
gint64 tps_reader_i64 (TpsReader *in);
gdouble tps_reader_double (TpsReader *in);
TpsBytesView tps_reader_binary (TpsReader *in);

/* Begins a list or set: returns the element type and the count. */
void tps_reader_list_begin (TpsReader *in, TpsWireType *type, guint32 *n_elems);
void tps_reader_map_begin (TpsReader *in, TpsWireType *key_type, TpsWireType *value_type,
                           guint32 *n_elems);

/* Charges values that are made from the message to it, see tps_message_charge(). */
gboolean tps_reader_charge (TpsReader *in, gsize n_bytes, GError **error);

/* Skips a value of that type, with any nesting. */
void tps_reader_skip (TpsReader *in, TpsWireType type);

G_END_DECLS
