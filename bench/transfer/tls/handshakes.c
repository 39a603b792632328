/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tls/handshakes.h"

#include <stdio.h>
#include <string.h>

#include "bench/process/child.h"
#include "bench/transfer/tls/certificate.h"
#include "bench/transfer/tls/openssl_server.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

static gchar *
run_s_time (TpsSupervisor *supervisor, const gchar *address, const gchar *certificate,
            guint seconds, GError **error)
{
  g_autofree gchar *command = g_strdup_printf (
      "exec openssl s_time -new -tls1_3 -ciphersuites " TPS_TRANSFER_CIPHER
      " -connect %s -CAfile '%s' -verify 1 -time %u 2>/dev/null",
      address, certificate, seconds);
  gchar *argv[] = { (gchar *) (gsize) "/bin/sh", (gchar *) (gsize) "-c", command, NULL };
  g_autoptr (TpsChild) child = tps_child_start (supervisor, "openssl s_time", argv, error);

  return child != NULL ? tps_child_receive_all (child, error) : NULL;
}

/* Parses "892 connections in 2 real seconds, 0 bytes read per connection". The seconds in this line
 * are rounded, so they are not used. */
static gboolean
parse_count (const gchar *output, guint *n)
{
  const gchar *line = strstr (output, " connections in ");

  while (line != NULL && line > output && g_ascii_isdigit (line[-1]))
    line--;
  return line != NULL && sscanf (line, "%u", n) == 1 && *n > 0;
}

static gdouble
measure (TpsSupervisor *supervisor, const gchar *address, const gchar *certificate, guint seconds,
         GError **error)
{
  gint64 start_ns = tps_clock_now_ns ();
  g_autofree gchar *output = run_s_time (supervisor, address, certificate, seconds, error);
  gdouble elapsed_s = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  guint n;

  if (output == NULL)
    return -1;
  if (parse_count (output, &n))
    return n / elapsed_s;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "openssl s_time made no handshake with %s: %.200s", address, output);
  return -1;
}

gdouble
tps_transfer_handshakes_run (TpsSupervisor *supervisor, const gchar *address,
                             const gchar *certificate, guint seconds, GError **error)
{
  TpsOpensslServer server;
  gdouble rate = -1;

  if (address != NULL)
    return measure (supervisor, address, certificate, seconds, error);
  if (tps_openssl_server_start (&server, supervisor, certificate, "", 0, "/dev/null", error))
    rate = measure (supervisor, server.address, certificate, seconds, error);
  tps_openssl_server_stop (&server, supervisor);
  return rate;
}
