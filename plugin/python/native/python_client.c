/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client of one server; flat_functions.py generates the methods. */

#include <unistd.h>

#include "plugin/python/native/python_call.h"
#include "plugin/python/native/python_values.h"

TpsClient *
tps_python_client_new (const gchar *address, gboolean no_shared_memory, const TpsPythonTls *tls,
                       TpsPythonCall **failed)
{
  TpsClientOptions options = { .address = address,
                               .no_shared_memory = no_shared_memory,
                               .shares_answers = TRUE };
  g_autoptr (TpsTls) files = NULL;
  GError *error = NULL;
  TpsClient *client = NULL;

  if (tps_python_read_tls (tls, &files, &error))
    {
      options.tls = files;
      options.token = g_getenv ("THRIFTPS_TOKEN");
      client = tps_client_new (&options, &error);
    }
  if (client == NULL)
    *failed = tps_python_call_new_ended (error);
  return client;
}

void
tps_python_client_cancel (TpsClient *client)
{
  tps_client_cancel (client);
}

void
tps_python_client_free (TpsClient *client, gint32 owner)
{
  if (owner == getpid ())
    tps_client_free (client);
}
