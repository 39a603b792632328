/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads a message in canonical form (plugin/frame/message.h) for readers that do not check types.
 *
 * Generated code checks the types of fields but not of the elements of containers, and its error
 * paths leak the values that are being read: objects, arrays, map keys. A typed reader protects
 * such code: it knows the type of the next value and never returns a value as another type. After
 * an error it has *failed*: structs have no more fields, containers no more elements, and values
 * are 0 or empty. The error is reported at the end of the message. So generated code always reads
 * to the end, owns everything that it created, and frees it.
 */

#pragma once

#include "plugin/frame/reader.h"

G_BEGIN_DECLS

typedef struct
{
  TpsWireType kind; /* STRUCT, LIST, SET or MAP */
  TpsWireType key;  /* of a map */
  /* Of the elements, or of the struct's field that was begun and not yet read, or STOP. */
  TpsWireType value;
  guint64 n_missing; /* elements not yet read, including keys */
} TpsTypedLevel;

/* In the caller's storage. Borrows the message. */
typedef struct
{
  TpsReader in;
  guint n_elements_left;
  guint n_levels;
  TpsTypedLevel levels[TPS_MESSAGE_MAX_DEPTH + 2];
  GError *error; /* the failure; NULL = it has not failed */
} TpsTypedReader;

/* `max_elements` as in TpsHostOptions. */
void tps_typed_reader_init (TpsTypedReader *reader, const TpsMessage *message, guint max_elements);
void tps_typed_reader_clear (TpsTypedReader *reader);

/* Makes the reader fail with `reason` (taken over). The first error stays. */
void tps_typed_reader_fail (TpsTypedReader *reader, GError *reason);

/* Begins or ends a struct; the reader fails if the message has another type here. */
void tps_typed_reader_struct_begin (TpsTypedReader *reader);
/* TPS_WIRE_STOP at the struct's end. */
TpsWireType tps_typed_reader_field (TpsTypedReader *reader, gint16 *id);
void tps_typed_reader_struct_end (TpsTypedReader *reader);

/* `kind` is TPS_WIRE_LIST or TPS_WIRE_SET; returns the number of elements. */
guint32 tps_typed_reader_list_begin (TpsTypedReader *reader, TpsWireType kind, TpsWireType *type);
guint32 tps_typed_reader_map_begin (TpsTypedReader *reader, TpsWireType *key, TpsWireType *value);
void tps_typed_reader_container_end (TpsTypedReader *reader);

/* Read one value. If the message has another type here, or the reader has failed, they return 0 or
 * empty bytes. The bytes of a binary are borrowed from the message. */
gboolean tps_typed_reader_bool (TpsTypedReader *reader);
gint8 tps_typed_reader_byte (TpsTypedReader *reader);
gint16 tps_typed_reader_i16 (TpsTypedReader *reader);
gint32 tps_typed_reader_i32 (TpsTypedReader *reader);
gint64 tps_typed_reader_i64 (TpsTypedReader *reader);
gdouble tps_typed_reader_double (TpsTypedReader *reader);
TpsBytesView tps_typed_reader_binary (TpsTypedReader *reader);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTypedReader, tps_typed_reader_clear)

G_END_DECLS
