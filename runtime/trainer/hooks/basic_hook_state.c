/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/hooks/built_in_hooks.h"

static TpsHookState *
basic_hook_state_create (void)
{
  TpsHookState *state = g_new0 (TpsHookState, 1);

  state->klass = &tps_basic_hook_state_class;
  state->batch_number = -1;
  return state;
}

static void
basic_hook_state_free (TpsHookState *state)
{
  g_free (state);
}

static void
basic_hook_state_next_batch (TpsHookState *state)
{
  state->batch_number++;
}

static gchar *
basic_hook_state_get_key (const TpsHookState *state, guint bucket)
{
  return g_strdup_printf ("%" G_GINT64_FORMAT ",%u", state->batch_number, bucket);
}

const TpsHookStateClass tps_basic_hook_state_class = {
  .name = "BasicHookState",
  .create = basic_hook_state_create,
  .free = basic_hook_state_free,
  .next_batch = basic_hook_state_next_batch,
  .get_key = basic_hook_state_get_key,
};
