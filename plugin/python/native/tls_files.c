/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/tls_files.h"

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
