/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/peer.h"

#include <stdio.h>
#include <string.h>

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

static const struct
{
  const gchar *name, *title, *process, *script;
} kinds[TPS_LOOKUP_N_PEERS] = {
  [TPS_LOOKUP_PYTORCH] = { "pytorch", "of torch", "PyTorch",
                           "bench/peers/pytorch_embedding_bag.py" },
  [TPS_LOOKUP_FBGEMM] = { "fbgemm", "of FBGEMM", "FBGEMM", "bench/peers/fbgemm_tbe.py" },
};

/* Writes the ids to a file. Returns its path, owned by the caller; NULL with an error. */
static gchar *
write_ids (const TpsLookupBags *bags, TpsBenchRun *run, GError **error)
{
  const TpsLookupShape *shape = &bags->shape;
  const gchar *folder = tps_benchmark_get_folder (run, error);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, "ids", NULL) : NULL;
  gsize n_bytes = shape->n_sets * shape->n_bags * shape->bag_length * sizeof (gint64);

  if (path == NULL
      || !g_file_set_contents (path, (const gchar *) bags->ids, (gssize) n_bytes, error))
    return NULL;
  return g_steal_pointer (&path);
}

/* Returns the command line of the script, owned by the caller; NULL with an error. */
static gchar **
make_argv (TpsLookupPeerKind kind, const TpsLookupBags *bags, TpsBenchRun *run, GError **error)
{
  const TpsLookupShape *shape = &bags->shape;
  g_autofree gchar *ids = write_ids (bags, run, error);
  g_autofree gchar *script = ids != NULL ? tps_bench_find_file (kinds[kind].script, error) : NULL;

  if (script == NULL)
    return NULL;
  return tps_argv_format ("%s\n%s\n--rows=%" G_GSIZE_FORMAT "\n--dim=%" G_GSIZE_FORMAT
                          "\n--bags=%" G_GSIZE_FORMAT "\n--bag-length=%" G_GSIZE_FORMAT
                          "\n--samples=%" G_GSIZE_FORMAT "\n--ids=%s",
                          tps_bench_find_python (), script, shape->n_rows, shape->dim,
                          shape->n_bags, shape->bag_length, bags->n_samples, ids);
}

gboolean
tps_lookup_peer_start (TpsLookupPeer *peer, TpsLookupPeerKind kind, const TpsLookupBags *bags,
                       TpsBenchRun *run, GError **error)
{
  static const gchar skip[] = "skip ";
  g_auto (GStrv) argv = make_argv (kind, bags, run, error);
  g_autofree gchar *line = NULL; /* such as "torch 1.13.0", or "skip REASON" */

  *peer = (TpsLookupPeer) { .name = kinds[kind].name, .title = kinds[kind].title, .bags = bags };
  if (argv == NULL)
    return FALSE;
  peer->child = tps_child_start (run->supervisor, kinds[kind].process, argv, error);
  if (peer->child == NULL || (line = tps_child_receive_from_script (peer->child, error)) == NULL)
    return FALSE;
  if (!g_str_has_prefix (line, skip))
    {
      peer->version = g_steal_pointer (&line);
      return TRUE;
    }
  peer->reason = g_strdup (line + strlen (skip));
  tps_child_kill (peer->child);
  g_clear_pointer (&peer->child, tps_child_free);
  return TRUE;
}

void
tps_lookup_peer_clear (TpsLookupPeer *peer)
{
  g_clear_pointer (&peer->child, tps_child_free);
  g_clear_pointer (&peer->version, g_free);
  g_clear_pointer (&peer->reason, g_free);
}

gdouble
tps_lookup_peer_run (const TpsLookupPeer *peer, const TpsLookupPeerWork *work, gdouble *checksum,
                     GError **error)
{
  g_autofree gchar *order = g_strdup_printf ("%s %u %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT,
                                             work->name, work->n_threads, work->first,
                                             work->n_batches);
  g_autofree gchar *rest = NULL;
  gdouble seconds = tps_child_send (peer->child, order, error)
                        ? tps_child_receive_seconds (peer->child, &rest, error)
                        : -1;

  if (seconds >= 0)
    *checksum = g_ascii_strtod (rest, NULL);
  return seconds;
}
