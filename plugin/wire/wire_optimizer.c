/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The descriptors of PushId and Optimizer. */

#include "plugin/wire/wire_tensor.h"

/* ---- PushId --------------------------------------------------------------------------------- */

static const TpsField push_fields[] = {
  { "client", 1, TPS_FIELD_REQUIRED, &tps_kind_name,
    .offset = G_STRUCT_OFFSET (TpsPushId, client) },
  { "sequence", 2, TPS_FIELD_REQUIRED, &tps_kind_i64,
    .offset = G_STRUCT_OFFSET (TpsPushId, sequence) },
  { NULL },
};

static gboolean
is_push_id_set (gconstpointer push)
{
  return ((const TpsPushId *) push)->client != NULL;
}

const TpsStruct tps_push_id_struct = { "PushId", push_fields, .is_set = is_push_id_set };

void
tps_push_id_clear (TpsPushId *push)
{
  g_clear_pointer (&push->client, g_free);
  push->sequence = 0;
}

/* ---- Optimizer ------------------------------------------------------------------------------ */

#define KIND(NAME, name, number) { #NAME, number },

static const TpsEnumValue optimizer_kinds[] = { TPS_OPTIMIZERS (KIND) { NULL } };

static const TpsEnum optimizer_kind_enum = { "OptimizerKind", optimizer_kinds };

#define NUMBER(number, field)                                   \
  {                                                             \
#field, number, TPS_FIELD_OPTIONAL, &tps_kind_finite, NULL, \
        G_STRUCT_OFFSET(TpsOptimizerSpec, field)                \
  }

static const TpsField optimizer_fields[] = {
  { "kind", 1, TPS_FIELD_REQUIRED, &tps_kind_enum, &optimizer_kind_enum,
    G_STRUCT_OFFSET (TpsOptimizerSpec, kind) },
  { "learning_rate", 2, TPS_FIELD_REQUIRED, &tps_kind_finite, NULL,
    G_STRUCT_OFFSET (TpsOptimizerSpec, learning_rate) },
  NUMBER (3, momentum),
  NUMBER (4, weight_decay),
  NUMBER (5, epsilon),
  NUMBER (6, beta1),
  NUMBER (7, beta2),
  NUMBER (8, l1),
  NUMBER (9, l2),
  NUMBER (10, beta),
  { NULL },
};

const TpsStruct tps_optimizer_struct = { "Optimizer", optimizer_fields };
