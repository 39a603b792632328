/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/rpc.h"

#include "runtime/base/error.h"

static const TpsField no_fields[] = { { NULL } };

gboolean
tps_rpc_read_arguments (const TpsRpc *rpc, TpsReader *in, gpointer arguments, GError **error)
{
  return tps_fields_read (rpc->arguments != NULL ? rpc->arguments : no_fields, in, NULL, arguments,
                          NULL, error);
}

void
tps_rpc_write_arguments (const TpsRpc *rpc, TpsWriter *out, gconstpointer arguments)
{
  if (rpc->arguments != NULL)
    tps_fields_write (rpc->arguments, out, arguments);
}

void
tps_rpc_value_write_arguments (TpsWriter *out, gconstpointer rpc_value)
{
  const TpsRpcValue *arguments = rpc_value;

  tps_rpc_write_arguments (arguments->rpc, out, arguments->value);
}

gboolean
tps_rpc_read_result (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                     GError **error)
{
  const TpsField *field = rpc->result;
  TpsFieldPath path = { .name = field != NULL ? field->name : NULL };

  return field == NULL
         || (tps_field_check_type (&path, type, field->kind->type, error)
             && field->kind->read (in, &path, field, result, error)
             && tps_field_check_reader (in, &path, error));
}

gboolean
tps_rpc_read_answer (const TpsRpc *rpc, TpsReader *in, TpsWireType type, gpointer result,
                     GError **error)
{
  g_autoptr (GError) why = NULL;

  if (tps_rpc_read_result (rpc, in, type, result, &why))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INTERNAL, "the reply to %s:%s cannot be decoded: %s",
                   rpc->service, rpc->name, why->message);
}

void
tps_rpc_write_result (const TpsRpc *rpc, TpsWriter *out, gconstpointer result)
{
  if (rpc->result != NULL)
    tps_field_write (rpc->result, out, result);
}
