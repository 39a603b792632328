/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_rendezvous.h"

#define SERVICE "Rendezvous"

#define KEY(name)                                      \
  {                                                    \
    name, 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL, \
        G_STRUCT_OFFSET (TpsRendezvousArguments, key)  \
  }

static const TpsField put_arguments[] = {
  KEY ("key"),
  { "value", 2, TPS_FIELD_REQUIRED, &tps_kind_bytes, NULL,
    G_STRUCT_OFFSET (TpsRendezvousArguments, value) },
  { NULL },
};

static const TpsField get_arguments[] = {
  KEY ("key"),
  { "timeout_ms", 2, TPS_FIELD_REQUIRED, &tps_kind_i32, &tps_limit_not_negative,
    G_STRUCT_OFFSET (TpsRendezvousArguments, timeout_ms) },
  { NULL },
};

static const TpsField add_arguments[] = {
  KEY ("key"),
  { "amount", 2, TPS_FIELD_REQUIRED, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsRendezvousArguments, amount) },
  { "push", 3, TPS_FIELD_OPTIONAL, &tps_kind_struct, &tps_push_id_struct,
    G_STRUCT_OFFSET (TpsRendezvousArguments, push) },
  { NULL },
};

static const TpsField remove_arguments[] = {
  KEY ("prefix"),
  { NULL },
};

static const TpsField value_result = { "value", .kind = &tps_kind_bytes };
static const TpsField sum_result = { "sum", .kind = &tps_kind_i64 };

const TpsRpc tps_rendezvous_put_rpc = { SERVICE, "put", put_arguments };
const TpsRpc tps_rendezvous_get_rpc = { SERVICE, "get", get_arguments, &value_result };
const TpsRpc tps_rendezvous_add_rpc = { SERVICE, "add", add_arguments, &sum_result };
const TpsRpc tps_rendezvous_remove_rpc = { SERVICE, "remove", remove_arguments };

void
tps_rendezvous_arguments_clear (TpsRendezvousArguments *arguments)
{
  g_clear_pointer (&arguments->key, g_free);
  g_clear_pointer (&arguments->value, g_bytes_unref);
  tps_push_id_clear (&arguments->push);
}
