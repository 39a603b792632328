/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One method of the contract: its name, its arguments and its result, for both server and client.
 * wire_*.h declare the methods, and contract.h lists them.
 *
 * Each declaration gives the C types of the arguments and the result. A struct must be zero before
 * it is read, and the caller must clear it, even after a failure. Errors: as in descriptor.h.
 * Thread: any.
 */

#pragma once

#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

gboolean tps_rpc_read_arguments (const TpsRpc *rpc, TpsReader *in, gpointer arguments,
                                 GError **error);

/* Writes the fields of the arguments, without the begin and end of the struct. The writer borrows
 * values as described in writer.h. */
void tps_rpc_write_arguments (const TpsRpc *rpc, TpsWriter *out, gconstpointer arguments);

/* A method and its arguments as one pointer, for callbacks that write. */
typedef struct
{
  const TpsRpc *rpc;
  gconstpointer value;
} TpsRpcValue;

/* A TpsWriteArguments for a TpsRpcValue: writes the arguments. */
void tps_rpc_value_write_arguments (TpsWriter *out, gconstpointer rpc_value);

/* Reads the value of field 0, whose type on the wire is `type`; STOP: the field is missing. */
gboolean tps_rpc_read_result (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                              GError **error);

/* As tps_rpc_read_result(), for a client. Errors: INTERNAL (a bad result), naming the method. */
gboolean tps_rpc_read_answer (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                              GError **error);

/* Writes field 0 and its value; nothing for void. */
void tps_rpc_write_result (const TpsRpc *rpc, TpsWriter *out, gconstpointer result);

G_END_DECLS
