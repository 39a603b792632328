/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/scratch.h"

#include "runtime/base/error.h"

void
tps_scratch_init (TpsScratch *scratch)
{
  scratch->n_bytes = 0;
  scratch->memory = scratch->within;
  scratch->buffer = NULL;
  scratch->charge = (TpsCharge) { NULL, 0 };
}

void
tps_scratch_clear (TpsScratch *scratch)
{
  g_clear_pointer (&scratch->buffer, tps_buffer_unref);
  tps_charge_clear (&scratch->charge);
}

gsize
tps_scratch_reserve (TpsScratch *scratch, gsize n_elements, gsize n_bytes)
{
  gsize begin = scratch->n_bytes;
  gsize size;

  if (__builtin_mul_overflow (n_elements, n_bytes, &size)
      || __builtin_add_overflow (size, TPS_BUFFER_ALIGNMENT - 1, &size)
      || __builtin_add_overflow (begin, size / TPS_BUFFER_ALIGNMENT * TPS_BUFFER_ALIGNMENT,
                                 &scratch->n_bytes))
    scratch->n_bytes = G_MAXSIZE;
  return begin;
}

static gboolean
refuse (const TpsScratch *scratch, const gchar *what, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "%s: the system has no memory for %" G_GSIZE_FORMAT " bytes of temporary space",
               what, scratch->n_bytes);
  return FALSE;
}

gboolean
tps_scratch_provide (TpsScratch *scratch, TpsBudget *budget, const gchar *what, GError **error)
{
  gsize cost = tps_buffer_pool_get_cost (scratch->n_bytes);

  if (scratch->n_bytes <= sizeof scratch->within)
    return TRUE;
  if (cost == G_MAXSIZE)
    return refuse (scratch, what, error);
  scratch->charge.budget = budget;
  if (!tps_charge_add (&scratch->charge, cost, error))
    {
      g_prefix_error (error, "%s: ", what);
      return FALSE;
    }
  scratch->buffer = tps_buffer_pool_try_get (tps_buffer_pool_get_default (), scratch->n_bytes);
  if (scratch->buffer == NULL)
    return refuse (scratch, what, error);
  scratch->memory = tps_buffer_get_data (scratch->buffer);
  return TRUE;
}
