/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/journal.h"

#include <string.h>

#include "fleet_log_journal.h"

typedef struct
{
  FleetLogJournalHandler parent;
} JournalHandler;

typedef struct
{
  FleetLogJournalHandlerClass parent;
} JournalHandlerClass;

GType journal_handler_get_type (void);

G_DEFINE_TYPE (JournalHandler, journal_handler, FLEET_LOG_TYPE_JOURNAL_HANDLER)

static gboolean
ping (FleetLogHealthIf *iface, gchar **reply, const gchar *text, GError **error)
{
  *reply = g_strdup (text != NULL ? text : "");
  return TRUE;
}

static gboolean
echo (FleetLogJournalIf *iface, FleetLogEntry **reply, const FleetLogEntry *entry,
      FleetLogRejected **rejected, GError **error)
{
  if (entry == NULL || entry->name == NULL || strcmp (entry->name, "reject") == 0)
    {
      *rejected = g_object_new (FLEET_LOG_TYPE_REJECTED, "code", FLEET_LOG_ERROR_CODE_FULL, "why",
                                "asked for", NULL);
      return FALSE;
    }
  g_object_unref (*reply);
  *reply = g_object_ref ((FleetLogEntry *) (guintptr) entry);
  return TRUE;
}

static gboolean
count (FleetLogJournalIf *iface, gint32 *reply, const GPtrArray *entries, const GHashTable *index,
       GError **error)
{
  *reply = (gint32) (entries != NULL ? entries->len : 0)
           + (gint32) (index != NULL ? g_hash_table_size ((GHashTable *) (guintptr) index) : 0);
  return TRUE;
}

static gboolean
blob (FleetLogJournalIf *iface, GByteArray **reply, const GByteArray *data, GError **error)
{
  *reply = data != NULL ? g_byte_array_ref ((GByteArray *) (guintptr) data) : g_byte_array_new ();
  return TRUE;
}

static gboolean
note (FleetLogJournalIf *iface, const gchar *text, GError **error)
{
  if (g_strcmp0 (text, "fail") != 0)
    return TRUE;
  g_set_error_literal (error, g_quark_from_static_string ("journal"), 1, "asked to fail");
  return FALSE;
}

static void
journal_handler_init (JournalHandler *handler)
{
}

static void
journal_handler_class_init (JournalHandlerClass *klass)
{
  FleetLogJournalHandlerClass *journal = FLEET_LOG_JOURNAL_HANDLER_CLASS (klass);
  FleetLogHealthHandlerClass *health = FLEET_LOG_HEALTH_HANDLER_CLASS (klass);

  health->ping = ping;
  journal->echo = echo;
  journal->count = count;
  journal->blob = blob;
  journal->note = note;
}

ThriftProcessor *
journal_processor_new (void)
{
  GObject *handler = g_object_new (journal_handler_get_type (), NULL);
  ThriftProcessor *processor = g_object_new (FLEET_LOG_TYPE_JOURNAL_PROCESSOR, "handler", handler,
                                             NULL);

  g_object_unref (handler);
  return processor;
}

const TpsGetType journal_get_types[] = {
  fleet_log_entry_get_type,
  fleet_log_rejected_get_type,
  fleet_log_health_ping_args_get_type,
  fleet_log_health_ping_result_get_type,
  fleet_log_journal_echo_args_get_type,
  fleet_log_journal_echo_result_get_type,
  fleet_log_journal_count_args_get_type,
  fleet_log_journal_count_result_get_type,
  fleet_log_journal_blob_args_get_type,
  fleet_log_journal_blob_result_get_type,
  fleet_log_journal_note_args_get_type,
};
const guint journal_n_get_types = G_N_ELEMENTS (journal_get_types);
