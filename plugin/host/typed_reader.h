/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads a message in canonical form (plugin/frame/message.h) for readers that do not check types.
 *
 * Generated code checks the types of fields, but not the types of the elements of containers, and
 * its error paths leak the values that are being read: objects, arrays, map keys. A typed reader
 * records the type of the next value and never returns a value as a different type. After an error,
 * the reader has *failed*: structs have no more fields, containers have no more elements, and
 * values are 0 or empty. The error is reported at the end of the message. Generated code therefore
 * always reads to the end, and frees all objects that it created.
 */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct
{
  TpsWireType kind; /* STRUCT, LIST, SET or MAP */
  TpsWireType key;  /* of a map */
  /* The type of the elements, or of the field that was begun and not yet read; STOP = no field. */
  TpsWireType value;
  guint64 n_missing; /* elements not yet read, including keys */
} TpsTypedLevel;

/* The state of a reader, in the caller's storage. It borrows the message. */
typedef struct
{
  TpsReader in;
  guint n_elements_left;
  guint n_levels;
  TpsTypedLevel levels[TPS_MESSAGE_MAX_DEPTH + 2];
  GError *error; /* NULL = the reader has not failed */
} TpsTypedReader;

/* Initialise a reader at the beginning of `message`, and free its error. `max_elements` is the
 * limit of TpsHostOptions; 0 allows no elements. */
void tps_typed_reader_init (TpsTypedReader *reader, const TpsMessage *message, guint max_elements);
void tps_typed_reader_clear (TpsTypedReader *reader);

/* Makes the reader fail with `reason`, which is taken over, unless it has already failed. */
void tps_typed_reader_fail (TpsTypedReader *reader, GError *reason);

/* Begin and end a struct. The reader fails if the next value has a different type, or if values of
 * the struct have not been read at its end. */
void tps_typed_reader_struct_begin (TpsTypedReader *reader);
/* Begins the next field: sets `id` and returns the type. Returns TPS_WIRE_STOP at the end of the
 * struct, or if the reader has failed. */
TpsWireType tps_typed_reader_field (TpsTypedReader *reader, gint16 *id);
void tps_typed_reader_struct_end (TpsTypedReader *reader);

/* Begin and end a container. begin() sets the types and returns the number of elements or pairs; 0
 * if the reader has failed. `kind` is TPS_WIRE_LIST or TPS_WIRE_SET. */
guint32 tps_typed_reader_list_begin (TpsTypedReader *reader, TpsWireType kind, TpsWireType *type);
guint32 tps_typed_reader_map_begin (TpsTypedReader *reader, TpsWireType *key, TpsWireType *value);
void tps_typed_reader_container_end (TpsTypedReader *reader);

/* Read one value. If the next value has a different type, or the reader has failed, the functions
 * return 0 or empty bytes. The bytes of a binary are borrowed from the message. */
gboolean tps_typed_reader_bool (TpsTypedReader *reader);
gint8 tps_typed_reader_byte (TpsTypedReader *reader);
gint16 tps_typed_reader_i16 (TpsTypedReader *reader);
gint32 tps_typed_reader_i32 (TpsTypedReader *reader);
gint64 tps_typed_reader_i64 (TpsTypedReader *reader);
gdouble tps_typed_reader_double (TpsTypedReader *reader);
TpsBytesView tps_typed_reader_binary (TpsTypedReader *reader);

G_END_DECLS
