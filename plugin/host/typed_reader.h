/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads a canonical message for readers that do not look at what they read.
 *
 * Generated code checks the types of fields but not of the elements of containers, and its error
 * paths leak what is being read: objects, arrays, map keys. So a typed reader knows what stands
 * next and never lets a value be taken for another type; and where that is asked for, it does not
 * fail at once but goes *sour*: from then on structs have no fields, containers no elements, values
 * are 0 or empty, and the reason is kept until the reader asks for it at the message's end. A
 * reader that trusts everything thus runs to its end, owns all it made, and frees it.
 */

#pragma once

#include "plugin/frame/reader.h"

G_BEGIN_DECLS

typedef struct
{
  TpsWireType kind; /* STRUCT, LIST, SET or MAP */
  TpsWireType key;  /* of a map */
  TpsWireType
      value; /* of the elements; of the struct's field that was begun and not yet read, or STOP */
  guint64 n_missing; /* elements not yet read, keys counted */
} TpsTypedLevel;

/* In the caller's storage; borrows the message. */
typedef struct
{
  TpsReader in;
  guint n_elements_left;
  guint n_levels;
  TpsTypedLevel levels[TPS_MESSAGE_MAX_DEPTH + 2];
  GError *sour; /* why, or NULL */
} TpsTypedReader;

/* `max_elements` as in TpsHostOptions. */
void tps_typed_reader_init (TpsTypedReader *reader, const TpsMessage *message, guint max_elements);
void tps_typed_reader_clear (TpsTypedReader *reader);

/* Goes sour for `reason` (taken over), unless it is already. */
void tps_typed_reader_turn_sour (TpsTypedReader *reader, GError *reason);

void tps_typed_reader_struct_begin (TpsTypedReader *reader);
/* TPS_WIRE_STOP at the struct's end. */
TpsWireType tps_typed_reader_field (TpsTypedReader *reader, gint16 *id);
void tps_typed_reader_struct_end (TpsTypedReader *reader);

/* `kind` is TPS_WIRE_LIST or TPS_WIRE_SET; returns the number of elements. */
guint32 tps_typed_reader_list_begin (TpsTypedReader *reader, TpsWireType kind, TpsWireType *type);
guint32 tps_typed_reader_map_begin (TpsTypedReader *reader, TpsWireType *key, TpsWireType *value);
void tps_typed_reader_container_end (TpsTypedReader *reader);

gboolean tps_typed_reader_bool (TpsTypedReader *reader);
gint8 tps_typed_reader_byte (TpsTypedReader *reader);
gint16 tps_typed_reader_i16 (TpsTypedReader *reader);
gint32 tps_typed_reader_i32 (TpsTypedReader *reader);
gint64 tps_typed_reader_i64 (TpsTypedReader *reader);
gdouble tps_typed_reader_double (TpsTypedReader *reader);
TpsBytesView tps_typed_reader_binary (TpsTypedReader *reader);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTypedReader, tps_typed_reader_clear)

G_END_DECLS
