/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/fio.h"

#include <json-glib/json-glib.h>

#include "bench/process/child.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define FILE_NAME "fio.data"

/* For sequential patterns: enough to keep a disk busy, and not more than a process can have. */
#define BLOCKS_IN_FLIGHT 4

gchar *
tps_fio_find (TpsSupervisor *supervisor, gchar **reason, GError **error)
{
  g_autofree gchar *path = g_find_program_in_path ("fio");
  gchar version_flag[] = "--version";
  gchar *argv[] = { path, version_flag, NULL };
  g_autoptr (TpsChild) child = NULL;
  gchar *version;

  if (path == NULL)
    {
      *reason = g_strdup ("fio is not installed; apt-get install fio");
      return NULL;
    }
  child = tps_child_start (supervisor, "fio", argv, error);
  version = child != NULL ? tps_child_receive_all (child, error) : NULL;
  return version != NULL ? g_strchomp (version) : NULL;
}

static gboolean
is_read (TpsFioPattern pattern)
{
  return pattern == TPS_FIO_READ;
}

static gchar **
make_arguments (const TpsFioJob *job)
{
  gsize n_bytes = MAX (job->n_bytes / job->block_bytes, 1) * job->block_bytes;
  g_autofree gchar *program = g_find_program_in_path ("fio");
  gboolean is_synced = job->pattern == TPS_FIO_GROUPS;

  return tps_argv_format (
      "%s\n--name=limit\n--output-format=json\n--filename=%s/" FILE_NAME "\n--size=%" G_GSIZE_FORMAT
      "\n--bs=%" G_GSIZE_FORMAT "\n--direct=1\n--rw=%s\n%s\n%s",
      program, job->folder, n_bytes, job->block_bytes, is_read (job->pattern) ? "read" : "write",
      is_synced ? "--ioengine=psync\n--fdatasync=1"
                : "--ioengine=libaio\n--iodepth=" G_STRINGIFY (BLOCKS_IN_FLIGHT),
      job->pattern == TPS_FIO_WRITE ? "--end_fsync=1" : "--unlink=1");
}

/* Returns a member of an object; NULL if it is missing or has another type. */
static JsonNode *
get_member (JsonNode *node, const gchar *name, JsonNodeType type)
{
  JsonNode *member = node != NULL && JSON_NODE_HOLDS_OBJECT (node)
                         ? json_object_get_member (json_node_get_object (node), name)
                         : NULL;

  return member != NULL && json_node_get_node_type (member) == type ? member : NULL;
}

/* Returns jobs[0].read.bw_bytes or jobs[0].write.bw_bytes; 0 if it is missing. */
static gdouble
find_rate (JsonNode *root, TpsFioPattern pattern)
{
  JsonNode *jobs = get_member (root, "jobs", JSON_NODE_ARRAY), *kind, *rate;

  if (jobs == NULL || json_array_get_length (json_node_get_array (jobs)) == 0)
    return 0;
  kind = get_member (json_array_get_element (json_node_get_array (jobs), 0),
                     is_read (pattern) ? "read" : "write", JSON_NODE_OBJECT);
  rate = get_member (kind, "bw_bytes", JSON_NODE_VALUE);
  return rate != NULL ? json_node_get_double (rate) : 0;
}

gboolean
tps_fio_read_rate (const gchar *json, TpsFioPattern pattern, gdouble *bytes_per_s, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  const gchar *begin = g_strstr_len (json, -1, "{"); /* warnings may precede the JSON */

  *bytes_per_s = 0;
  if (begin != NULL && json_parser_load_from_data (parser, begin, -1, NULL))
    *bytes_per_s = find_rate (json_parser_get_root (parser), pattern);
  if (*bytes_per_s > 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "fio printed no rate: %.200s", json);
  return FALSE;
}

gboolean
tps_fio_run (TpsSupervisor *supervisor, const TpsFioJob *job, gdouble *bytes_per_s, GError **error)
{
  g_auto (GStrv) argv = make_arguments (job);
  g_autoptr (TpsChild) child = tps_child_start (supervisor, "fio", argv, error);
  g_autofree gchar *json = child != NULL ? tps_child_receive_all (child, error) : NULL;

  return json != NULL && tps_fio_read_rate (json, job->pattern, bytes_per_s, error);
}
