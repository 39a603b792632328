/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The list of a trainer contains, for each table, the number of ids and then the ids. All numbers
 * are INT64. */

#include "bench/dlrm/changes.h"

#include "runtime/base/error.h"

static GArray *
list_pushed (const TpsTableSteps *steps, guint n_tables)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint t = 0; t < n_tables; t++)
    {
      gsize n;
      const gint64 *ids = tps_table_steps_get_pushed (steps, t, &n);
      gint64 count = (gint64) n;

      g_array_append_val (list, count);
      g_array_append_vals (list, ids, (guint) n);
    }
  return list;
}

/* Notes the ids of one list. The numbers come from another process, so they are checked. */
static gboolean
note_list (TpsTableSteps *steps, guint n_tables, const gint64 *list, gsize n_numbers,
           GError **error)
{
  for (guint t = 0; t < n_tables; t++)
    {
      gsize n = n_numbers > 0 ? (gsize) list[0] : G_MAXSIZE;

      if (n_numbers == 0 || n > n_numbers - 1)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                       "the list of rows that another trainer has changed ends in table %u", t);
          return FALSE;
        }
      tps_table_steps_note_changes (steps, t, list + 1, n);
      list += 1 + n;
      n_numbers -= 1 + n;
    }
  return TRUE;
}

gboolean
tps_dlrm_exchange_changes (TpsDlrmMeeting *meeting, TpsTableSteps *steps, guint n_tables,
                           GError **error)
{
  g_autoptr (GArray) own = list_pushed (steps, n_tables);
  g_autofree gsize *n_bytes = g_new (gsize, meeting->group->size);
  g_autoptr (TpsBuffer) all = NULL;
  const guint8 *at;

  if (!tps_dlrm_meeting_gather (meeting, own->data, own->len * sizeof (gint64), n_bytes, &all,
                                error))
    return FALSE;
  at = tps_buffer_get_data (all);
  for (guint rank = 0; rank < meeting->group->size; rank++)
    {
      if (rank != meeting->group->rank
          && !note_list (steps, n_tables, (const gint64 *) (gconstpointer) at,
                         n_bytes[rank] / sizeof (gint64), error))
        return FALSE;
      at += n_bytes[rank];
    }
  return TRUE;
}
