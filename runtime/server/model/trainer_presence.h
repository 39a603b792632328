/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The connection over which the last accepted push of each trainer came. Its end tells a server
 * with a quorum that the trainer is gone. The table has at most one entry for each trainer.
 *
 * Thread: one at a time.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* All zero is an empty table. */
typedef struct
{
  GHashTable *by_trainer;    /* of Entry, see the .c file */
  GHashTable *by_connection; /* of GPtrArray of Entry, borrowed */
} TpsTrainerPresence;

/* Makes an empty table in the caller's storage. */
void tps_trainer_presence_init (TpsTrainerPresence *presence);
void tps_trainer_presence_clear (TpsTrainerPresence *presence);

/* Forgets all trainers. */
void tps_trainer_presence_reset (TpsTrainerPresence *presence);

/* A push of the trainer over `connection`, which is a name only, was accepted. */
void tps_trainer_presence_note (TpsTrainerPresence *presence, gint32 trainer,
                                gconstpointer connection, gboolean is_repeat);

typedef struct
{
  gint32 trainer;
  guint n_pushes; /* over this connection, without repeats */
} TpsDepartedTrainer;

/* The connection has closed: forgets the trainers that pushed last over it, and returns them, an
 * array of TpsDepartedTrainer; NULL = none. The caller owns it. */
GArray *tps_trainer_presence_take (TpsTrainerPresence *presence, gconstpointer connection);

G_END_DECLS
