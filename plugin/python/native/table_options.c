/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/table_options.h"

#include "runtime/base/error.h"

gboolean
tps_python_table_to_spec (const TpsPythonTable *table, TpsTableSpec *spec, GError **error)
{
  tps_table_spec_init (spec, table->name, table->rows, table->dim);
  spec->dtype = (TpsDType) table->dtype;
  spec->rounding = (TpsRounding) table->rounding;
  spec->initializer = table->initializer;
  spec->optimizer = table->optimizer;
  spec->durability = (TpsDurability) table->durability;
  if (table->place == NULL || tps_table_place_parse (table->place, &spec->place))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "table %s: \"%s\" is not a device, expected \"cpu\", \"cuda:0\" or \"cuda:0/host\"",
               table->name, table->place);
  return FALSE;
}

const gsize *
tps_python_get_sizes (void)
{
  static const gsize sizes[] = {
    sizeof (TpsTensorView),  sizeof (TpsPythonReply),
    sizeof (TpsInitializer), sizeof (TpsOptimizerSpec),
    sizeof (TpsPythonTable), sizeof (TpsBagQuery),
    sizeof (TpsBagGradient), sizeof (TpsPythonGradient),
    sizeof (TpsPythonTls),   0,
  };

  return sizes;
}
