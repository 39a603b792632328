/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A system under test: a server process and a load generator, over one kind of socket. Scripts are
 * stopped while other systems are measured, because TensorPipe polls continuously. */

#pragma once

#include "bench/process/child.h"
#include "bench/transfer/system/row.h"

G_BEGIN_DECLS

/* The flags without which a system is not measured. */
typedef enum
{
  TPS_TRANSFER_WITH_TLS = 1 << 0,
  TPS_TRANSFER_WITH_PEERS = 1 << 1,
} TpsTransferNeeds;

/* The description of a system; static. */
typedef struct
{
  const gchar *name; /* "thriftps", "raw", "libthrift TThreaded" */
  /* "tcp", "unix", "tls"; "shm" = a Unix socket with shared memory, or no socket at all */
  const gchar *transport;
  const gchar *kind;    /* KIND of the flags --serve=KIND and --load=KIND */
  const gchar *version; /* for reports */
  /* the duration of one call, and the rate of large calls: typical values, only for estimates */
  gdouble call_us, gb_per_s;
  guint needs;           /* TpsTransferNeeds */
  guint max_connections; /* 0 = any, like the next one */
  guint max_in_flight;   /* on a connection */
  gboolean has_no_server;
  const gchar *program; /* a path from the root of the repository; NULL = this program */
  const gchar *script;  /* a Python script, which is used instead of `program`; NULL = none */
  gboolean is_one_way;  /* cannot run an echo */
  /* the CPU time of its processes is unknown, because they start other processes */
  gboolean has_no_cpu;
  gsize min_bytes;
  gsize max_bytes_in_flight; /* on a connection; 0 = any */
} TpsTransferSystemSpec;

/* The times of one run of a row. */
typedef struct
{
  gdouble seconds;
  GArray *ms;         /* of gdouble, the time of each call */
  gdouble client_cpu; /* CPU time of the load generator in seconds */
  gdouble server_cpu; /* of the server */
} TpsTransferTimes;

/* Frees the contents. */
void tps_transfer_times_clear (TpsTransferTimes *times);

/* Options of the processes: a folder for Unix sockets, the file of a certificate and its key (NULL
 * = none), and the maximum of bytes in flight on a connection. */
typedef struct
{
  const gchar *socket_dir;
  const gchar *certificate;
  gsize max_bytes;
} TpsTransferSystemOptions;

/* A system; read-only for its users. */
typedef struct
{
  TpsSupervisor *supervisor;
  const TpsTransferSystemSpec *spec;
  TpsTransferSystemOptions options;
  TpsChild *server, *client; /* `server` NULL = none */
  gchar *address;            /* of the server */
  gboolean is_paused;
} TpsTransferSystem;

/* Creates a system without processes. `spec` is static. `supervisor` and the strings of `options`
 * are borrowed and must outlive the system. The caller owns the result. */
TpsTransferSystem *tps_transfer_system_new (TpsSupervisor *supervisor,
                                            const TpsTransferSystemSpec *spec,
                                            const TpsTransferSystemOptions *options);

/* Starts the processes. Blocks. Errors: UNAVAILABLE, with the name of the process. */
gboolean tps_transfer_system_start (TpsTransferSystem *system, GError **error);
/* Closes the pipes to the processes, after which they end, and frees the system. */
void tps_transfer_system_free (TpsTransferSystem *system);

/* Returns TRUE if the system supports the row. */
gboolean tps_transfer_system_can_run (const TpsTransferSystem *system, const TpsTransferRow *row);

/* Makes calls for which the load generator compares the contents of the replies. Peers do nothing.
 * Blocks. Errors: those of tps_transfer_system_run(). */
gboolean tps_transfer_system_check (TpsTransferSystem *system, const TpsTransferRow *row,
                                    GError **error);

/* Runs a row. The caller must clear `times`. Blocks. Errors: those of the load generator; ABORTED
 * if a process has exited, or after an interrupt. */
gboolean tps_transfer_system_run (TpsTransferSystem *system, const TpsTransferRow *row,
                                  TpsTransferTimes *times, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferTimes, tps_transfer_times_clear)

G_END_DECLS
