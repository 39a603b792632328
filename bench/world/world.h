/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ranks and the rendezvous of a world. Ranks are assigned as in the originals: trainers first,
 * then servers, and the master last. Launchers of fleets may give rank 0 to the master instead
 * (--master-rank=first). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  /* Set by the benchmark; static strings. */
  const gchar *program;     /* "parameter_server" */
  const gchar *server_name; /* "server": server2 by its rank; "ps" */
  gboolean counts_servers;  /* number servers from 0 instead of by rank */
  guint n_trainers;
  guint n_servers;

  /* Flags; strings are owned. */
  gchar *job;         /* the identity of the world; NULL in a role: taken from the master */
  gint rank;          /* -1 = start the whole world here; else in the order above */
  gchar *master_rank; /* "last" or "first": the rank given to the master */
  gint world_size;
  gint local_rank;    /* among the roles of this machine; negative = not given */
  gchar *master_addr; /* an IPv6 literal has no brackets */
  gint master_port;
  gchar *bind;        /* the address to listen on; NULL: from the route to the master */
  gchar *port_range;  /* "FIRST-LAST" of its ports; NULL: any */
  guint16 first_port; /* of port_range; 0 = any */
  guint16 last_port;
  gchar *transport; /* "unix", "tcp" */
  gboolean no_shared_memory;
  gchar *socket_dir;    /* of the world's Unix sockets; set by the launcher for its children */
  gint rpc_timeout;     /* seconds */
  gint startup_timeout; /* seconds */
  gchar **given;        /* the command line, for children and reports */
} TpsWorld;

typedef enum
{
  TPS_WORLD_TRAINER,
  TPS_WORLD_SERVER,
  TPS_WORLD_MASTER,
} TpsWorldKind;

void tps_world_init (TpsWorld *world, const gchar *program, const gchar *server_name);
void tps_world_clear (TpsWorld *world);

/* Returns the number of trainers, servers and the master. */
guint tps_world_get_size (const TpsWorld *world);

/* Returns TRUE if this process is a trainer or a server, not the launcher or the master. */
gboolean tps_world_is_role (const TpsWorld *world);

/* Returns the rank that the fleet gave to this process: see --master-rank. */
guint tps_world_get_given_rank (const TpsWorld *world);

TpsWorldKind tps_world_get_kind (const TpsWorld *world, guint rank);

/* Returns the number of this role among those of its machine, which share its devices: from its
 * launcher, otherwise its rank. */
guint tps_world_get_local_rank (const TpsWorld *world);

/* Returns the number of a trainer among trainers, or of a server among servers. */
guint tps_world_get_number (const TpsWorld *world, guint rank);

/* Returns "trainer0", "server2" (the number is the rank, unless servers are counted) or "master";
 * owned by the caller. */
gchar *tps_world_get_name (const TpsWorld *world, guint rank);

/* Returns "host:port" or "[host]:port" of the master; owned by the caller. */
gchar *tps_world_get_master (const TpsWorld *world);

/* Returns "[host]:port" for IPv6 literals, else "host:port"; owned by the caller. */
gchar *tps_world_join_address (const gchar *host, guint port);

/* -- flags -- */

void tps_world_add_flags (GOptionContext *context, TpsWorld *world);

/* Reads unset flags from the environment of Slurm, MPI and torchrun-style launchers. */
gboolean tps_world_read_environment (TpsWorld *world, GError **error);

/* Sets defaults, draws the job of a master, and checks the flags; n_trainers and n_servers must be
 * set. Afterwards ranks are in the order above, whichever rank the master was given. Errors:
 * TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_world_finish_flags (TpsWorld *world, GError **error);

/* Returns a description of the transport, "Unix sockets and shared memory"; static. */
const gchar *tps_world_get_transport_title (const TpsWorld *world);

/* Adds "name=value" lines. */
void tps_world_describe (const TpsWorld *world, GPtrArray *lines);

/* Returns TRUE if a flag concerns only one process or host, so that it may differ between the
 * processes of a world. */
gboolean tps_world_is_local_flag (const gchar *name);

/* -- keys of the rendezvous; owned by the caller -- */

/* The card (card.h) of the master, present from the start. */
#define TPS_WORLD_MASTER_KEY "world/master"

/* The card of a process that requests `rank`. */
gchar *tps_world_get_role_key (guint rank);

/* The card of the process that the master has accepted as `rank`. */
gchar *tps_world_get_welcome_key (guint rank);

/* The key by which a role confirms that it has seen the stop. */
gchar *tps_world_get_stopped_key (guint rank);

/* Ends all roles when it exists. Its value is empty if the run succeeded, otherwise the reason for
 * the failure. */
#define TPS_WORLD_STOP_KEY "world/stop"

G_END_DECLS
