/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tensor.h"

void
tps_transfer_tensor_write (TpsWriter *out, const TpsTransferTensor *tensor)
{
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, 1);
  tps_writer_field (out, 2, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_I64, 1);
  tps_writer_i64 (out, (gint64) (tensor->n_bytes / 4));
  tps_writer_field (out, 3, TPS_WIRE_BINARY);
  if (tensor->buffer != NULL)
    tps_writer_binary_buffer (out, tensor->buffer, 0, tensor->n_bytes);
  else
    tps_writer_binary (out, tensor->data, tensor->n_bytes);
  tps_writer_struct_end (out);
}

gboolean
tps_transfer_tensor_read (TpsReader *in, TpsTransferTensor *tensor)
{
  gboolean found = FALSE;
  gint16 id;
  TpsWireType type;

  *tensor = (TpsTransferTensor) { 0 };
  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (id == 3 && type == TPS_WIRE_BINARY)
      {
        TpsBytesView bytes = tps_reader_binary (in);

        *tensor = (TpsTransferTensor) { bytes.buffer, bytes.data, bytes.n_bytes };
        found = TRUE;
      }
    else
      tps_reader_skip (in, type);
  tps_reader_struct_end (in);
  return found;
}
