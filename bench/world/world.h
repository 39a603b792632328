/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Who is who, and where they meet: ranks are dealt as in the originals, trainers first, then
 * servers, the master last. Launchers of fleets may give rank 0 to the master instead
 * (--master-rank=first). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  /* The benchmark's; static strings. */
  const gchar *program;     /* "parameter_server" */
  const gchar *server_name; /* "server": server2 by its rank; "ps" */
  gboolean counts_servers;  /* number servers from 0, not by their rank */
  guint n_trainers;
  guint n_servers;

  /* Flags; strings are owned. */
  gchar *job;         /* the identity of the world; NULL in a role: as the master says */
  gint rank;          /* -1 = launch the whole world here; else in the order above */
  gchar *master_rank; /* "last", or "first": the rank that was given to the master */
  gint world_size;
  gint local_rank;    /* among the roles of this machine; negative = not given */
  gchar *master_addr; /* IPv6 literals are without brackets */
  gint master_port;
  gchar *bind;        /* where this process listens; NULL: as the route to the master says */
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

/* Trainers, servers and one master. */
guint tps_world_get_size (const TpsWorld *world);

/* Whether this process is a trainer or a server, and not the launcher or the master. */
gboolean tps_world_is_role (const TpsWorld *world);

/* The rank that the fleet gave to this process: see --master-rank. */
guint tps_world_get_given_rank (const TpsWorld *world);

TpsWorldKind tps_world_get_kind (const TpsWorld *world, guint rank);

/* Of this role among those of its machine, which share its devices: as its launcher says, else its
 * rank. */
guint tps_world_get_local_rank (const TpsWorld *world);

/* Of a trainer among trainers, of a server among servers. */
guint tps_world_get_number (const TpsWorld *world, guint rank);

/* "trainer0", "server2" (the number is the rank, unless servers are counted), "master"; owned. */
gchar *tps_world_get_name (const TpsWorld *world, guint rank);

/* "host:port" or "[host]:port" of the master; owned. */
gchar *tps_world_get_master (const TpsWorld *world);

/* "[host]:port" for IPv6 literals, else "host:port"; owned. */
gchar *tps_world_join_address (const gchar *host, guint port);

/* -- flags -- */

void tps_world_add_flags (GOptionContext *context, TpsWorld *world);

/* What the flags leave open is read from the environment of Slurm, MPI and torchrun-style
 * launchers. */
gboolean tps_world_read_environment (TpsWorld *world, GError **error);

/* Fills in defaults, draws the job of a master, and checks; n_trainers and n_servers must be set.
 * From here on ranks are dealt as above, whichever rank the master was given. Errors:
 * TPS_ERROR_INVALID_ARGUMENT. */
gboolean tps_world_finish_flags (TpsWorld *world, GError **error);

/* "Unix sockets and shared memory": how tensors travel; static. */
const gchar *tps_world_get_transport_title (const TpsWorld *world);

/* Adds "name=value" lines. */
void tps_world_describe (const TpsWorld *world, GPtrArray *lines);

/* Whether a flag concerns one process or host alone, so the processes of one world may differ in
 * it. */
gboolean tps_world_is_local_flag (const gchar *name);

/* -- keys of the rendezvous; owned by the caller -- */

/* The card (card.h) of the master, from the start. */
#define TPS_WORLD_MASTER_KEY "world/master"

/* The card of a role that wants to be `rank`. */
gchar *tps_world_get_role_key (guint rank);

/* The card of the role that the master has taken for `rank`. */
gchar *tps_world_get_welcome_key (guint rank);

/* Under which a role says that it has seen the stop. */
gchar *tps_world_get_stopped_key (guint rank);

/* Ends all roles when it is there. Its value is empty if the run succeeded, else it says why the
 * run failed. */
#define TPS_WORLD_STOP_KEY "world/stop"

G_END_DECLS
