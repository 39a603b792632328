/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ranks and the rendezvous of a world. Ranks are assigned as in the originals (the PyTorch
 * benchmarks, see bench/README.md): trainers first, then servers, and the master last. Launchers of
 * fleets may give rank 0 to the master instead (--master-rank=first). */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

/* The description of a world and of the role of this process in it. */
typedef struct
{
  /* Set by the benchmark; static strings. */
  const gchar *program;     /* "parameter_server" */
  const gchar *server_name; /* of servers: "server" as in server2, "ps" */
  gboolean counts_servers;  /* servers are numbered from 0, not by their ranks */
  guint n_trainers;
  guint n_servers;

  /* Flags; strings are owned. */
  gchar *job;         /* the identity of the world; NULL in a role = any */
  gint rank;          /* of this process, in the order above; -1 = start the whole world */
  gchar *master_rank; /* "last" or "first": the rank of the master */
  gint world_size;
  gint local_rank;    /* among the roles of this machine; negative = not given */
  gchar *master_addr; /* without brackets, even if it is an IPv6 literal */
  gint master_port;
  gchar *bind;        /* the address to listen on; NULL = that of the route to the master */
  gchar *port_range;  /* "FIRST-LAST", the ports to listen on; NULL = any */
  guint16 first_port; /* of port_range; 0 = any */
  guint16 last_port;
  gchar *transport; /* "unix", "tcp" */
  gboolean no_shared_memory;
  gchar *socket_dir;    /* of the Unix sockets of the world; set by the launcher for its children */
  gint rpc_timeout;     /* seconds */
  gint startup_timeout; /* seconds */
  gchar **given;        /* the command line, for children and reports */
} TpsWorld;

/* The kinds of processes of a world. */
typedef enum
{
  TPS_WORLD_TRAINER,
  TPS_WORLD_SERVER,
  TPS_WORLD_MASTER,
} TpsWorldKind;

/* Initialises the fields that are no flags. Both strings are static. */
void tps_world_init (TpsWorld *world, const gchar *program, const gchar *server_name);

/* Return the number of trainers and servers, plus one for the master; whether this process is a
 * trainer or a server, not the launcher or the master; the rank that the fleet has given to it
 * (--master-rank); and the number of this role among those of its machine, which share the devices
 * (without --local-rank, the rank). */
guint tps_world_get_size (const TpsWorld *world);
gboolean tps_world_is_role (const TpsWorld *world);
guint tps_world_get_given_rank (const TpsWorld *world);
guint tps_world_get_local_rank (const TpsWorld *world);

/* Return the kind of the process with this rank, in the order above, and the number of a trainer
 * among the trainers, or of a server among the servers. */
TpsWorldKind tps_world_get_kind (const TpsWorld *world, guint rank);
guint tps_world_get_number (const TpsWorld *world, guint rank);

/* Returns "trainer0", "server2" or "master". The number of a server is its rank, unless
 * `counts_servers` is set. The caller owns the result. */
gchar *tps_world_get_name (const TpsWorld *world, guint rank);

/* Returns "host:port" or "[host]:port" of the master. The caller owns the result. */
gchar *tps_world_get_master (const TpsWorld *world);

/* Returns "[host]:port" for an IPv6 literal, otherwise "host:port". The caller owns the result. */
gchar *tps_world_join_address (const gchar *host, guint port);

/* -- flags -- */

/* The table of the flags of all worlds. */
extern const TpsFlag tps_world_flags[];

/* Takes flags that were not given on the command line from the environment of Slurm, MPI and
 * launchers like torchrun. Errors: INVALID_ARGUMENT. */
gboolean tps_world_read_environment (TpsWorld *world, GError **error);

/* Sets defaults, chooses a random job id if this process starts the world or is its master, and
 * checks the flags. n_trainers and n_servers must be set. Afterwards ranks are in the order above,
 * whichever rank the fleet has given to the master. Errors: INVALID_ARGUMENT. */
gboolean tps_world_finish_flags (TpsWorld *world, GError **error);

/* Returns a description of the transport, such as "Unix sockets and shared memory". Static. */
const gchar *tps_world_get_transport_title (const TpsWorld *world);

/* Returns TRUE if a flag may differ between processes, because it concerns one process or host. */
gboolean tps_world_is_local_flag (const gchar *name);

/* -- keys of the rendezvous; the caller owns the results -- */

/* The card (card.h) of the master. Present from the start. */
#define TPS_WORLD_MASTER_KEY "world/master"

/* Return the keys of the cards of the process that requests `rank`, and of that which the master
 * has accepted, and the key by which it confirms that it has seen the stop. */
gchar *tps_world_get_role_key (guint rank);
gchar *tps_world_get_welcome_key (guint rank);
gchar *tps_world_get_stopped_key (guint rank);

/* When this key exists, all roles must exit. Its value is the reason; empty = success. */
#define TPS_WORLD_STOP_KEY "world/stop"

G_END_DECLS
