/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A staging buffer: the next group of records to be written, and the callbacks that wait for it.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/log/log.h"
#include "runtime/server/log/log_encode.h"

G_BEGIN_DECLS

/* An append or a flush. */
typedef struct
{
  const TpsCommand *command; /* NULL: a flush */
  TpsDurability durability;
  gint64 lsn; /* of the command; 0 for a flush */
  TpsLogDone done;
  gpointer user_data;
} TpsLogEntry;

typedef struct
{
  guint8 *data; /* aligned to TPS_DISK_BLOCK */
  gsize capacity;
  gsize n_used; /* including the head of the group */
  guint n_records;
  gint64 first_lsn, last_lsn;
  gboolean is_full;   /* an entry did not fit; the stage is not empty */
  gboolean is_urgent; /* a caller waits for the disk */
  /* Records of TPS_DURABILITY_INTERVAL: the time to begin to write, and the time by which the first
   * one should be on the disk; G_MAXINT64 = there is none. */
  gint64 write_ns, due_ns;
  gboolean has_held; /* a record of TPS_DURABILITY_INTERVAL waits for the disk */
  /* A record that is longer than the buffer: the only one of its group. It is encoded while it
   * is written. */
  const TpsCommand *large;
  gint64 large_bytes; /* of the group */
  GArray *waiting;    /* of TpsLogEntry: done() must be called when the group is on the disk */
  TpsRecordPlan plan; /* of the record that is being encoded */
} TpsLogStage;

/* The times that apply to a record of TPS_DURABILITY_INTERVAL that is added now. */
typedef struct
{
  gint64 write_ns, due_ns; /* see TpsLogStage */
  gboolean must_wait;      /* earlier records are overdue, so the record waits for the disk */
} TpsLogInterval;

/* Makes an empty stage, in the caller's storage, with a buffer of `capacity` bytes, which must be a
 * multiple of TPS_DISK_BLOCK. */
void tps_log_stage_init (TpsLogStage *stage, gsize capacity);
void tps_log_stage_clear (TpsLogStage *stage);

/* Returns TRUE if the stage has neither records nor waiting entries. */
gboolean tps_log_stage_is_empty (const TpsLogStage *stage);

/* Returns the size of the group, padding included; 0: there is no record. */
gint64 tps_log_stage_get_bytes (const TpsLogStage *stage);

/* Encodes the entry's record after the other records of the stage. FALSE: the record does not fit,
 * and the stage is full. Sets `has_copied` to TRUE if the command is not needed any more and the
 * entry does not wait for the disk; the caller must then call done(). */
gboolean tps_log_stage_add (TpsLogStage *stage, const TpsLogEntry *entry,
                            const TpsLogInterval *interval, gboolean *has_copied);

/* Discards the records in the stage, and the waiting entries. */
void tps_log_stage_empty (TpsLogStage *stage);

/* Calls done() of `entries`, an array of TpsLogEntry, with `error` (NULL: none). Flushes get
 * `lsn`. */
void tps_log_entries_end (const GArray *entries, gint64 lsn, const GError *error);

G_END_DECLS
