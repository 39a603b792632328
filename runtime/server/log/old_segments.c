/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/old_segments.h"

void
tps_old_segments_init (TpsOldSegments *old, TpsLogFolder *folder)
{
  *old = (TpsOldSegments) { .folder = folder };
  tps_mutex_init (&old->lock);
  old->numbers = g_array_new (FALSE, FALSE, sizeof (guint64));
}

void
tps_old_segments_clear (TpsOldSegments *old)
{
  g_array_unref (old->numbers);
  tps_mutex_clear (&old->lock);
}

void
tps_old_segments_note_made (TpsOldSegments *old)
{
  tps_mutex_lock (&old->lock);
  old->n_made++;
  tps_mutex_unlock (&old->lock);
}

/* Takes the newest number if more than `n_kept` files are kept; 0: there are not. */
static guint64
take_number (TpsOldSegments *old, guint n_kept)
{
  guint64 number = 0;

  tps_mutex_lock (&old->lock);
  if (old->numbers->len > n_kept)
    {
      number = g_array_index (old->numbers, guint64, old->numbers->len - 1);
      g_array_set_size (old->numbers, old->numbers->len - 1);
    }
  tps_mutex_unlock (&old->lock);
  return number;
}

static gchar *
path_of (const TpsOldSegments *old, guint64 number)
{
  g_autofree gchar *name = tps_log_old_segment_name (number);

  return g_build_filename (old->folder->path, name, NULL);
}

gchar *
tps_old_segments_take (TpsOldSegments *old)
{
  guint64 number = take_number (old, 0);

  return number != 0 ? path_of (old, number) : NULL;
}

static gboolean
wants_file (TpsOldSegments *old)
{
  gboolean wants;

  tps_mutex_lock (&old->lock);
  wants = old->numbers->len < old->n_made;
  tps_mutex_unlock (&old->lock);
  return wants;
}

gboolean
tps_old_segments_add (TpsOldSegments *old, guint64 number, GError **error)
{
  if (!wants_file (old))
    return tps_log_folder_delete_segment (old->folder, number, error);
  if (!tps_log_folder_retire_segment (old->folder, number, error))
    return FALSE;
  tps_mutex_lock (&old->lock);
  g_array_append_val (old->numbers, number);
  tps_mutex_unlock (&old->lock);
  return TRUE;
}

static gboolean
delete_files (TpsOldSegments *old, guint n_kept)
{
  gboolean has_deleted = FALSE;
  guint64 number;

  while ((number = take_number (old, n_kept)) != 0)
    {
      g_autofree gchar *path = path_of (old, number);

      has_deleted |= tps_disk_discard (old->folder->disk, path, NULL);
    }
  return has_deleted;
}

void
tps_old_segments_end_deletion (TpsOldSegments *old)
{
  guint n_kept;

  tps_mutex_lock (&old->lock);
  n_kept = old->n_made;
  old->n_made = 0;
  tps_mutex_unlock (&old->lock);
  delete_files (old, n_kept);
}

gboolean
tps_old_segments_drop (TpsOldSegments *old)
{
  return delete_files (old, 0);
}
