/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table of the connections over which the last accepted pushes of trainers came. A server with a
 * quorum concludes from the end of a connection that its trainers are gone. The table has at most
 * one entry for each trainer.
 *
 * Thread: one at a time.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Must be initialised with tps_trainer_presence_init(). */
typedef struct
{
  GHashTable *by_trainer;    /* of Entry, see the .c file */
  GHashTable *by_connection; /* of GPtrArray of Entry, borrowed */
} TpsTrainerPresence;

/* Initialise an empty table in the caller's storage, and clear a table. */
void tps_trainer_presence_init (TpsTrainerPresence *presence);
void tps_trainer_presence_clear (TpsTrainerPresence *presence);

/* Forgets all trainers. */
void tps_trainer_presence_reset (TpsTrainerPresence *presence);

/* Notes that a push of the trainer over `connection` was accepted. `connection` only identifies the
 * connection and is not dereferenced. If `is_repeat`, the push is not counted. */
void tps_trainer_presence_note (TpsTrainerPresence *presence, gint32 trainer,
                                gconstpointer connection, gboolean is_repeat);

typedef struct
{
  gint32 trainer;
  guint n_pushes; /* over this connection, without repeats */
} TpsDepartedTrainer;

/* Forgets the trainers whose last push came over `connection`, which has closed. Returns them as an
 * array of TpsDepartedTrainer, owned by the caller, or NULL if there are none. */
GArray *tps_trainer_presence_take (TpsTrainerPresence *presence, gconstpointer connection);

G_END_DECLS
