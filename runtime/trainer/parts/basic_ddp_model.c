/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/parts/pass_parts.h"

static gboolean
basic_ddp_model_create (TpsPass *pass, GError **error)
{
  pass->hook_state = pass->hook_state_class->create ();
  return tps_pass_create_ddp (pass, error);
}

const TpsDdpModelMaker tps_basic_ddp_model = {
  .name = "basic_ddp_model",
  .create = basic_ddp_model_create,
};
