/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tls/openssl_server.h"

#include <signal.h>
#include <unistd.h>

#include "bench/transfer/limits/stream.h"
#include "bench/transfer/tls/certificate.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define START_NS G_GINT64_CONSTANT (10000000000)
#define LOOK_US 500

/* Returns an address on which no process listens. The kernel assigns its port again only after all
 * other ports. */
static gchar *
find_address (GError **error)
{
  gchar *address = NULL;
  gint fd = tps_stream_listen ("127.0.0.1:0", &address, error);

  if (fd >= 0)
    close (fd);
  return address;
}

static gboolean
check_program (GError **error)
{
  g_autofree gchar *program = g_find_program_in_path ("openssl");

  if (program == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                         "openssl is not installed (Debian's package of that name)");
  return program != NULL;
}

/* Waits until s_server accepts a connection, because it prints nothing when it listens. */
static gboolean
wait_until_it_listens (const TpsOpensslServer *server, TpsSupervisor *supervisor, GError **error)
{
  gint64 until_ns = tps_clock_now_ns () + START_NS;
  gint fd = -1;

  while (tps_clock_now_ns () < until_ns && tps_supervisor_check (supervisor, error))
    {
      fd = tps_stream_connect (server->address, NULL);
      if (fd < 0)
        {
          g_usleep (LOOK_US);
          continue;
        }
      close (fd);
      return TRUE;
    }
  if (error != NULL && *error == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "openssl s_server did not listen at %s within 10 s", server->address);
  return FALSE;
}

gboolean
tps_openssl_server_start (TpsOpensslServer *server, TpsSupervisor *supervisor,
                          const gchar *certificate, const gchar *flags, guint n_connections,
                          const gchar *output, GError **error)
{
  g_autofree gchar *folder = g_path_get_dirname (certificate);
  g_autofree gchar *limit = n_connections > 0 ? g_strdup_printf ("-naccept %u", n_connections + 1)
                                              : g_strdup ("");
  g_autofree gchar *command = NULL;
  gchar *argv[] = { (gchar *) (gsize) "/bin/sh", (gchar *) (gsize) "-c", NULL, NULL };

  *server = (TpsOpensslServer) {
    .stdin_fd = -1,
  };
  if (!check_program (error) || (server->address = find_address (error)) == NULL)
    return FALSE;
  command = g_strdup_printf (
      "cd '%s' && exec openssl s_server -quiet -accept %s -cert '%s' -tls1_3 "
      "-ciphersuites " TPS_TRANSFER_CIPHER " %s %s >'%s' 2>/dev/null",
      folder, server->address, certificate, limit, flags, output);
  argv[2] = command;
  if (!tps_supervisor_start (supervisor, "openssl s_server", argv, &server->stdin_fd, NULL, error))
    return FALSE;
  server->pid = tps_supervisor_get_newest_pid (supervisor);
  return wait_until_it_listens (server, supervisor, error);
}

static void
clear (TpsOpensslServer *server)
{
  if (server->stdin_fd >= 0)
    close (server->stdin_fd);
  g_free (server->address);
  *server = (TpsOpensslServer) { .stdin_fd = -1 };
}

gboolean
tps_openssl_server_wait (TpsOpensslServer *server, TpsSupervisor *supervisor, GError **error)
{
  gboolean ended = tps_supervisor_reap (supervisor, server->pid, error);

  clear (server);
  return ended;
}

void
tps_openssl_server_stop (TpsOpensslServer *server, TpsSupervisor *supervisor)
{
  if (server->pid > 0)
    {
      kill (server->pid, SIGKILL);
      tps_supervisor_reap (supervisor, server->pid, NULL);
    }
  clear (server);
}
