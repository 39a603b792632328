/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/launch.h"

#include <string.h>

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define SOCKET_PATH_BYTES 108 /* size of sun_path, with the terminating NUL */

/* Checks the length of the path once. Otherwise every role would report it. */
gchar *
tps_launch_make_socket_dir (const TpsWorld *world, GError **error)
{
  gchar *path = g_dir_make_tmp ("thriftps-XXXXXX", error);
  g_autofree gchar *longest = NULL;

  if (path == NULL)
    return NULL;
  longest = g_build_filename (path, "trainer1023.sock", NULL);
  if (g_str_equal (world->transport, "tcp") || strlen (longest) < SOCKET_PATH_BYTES)
    return path;
  tps_bench_remove_folder (path);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "TMPDIR=%s is too long for Unix sockets; use a shorter one, or --transport=tcp",
               g_get_tmp_dir ());
  return NULL;
}

static gboolean
start_role (const TpsWorld *world, TpsSupervisor *supervisor, guint rank, guint port,
            const gchar *socket_dir, GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *rank_flag = g_strdup_printf ("--rank=%u", rank);
  g_autofree gchar *port_flag = g_strdup_printf ("--master-port=%u", port);
  g_autofree gchar *transport_flag = g_strdup_printf ("--transport=%s", world->transport);
  g_autofree gchar *job_flag = g_strdup_printf ("--job=%s", world->job);
  g_autofree gchar *dir_flag = g_strdup_printf ("--socket-dir=%s", socket_dir);
  g_autofree gchar *name = tps_world_get_name (world, rank);
  g_auto (GStrv) argv = NULL;

  g_strv_builder_add (builder, program);
  for (gchar **flag = world->given + 1; *flag != NULL; flag++)
    g_strv_builder_add (builder, *flag);
  g_strv_builder_add_many (builder, rank_flag, "--master-rank=last", port_flag, job_flag,
                           transport_flag, dir_flag, NULL);
  argv = g_strv_builder_end (builder);
  return tps_supervisor_start (supervisor, name, argv, NULL, NULL, error);
}

gboolean
tps_launch_roles (const TpsWorld *world, TpsSupervisor *supervisor, const gchar *socket_dir,
                  guint master_port, GError **error)
{
  for (guint rank = 0; rank + 1 < tps_world_get_size (world); rank++)
    if (!start_role (world, supervisor, rank, master_port, socket_dir, error))
      return FALSE;
  return TRUE;
}
