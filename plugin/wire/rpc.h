/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One method of the contract: its name, its arguments, its result. Used by server and client alike;
 * the methods themselves are in wire_*.h, all of them in contract.h.
 *
 * Each says what its arguments and its result are in C. For both: what is read into must be zero
 * before, and is cleared by the caller, after a failure too. Errors: TPS_ERROR_INVALID_ARGUMENT,
 * naming the value. Thread: any.
 */

#pragma once

#include "plugin/wire/descriptor.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *service;
  const gchar *name;
  const TpsField *arguments; /* NULL: none */
  const TpsField *result;    /* NULL: void. The id is 0, the name is for errors */
} TpsRpc;

/* The whole arguments struct. */
gboolean tps_rpc_read_arguments (const TpsRpc *rpc, TpsReader *in, gpointer arguments,
                                 GError **error);

/* The fields, without the begin and end of the arguments struct. Values that are borrowed stay so
 * until the writer lets go of them, see writer.h. */
void tps_rpc_write_arguments (const TpsRpc *rpc, TpsWriter *out, gconstpointer arguments);

/* The same as one pointer, for those who call back to write. */
typedef struct
{
  const TpsRpc *rpc;
  gconstpointer value;
} TpsRpcValue;

void tps_rpc_value_write_arguments (TpsWriter *out, gconstpointer rpc_value);

/* The value of field 0, which is of `type`; STOP: there is none. */
gboolean tps_rpc_read_result (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                              GError **error);

/* The same for a client, whose server is at fault. Errors: INTERNAL, naming the method. */
gboolean tps_rpc_read_answer (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                              GError **error);

/* Field 0 and its value; nothing for void. */
void tps_rpc_write_result (const TpsRpc *rpc, TpsWriter *out, gconstpointer result);

G_END_DECLS
