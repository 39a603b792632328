/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The struct Tensor of bench/peers/transfer.thrift, which is on the wire what a Tensor of ours is. */

#pragma once

#include "plugin/plugin.h"

G_BEGIN_DECLS

#define TPS_TRANSFER_MAX_BYTES ((gsize) 256 << 20)

/* Bytes [0, n_bytes) of `buffer`, which is borrowed, or small ones in a message's head. */
typedef struct
{
  TpsBuffer *buffer;
  const guint8 *data; /* where buffer is NULL */
  gsize n_bytes;
} TpsTransferTensor;

/* FLOAT32 [n_bytes / 4]. */
void tps_transfer_tensor_write (TpsWriter *out, const TpsTransferTensor *tensor);

/* FALSE when there are no bytes in it. Refers to the message. */
gboolean tps_transfer_tensor_read (TpsReader *in, TpsTransferTensor *tensor);

G_END_DECLS
