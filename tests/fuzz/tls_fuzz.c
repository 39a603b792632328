/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as the input from the peer of an encrypted connection: before, during and after
 * the handshake, for a server and for a client. The bytes that the channel returns must be a prefix
 * of the bytes that were sealed as application data. A failure must have a reason, the work must be
 * bounded by the number of the peer's bytes, and no memory may stay charged.
 *
 * An input has a byte of flags (FLAG_CLIENT, FLAG_TLS_1_2, the stage), a byte that sets the size of
 * receives, and operations. An operation has a kind, a length of two bytes (big-endian), and its
 * bytes. In STAGE_DAMAGED the bytes of the first operation change the handshake (see
 * tls_fuzz_peer_step()). */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/net/tls/tls_acceptor.h"
#include "tests/fuzz/tls_fuzz_peer.h"

#define FLAG_CLIENT 1
#define FLAG_TLS_1_2 2
#define STAGE_SHIFT 2
#define STAGE_MASK 3

#define MAX_STEPS 4       /* for each side, in a handshake */
#define MAX_UNSENT 100000 /* bytes that the channel may have to send */
#define OP_HEADER 3
/* Limits of the channel's work, for each byte of its peer and for the handshake. */
#define WORK_OF_BYTE 2
#define WORK_OF_HANDSHAKE 1000

typedef enum
{
  STAGE_RAW,     /* no byte has arrived */
  STAGE_HELLO,   /* both sides have exchanged their hellos, so records can be sealed */
  STAGE_OPEN,    /* the handshake is complete */
  STAGE_DAMAGED, /* some bytes of the handshake are changed */
} Stage;

enum
{
  OP_SEAL, /* the first byte is the type of the record */
  OP_RAW,
  OP_SEND,    /* the channel sends these bytes */
  OP_READING, /* the peer starts or stops reading */
  OP_END,     /* the peer shuts down its sending direction */
  N_OPS,
};

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

typedef struct
{
  TpsBudget *budget;
  TpsTlsAcceptor *acceptor; /* NULL = the channel is a client */
  TpsNetChannel *channel;
  gint fd;
  TlsFuzzPeer peer;
  gboolean peer_reads;
  gsize piece_bytes; /* size of the first piece of a receive */
  gboolean is_open;
  gboolean is_over; /* the channel has failed, or the peer sends no more */

  GByteArray *sealed; /* application data that the peer has sealed */
  gsize n_received;   /* bytes of `sealed` that the channel has returned */
  GByteArray *unsent; /* bytes that the channel has not sent yet */
  guint64 work, max_work;
} Session;

static void
check (gboolean claim)
{
  if (!claim)
    abort ();
}

static void
note_work (Session *session)
{
  check (++session->work <= session->max_work);
}

/* ---- the channel ----------------------------------------------------------------------------- */

/* Simulates a socket that becomes writable when the peer reads. Returns TRUE if the channel may
 * continue. */
static gboolean
can_go_on (const Session *session, gboolean needs_output)
{
  if (needs_output && session->peer_reads)
    tls_fuzz_peer_drain (&session->peer);
  return needs_output && session->peer_reads;
}

/* A server has a channel after the first byte has arrived. Returns FALSE if it has none yet, or if
 * it refuses the byte. */
static gboolean
find_channel (Session *session)
{
  TpsNetChannel *first;
  g_autoptr (GError) error = NULL;

  if (session->channel != NULL)
    return TRUE;
  first = tps_tls_acceptor_get_channel (session->acceptor);
  session->channel = first->ops->recognize (first, session->fd, &error);
  session->is_over = error != NULL || session->channel == &tps_plain_channel;
  return session->channel != NULL && !session->is_over;
}

static void
shake_hands (Session *session)
{
  g_autoptr (GError) error = NULL;
  TpsHandshake result;

  if (!find_channel (session))
    return;
  do
    {
      note_work (session);
      result = session->channel->ops->shake_hands (session->channel, session->fd, &error);
      check ((result == TPS_HANDSHAKE_FAILED) == (error != NULL));
    }
  while (can_go_on (session, result == TPS_HANDSHAKE_NEEDS_OUTPUT));
  session->is_over = result == TPS_HANDSHAKE_FAILED;
  session->is_open = result == TPS_HANDSHAKE_DONE;
}

/* Returns TRUE if the channel may continue after `code`. A failure must have a reason. */
static gboolean
judge (Session *session, gint code)
{
  if (code == EAGAIN)
    return TRUE;
  check (code != EPROTO || session->channel->ops->get_failure (session->channel) != NULL);
  session->is_over = TRUE;
  return FALSE;
}

static void
take_received (Session *session, const guint8 *bytes, gsize n_bytes)
{
  check (session->n_received + n_bytes <= session->sealed->len
         && memcmp (session->sealed->data + session->n_received, bytes, n_bytes) == 0);
  session->n_received += n_bytes;
}

/* Receives once into two pieces, of which the first may be empty. Returns FALSE if no more bytes
 * are available. */
static gboolean
receive (Session *session)
{
  gsize n_first = session->piece_bytes, n_second = session->piece_bytes / 2 + 1;
  g_autofree guint8 *first = g_malloc (n_first + 1), *second = g_malloc (n_second);
  struct iovec pieces[] = { { first, n_first }, { second, n_second } };
  struct msghdr message = { .msg_iov = pieces, .msg_iovlen = G_N_ELEMENTS (pieces) };
  TpsNetChannel *channel = session->channel;
  gssize n = channel->ops->receive (channel, session->fd, &message);

  note_work (session);
  check (n <= (gssize) (n_first + n_second) && message.msg_controllen == 0);
  if (n > 0)
    {
      take_received (session, first, MIN ((gsize) n, n_first));
      if ((gsize) n > n_first)
        take_received (session, second, (gsize) n - n_first);
      return (gsize) n == n_first + n_second || channel->has_unread;
    }
  if (n == 0)
    session->is_over = TRUE;
  if (n == 0 || !judge (session, errno))
    return FALSE;
  return channel->receive_needs_output ? can_go_on (session, TRUE) : channel->has_unread;
}

/* A send that had to wait must be repeated with the same bytes at its start. */
static void
send_unsent (Session *session)
{
  TpsNetChannel *channel = session->channel;

  while (session->unsent->len > 0 && session->is_open && !session->is_over)
    {
      struct iovec piece = { session->unsent->data, session->unsent->len };
      const struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
      gssize n = channel->ops->send (channel, session->fd, &message);

      note_work (session);
      check (n <= (gssize) piece.iov_len);
      if (n > 0)
        g_byte_array_remove_range (session->unsent, 0, (guint) n);
      else if (!judge (session, errno) || !can_go_on (session, !channel->send_needs_input))
        return;
    }
}

static void
go_on (Session *session)
{
  if (!session->is_open && !session->is_over)
    shake_hands (session);
  if (session->is_open)
    while (!session->is_over && receive (session))
      continue;
  send_unsent (session);
}

/* ---- the handshake --------------------------------------------------------------------------- */

static void
exchange (Session *session, TlsFuzzForward forward)
{
  for (guint i = 0; i < MAX_STEPS && !session->is_over; i++)
    {
      if (!session->is_open)
        shake_hands (session);
      tls_fuzz_peer_step (&session->peer, forward);
    }
}

static void
check_open (Session *session)
{
  const gchar *name = session->channel->ops->get_peer_name (session->channel);

  check (session->is_open && session->peer.application.is_known == !session->peer.is_tls_1_2);
  check (session->acceptor == NULL || g_strcmp0 (name, "dns:fuzz") == 0);
}

/* Runs the handshake up to `stage`. Returns the number of bytes of `data` that it used. The first
 * operation starts after them. */
static gsize
begin (Session *session, Stage stage, const guint8 *data, gsize n_bytes)
{
  if (stage == STAGE_RAW)
    return 0;
  if (stage == STAGE_DAMAGED && n_bytes >= OP_HEADER)
    {
      session->peer.damage = data + OP_HEADER;
      session->peer.n_damage = MIN ((gsize) data[1] << 8 | data[2], n_bytes - OP_HEADER);
    }
  exchange (session, stage == STAGE_HELLO ? TLS_FUZZ_UNSEALED : TLS_FUZZ_ALL);
  if (stage == STAGE_OPEN)
    check_open (session);
  else if (stage == STAGE_HELLO && !session->peer.is_tls_1_2)
    check (!session->is_open);
  return stage == STAGE_DAMAGED ? MIN (OP_HEADER + session->peer.n_damage, n_bytes) : 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* The type of a record is the last byte of its content that is not zero. Appends application data
 * to `sealed`. */
static void
note_sealed (Session *session, guint8 type, const guint8 *content, gsize n_bytes)
{
  while (type == 0 && n_bytes > 0)
    type = content[--n_bytes];
  if (type == SSL3_RT_APPLICATION_DATA && n_bytes > 0)
    g_byte_array_append (session->sealed, content, (guint) n_bytes);
}

static void
seal (Session *session, const guint8 *content, gsize n_bytes)
{
  guint8 type = n_bytes > 0 ? content[0] : SSL3_RT_APPLICATION_DATA;
  gsize n_type = n_bytes > 0 ? 1 : 0;

  note_sealed (session, type, content + n_type, n_bytes - n_type);
  tls_fuzz_peer_seal (&session->peer, type, content + n_type, n_bytes - n_type);
}

static void
run_op (Session *session, guint8 kind, const guint8 *content, gsize n_bytes)
{
  session->max_work += WORK_OF_BYTE * (OP_HEADER + n_bytes);
  switch (kind % N_OPS)
    {
    case OP_SEAL:
      seal (session, content, n_bytes);
      break;
    case OP_RAW:
      tls_fuzz_peer_send (&session->peer, content, n_bytes);
      break;
    case OP_SEND:
      if (session->unsent->len + n_bytes <= MAX_UNSENT)
        g_byte_array_append (session->unsent, content, (guint) n_bytes);
      break;
    case OP_READING:
      session->peer_reads = !session->peer_reads;
      break;
    default:
      shutdown (session->peer.fd, SHUT_WR);
    }
  if (session->peer_reads)
    tls_fuzz_peer_drain (&session->peer);
  go_on (session);
}

static void
run_ops (Session *session, const guint8 *data, gsize n_bytes)
{
  while (n_bytes >= OP_HEADER && !session->is_over)
    {
      gsize n = MIN ((gsize) data[1] << 8 | data[2], n_bytes - OP_HEADER);

      run_op (session, data[0], data + OP_HEADER, n);
      data += OP_HEADER + n;
      n_bytes -= OP_HEADER + n;
    }
}

/* ---- start and end --------------------------------------------------------------------------- */

static const gchar *
get_path (void)
{
  static gchar *path;

  if (path == NULL)
    path = g_strdup_printf ("/proc/self/fd/%d", tls_fuzz_new_certificate ());
  return path;
}

static TpsTls *
get_tls (gboolean allow_tls_1_2)
{
  static TpsTls *all[2];
  const TpsTlsOptions options = { .certificate = get_path (),
                                  .authorities = get_path (),
                                  .allow_tls_1_2 = allow_tls_1_2 };

  if (all[allow_tls_1_2] == NULL)
    all[allow_tls_1_2] = tps_tls_new (&options, NULL);
  check (all[allow_tls_1_2] != NULL);
  return all[allow_tls_1_2];
}

static void
init (Session *session, gboolean is_client, gboolean is_tls_1_2)
{
  gint few_bytes = 1; /* the kernel raises it to its minimum */
  gint fds[2];

  *session = (Session) { .budget = tps_budget_new (NULL, "channels", 0),
                         .peer_reads = TRUE,
                         .max_work = WORK_OF_HANDSHAKE,
                         .sealed = g_byte_array_new (),
                         .unsent = g_byte_array_new () };
  check (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  setsockopt (fds[0], SOL_SOCKET, SO_SNDBUF, &few_bytes, sizeof few_bytes);
  session->fd = fds[0];
  tls_fuzz_peer_init (&session->peer, fds[1], get_path (), is_client, is_tls_1_2);
  if (is_client)
    session->channel = tps_tls_connect (get_tls (is_tls_1_2), "fuzz", NULL);
  else
    session->acceptor = tps_tls_acceptor_new (&(TpsTlsAcceptorOptions) {
        .tls = get_tls (is_tls_1_2), .is_required = TRUE, .budget = session->budget });
}

static void
clear (Session *session)
{
  if (session->channel != NULL && session->channel != &tps_plain_channel)
    session->channel->ops->free (session->channel, session->fd);
  tps_tls_acceptor_free (session->acceptor);
  check (tps_budget_get_held (session->budget) == 0);
  tps_budget_unref (session->budget);
  tls_fuzz_peer_clear (&session->peer);
  close (session->fd);
  close (session->peer.fd);
  g_byte_array_unref (session->sealed);
  g_byte_array_unref (session->unsent);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Session session;
  Stage stage;
  gsize n_taken;

  if (size < 2)
    return 0;
  tls_fuzz_fix_dice ();
  init (&session, (data[0] & FLAG_CLIENT) != 0, (data[0] & FLAG_TLS_1_2) != 0);
  session.piece_bytes = (gsize) data[1] * data[1];
  stage = (Stage) (data[0] >> STAGE_SHIFT & STAGE_MASK);
  n_taken = begin (&session, stage, data + 2, size - 2);
  run_ops (&session, data + 2 + n_taken, size - 2 - n_taken);
  clear (&session);
  return 0;
}
