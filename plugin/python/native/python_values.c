/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/python_values.h"

TpsTensorList
tps_python_borrow_list (const TpsTensorView *views, guint n_views)
{
  TpsTensorList list = { n_views, g_new0 (TpsTensor, n_views) };

  for (guint i = 0; i < n_views; i++)
    tps_tensor_init_borrowed (&list.tensors[i], views[i]);
  return list;
}

TpsNamedTensor *
tps_python_borrow_named (const gchar *const *names, const TpsTensorView *views, guint n_views)
{
  TpsNamedTensor *tensors = g_new0 (TpsNamedTensor, n_views);

  for (guint i = 0; i < n_views; i++)
    {
      tensors[i].name = g_strdup (names[i]);
      tps_tensor_init_borrowed (&tensors[i].tensor, views[i]);
    }
  return tensors;
}

void
tps_python_borrow_gradient (TpsGradient *to, const TpsPythonGradient *from)
{
  to->kind = (TpsGradientKind) from->kind;
  to->weight = from->weight;
  to->rows = from->rows;
  if (to->kind == TPS_GRADIENT_DENSE)
    tps_tensor_init_borrowed (&to->dense, from->dense);
  else if (to->kind == TPS_GRADIENT_SPARSE)
    {
      tps_tensor_init_borrowed (&to->indices, from->indices);
      tps_tensor_init_borrowed (&to->values, from->values);
    }
}

gboolean
tps_python_tables_to_specs (const TpsRemoteTable *tables, guint n_tables, TpsTableSpecs *specs,
                            GError **error)
{
  for (guint i = 0; i < n_tables; i++)
    {
      g_auto (TpsTableSpec) spec = { 0 };

      if (!tps_table_spec_init_from (&spec, &tables[i], error)
          || !tps_table_specs_add (specs, &spec, error))
        return FALSE;
    }
  return TRUE;
}

const gsize *
tps_python_get_sizes (void)
{
  static const gsize sizes[] = {
    sizeof (TpsTensorView),  sizeof (TpsPythonReply),
    sizeof (TpsInitializer), sizeof (TpsOptimizerSpec),
    sizeof (TpsRemoteTable), sizeof (TpsBagQuery),
    sizeof (TpsBagGradient), sizeof (TpsPythonGradient),
    sizeof (TpsPythonTls),   0,
  };

  return sizes;
}

gboolean
tps_python_read_tls (const TpsPythonTls *files, TpsTls **tls, GError **error)
{
  TpsTlsOptions options;

  if (files == NULL)
    return TRUE;
  options = (TpsTlsOptions) { .certificate = files->certificate,
                              .key = files->key,
                              .authorities = files->authorities,
                              .allow_tls_1_2 = files->allow_tls_1_2 };
  *tls = tps_tls_new (&options, error);
  return *tls != NULL;
}
