/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The standalone server, and another program with one more service. Serves until SIGTERM or SIGINT,
 * drains, and ends. Exit codes: 0 after a signal; 1 if the server cannot serve, or its last write
 * failed; 2 if a flag is invalid. */

#pragma once

#include "plugin/app/flags.h"
#include "plugin/plugin.h"

/* The program, and the service that it adds to those of the plugin. */
typedef struct
{
  const gchar *program; /* "thriftps_server", for messages */
  const gchar *service; /* a value of --services, served by default; NULL = none */
  /* Adds the service to the plugin, before the plugin is served. Called only if the service is to
   * be served. `flags` and `tls` (NULL = connections are plain) outlive the plugin. */
  void (*add_service) (TpsPlugin *plugin, const TpsServerFlags *flags, TpsTls *tls);
} TpsServerAddition;

/* The body of main(). `argv` ends with NULL; `addition` must be static. Returns the exit code. */
int tps_server_main (char **argv, const TpsServerAddition *addition);
