/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/tls/tls_channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "plugin/net/tls/tls.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* ---- names in certificates ------------------------------------------------------------------ */

#define SPIFFE "spiffe://"
#define MAX_NAME_BYTES 2048 /* of a SPIFFE ID */

/* Returns the prefix and the text, which the caller owns; NULL = the text is not a valid name.
 * Access rules compare names as text, so a name must not contain a NUL, which would hide its
 * rest. */
static gchar *
make_name (const gchar *prefix, const ASN1_STRING *text)
{
  const guint8 *bytes = ASN1_STRING_get0_data (text);
  int n_bytes = ASN1_STRING_length (text);

  if (n_bytes <= 0 || n_bytes > MAX_NAME_BYTES)
    return NULL;
  for (int i = 0; i < n_bytes; i++)
    if (!g_ascii_isgraph (bytes[i]))
      return NULL;
  return g_strdup_printf ("%s%.*s", prefix, n_bytes, (const gchar *) bytes);
}

/* Returns `prefix` and the first valid alternative name of this type; NULL = none. If `scheme` is
 * not NULL, the name must begin with it. */
static gchar *
find_alternative (const GENERAL_NAMES *names, int type, const gchar *prefix, const gchar *scheme)
{
  gchar *found = NULL;

  for (int i = 0; found == NULL && i < sk_GENERAL_NAME_num (names); i++)
    {
      const GENERAL_NAME *name = sk_GENERAL_NAME_value (names, i);

      if (name->type != type)
        continue;
      found = make_name (prefix, name->d.ia5);
      if (found != NULL && scheme != NULL && !g_str_has_prefix (found, scheme))
        g_clear_pointer (&found, g_free);
    }
  return found;
}

/* Returns the last common name, which is the most specific one; NULL = none. */
static gchar *
find_common_name (X509 *certificate)
{
  X509_NAME *subject = X509_get_subject_name (certificate);
  int last = -1;

  for (int i = last; (i = X509_NAME_get_index_by_NID (subject, NID_commonName, i)) >= 0;)
    last = i;
  return last >= 0
             ? make_name ("cn:", X509_NAME_ENTRY_get_data (X509_NAME_get_entry (subject, last)))
             : NULL;
}

gchar *
tps_certificate_dup_name (X509 *certificate)
{
  GENERAL_NAMES *names = X509_get_ext_d2i (certificate, NID_subject_alt_name, NULL, NULL);
  gchar *name = find_alternative (names, GEN_URI, "", SPIFFE);

  if (name == NULL)
    name = find_alternative (names, GEN_DNS, "dns:", NULL);
  if (name == NULL)
    name = find_common_name (certificate);
  GENERAL_NAMES_free (names);
  return name;
}

/* ---- socket --------------------------------------------------------------------------------- */

/* The socket of an encrypted connection as a BIO. Unlike OpenSSL's own BIO for sockets, it raises
 * no SIGPIPE and does not read again from a socket that was empty.
 *
 * Control requests go to OpenSSL's own BIO for sockets, which turns on the TLS of the kernel. This
 * BIO has the same fields. When the kernel's TLS is on, control messages and all received bytes
 * also go through OpenSSL's BIO. */

typedef struct
{
  /* The last receive returned fewer bytes than requested, so the BIO does not read the socket
   * again. The caller must set it to FALSE when the socket may be read. */
  gboolean is_empty;
  gboolean has_ended;     /* the peer sends no more */
  gboolean has_more;      /* set by the caller: more bytes follow, and the kernel may wait */
  gboolean holds_back;    /* the kernel holds the last bytes back */
  gint code;              /* errno of a failure; 0 = none */
  gboolean sends_control; /* the kernel encrypts, and the next bytes are a control message */
} TlsSocket;

/* <openssl/bio.h> contains these two numbers only in comments. */
#define SET_KTLS_SEND_CONTROL 74
#define CLEAR_KTLS_CONTROL 75

static BIO_METHOD *method;
static int socket_index;

static gboolean
is_transient (gint code)
{
  return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

static int
read_bytes (BIO *bio, char *bytes, int n_bytes)
{
  TlsSocket *peer = BIO_get_ex_data (bio, socket_index);
  int fd = (int) BIO_get_fd (bio, NULL);
  gssize n;

  BIO_clear_retry_flags (bio);
  if (peer->is_empty)
    {
      BIO_set_retry_read (bio);
      return -1;
    }
  if (BIO_get_ktls_recv (bio))
    n = BIO_meth_get_read (BIO_s_socket ()) (bio, bytes, n_bytes);
  else
    n = recv (fd, bytes, (gsize) n_bytes, MSG_DONTWAIT);
  peer->is_empty = n < n_bytes;
  if (n == 0)
    peer->has_ended = TRUE;
  else if (n < 0 && is_transient (errno))
    BIO_set_retry_read (bio);
  else if (n < 0)
    peer->code = errno;
  return (int) n;
}

static int
write_bytes (BIO *bio, const char *bytes, int n_bytes)
{
  TlsSocket *peer = BIO_get_ex_data (bio, socket_index);
  int fd = (int) BIO_get_fd (bio, NULL);
  gssize n;

  BIO_clear_retry_flags (bio);
  if (peer->sends_control)
    {
      n = BIO_meth_get_write (BIO_s_socket ()) (bio, bytes, n_bytes);
      peer->sends_control = n < 0;
      return (int) n;
    }
  n = send (fd, bytes, (gsize) n_bytes,
            MSG_DONTWAIT | MSG_NOSIGNAL | (peer->has_more ? MSG_MORE : 0));
  if (n > 0)
    peer->holds_back = peer->has_more;
  else if (n < 0 && is_transient (errno))
    BIO_set_retry_write (bio);
  else if (n < 0)
    peer->code = errno;
  return (int) n;
}

static long
control (BIO *bio, int request, long number, void *pointer)
{
  TlsSocket *peer = BIO_get_ex_data (bio, socket_index);

  if (peer != NULL && request == SET_KTLS_SEND_CONTROL)
    peer->sends_control = TRUE;
  else if (peer != NULL && request == CLEAR_KTLS_CONTROL)
    peer->sends_control = FALSE;
  return BIO_meth_get_ctrl (BIO_s_socket ()) (bio, request, number, pointer);
}

static void
make_method (void)
{
  socket_index = BIO_get_ex_new_index (0, NULL, NULL, NULL, NULL);
  method = BIO_meth_new (BIO_get_new_index () | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR,
                         "socket");
  if (method == NULL)
    return;
  BIO_meth_set_create (method, BIO_meth_get_create (BIO_s_socket ()));
  BIO_meth_set_destroy (method, BIO_meth_get_destroy (BIO_s_socket ()));
  BIO_meth_set_ctrl (method, control);
  BIO_meth_set_read (method, read_bytes);
  BIO_meth_set_write (method, write_bytes);
}

/* Creates a BIO on `fd`, which the caller still owns. `peer` is borrowed and must outlive the
 * BIO. The caller owns the result. Returns NULL if there is no memory. */
static BIO *
socket_new_bio (TlsSocket *peer, gint fd)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  BIO *bio;

  tps_sync_check (pthread_once (&once, make_method));
  bio = method != NULL ? BIO_new (method) : NULL;
  if (bio == NULL)
    return NULL;
  BIO_set_ex_data (bio, socket_index, peer);
  BIO_set_fd (bio, fd, BIO_NOCLOSE);
  return bio;
}

/* Makes the kernel send the bytes that it holds back (MSG_MORE). */
static void
socket_flush (BIO *bio)
{
  TlsSocket *peer = BIO_get_ex_data (bio, socket_index);
  int on = 1;

  if (peer->holds_back)
    setsockopt ((int) BIO_get_fd (bio, NULL), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  peer->holds_back = FALSE;
}

/* ---- channel -------------------------------------------------------------------------------- */

/* An SSL object of OpenSSL must be used by one thread at a time, but a connection receives on its
 * loop and sends from any thread. Each record is therefore read or written under `lock`. Neither
 * side waits for more than one record of the other side.
 *
 * Small messages: several pieces fill one record, so a call costs one record and one system call.
 *
 * Large messages, without the kernel's TLS: a received byte goes from the socket into OpenSSL's
 * buffer of one record, and is decrypted there. SSL_read_ex() then copies it to the memory that the
 * scanner has chosen, for example the memory of a tensor. SSL_write_ex() copies a sent byte into a
 * record, where it is encrypted, and sends it to the socket. Neither copy can be avoided, because
 * OpenSSL does not accept buffers of its caller. Both buffers have 16 KiB and stay in the cache.
 * With the kernel's TLS, OpenSSL copies only received bytes.
 *
 * The read buffer has room for one record. A larger buffer (SSL_CTX_set_default_read_buffer_len())
 * would cost copies: before each record, OpenSSL moves all bytes that it has read ahead to the
 * front of the buffer.
 *
 * OpenSSL checks the peer's certificate during the handshake. Only a URI is compared here, at the
 * end of the handshake. */

/* Limits of one call, after which other connections get their turn: about 100 us. */
#define MAX_RECEIVED_RECORDS 16
#define MAX_SENT_RECORDS 16
/* Reads up to this size are reads of message heads, which may contain tokens. OpenSSL must then
 * clear its copy of the bytes. */
#define MAX_CLEANSED_BYTES ((gsize) 4096)
/* The memory for a certificate, in sizes of its encoding: an extension of 7 bytes needs three
 * blocks. */
#define CHAIN_FACTOR 24
/* The cost of a record, in scanned bytes (LOOK_BYTES in connection.c). */
#define RECORD_COST ((gsize) 2048)

typedef struct
{
  TpsNetChannel base;
  gchar *peer_name; /* the name in the certificate of a client; NULL = none */
  gchar *uri; /* expected in the peer's certificate; NULL = none, or OpenSSL checks the host */
  TpsCharge charge;
  TpsBudget *budget; /* of the handshake, below that of the connection; a reference */
  TpsTlsCounts counts;

  TpsMutex lock; /* guards the following */
  SSL *ssl;
  TlsSocket socket;
  gboolean is_broken;   /* OpenSSL must not be called any more */
  const gchar *failure; /* of `is_broken`; static text; NULL = the socket has failed or ended */
  gboolean is_current;  /* its handshake is counted in counts.current */
} TlsChannel;

/* ---- calls to OpenSSL ----------------------------------------------------------------------- */

typedef enum
{
  STEP_MORE, /* continue at once */
  STEP_NEEDS_INPUT,
  STEP_NEEDS_OUTPUT,
  STEP_ENDED,  /* the peer sends no more */
  STEP_FAILED, /* errno is the reason; EPROTO: see `failure` */
} Step;

/* Records a failure and sets errno. Must be called with the lock held. */
static Step
fail (TlsChannel *channel, const gchar *reason)
{
  gint code = channel->socket.code;

  channel->is_broken = TRUE;
  if (code == 0 && channel->failure == NULL)
    channel->failure = reason;
  errno = code != 0 ? code : EPROTO;
  return STEP_FAILED;
}

/* Interprets the result of an OpenSSL call that produced no bytes. Must be called with the lock
 * held. */
static Step
judge (TlsChannel *channel, int rc)
{
  switch (SSL_get_error (channel->ssl, rc))
    {
    case SSL_ERROR_WANT_READ:
      return channel->socket.is_empty ? STEP_NEEDS_INPUT : STEP_MORE;
    case SSL_ERROR_WANT_WRITE:
      return STEP_NEEDS_OUTPUT;
    case SSL_ERROR_ZERO_RETURN:
      return STEP_ENDED;
    default:
      break;
    }
  if (channel->socket.has_ended)
    {
      channel->is_broken = TRUE;
      return STEP_ENDED;
    }
  return fail (channel, tps_tls_take_reason ());
}

static Step
read_record (TlsChannel *channel, guint8 *dest, gsize n_bytes, gsize *n_read)
{
  Step step = STEP_MORE;
  int rc;

  *n_read = 0;
  TPS_LOCK_SCOPE (&channel->lock);
  if (channel->is_broken)
    step = channel->socket.has_ended ? STEP_ENDED : fail (channel, "an earlier failure");
  else
    {
      ERR_clear_error ();
      if (n_bytes <= MAX_CLEANSED_BYTES)
        SSL_set_options (channel->ssl, SSL_OP_CLEANSE_PLAINTEXT);
      else
        SSL_clear_options (channel->ssl, SSL_OP_CLEANSE_PLAINTEXT);
      rc = SSL_read_ex (channel->ssl, dest, n_bytes, n_read);
      if (rc != 1)
        step = judge (channel, rc);
    }
  return step;
}

static Step
write_record (TlsChannel *channel, const guint8 *bytes, gsize n_bytes, gboolean has_more,
              gsize *n_written)
{
  Step step = STEP_MORE;
  int rc;

  *n_written = 0;
  TPS_LOCK_SCOPE (&channel->lock);
  if (channel->is_broken)
    step = fail (channel, "an earlier failure");
  else
    {
      channel->socket.is_empty = TRUE; /* a sender must not receive bytes that the loop waits for */
      channel->socket.has_more = has_more;
      ERR_clear_error ();
      rc = SSL_write_ex (channel->ssl, bytes, n_bytes, n_written);
      channel->socket.has_more = FALSE;
      if (rc != 1)
        {
          step = judge (channel, rc);
          socket_flush (SSL_get_wbio (channel->ssl)); /* sends the earlier records */
        }
    }
  return step;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* Returns TRUE if there are bytes for which the socket will not become readable. */
static gboolean
has_pending (TlsChannel *channel)
{
  TPS_LOCK_SCOPE (&channel->lock);
  return !channel->is_broken && SSL_has_pending (channel->ssl) == 1;
}

static Step
fill (TlsChannel *channel, const struct iovec *piece, guint *n_records, gsize *n_received)
{
  gsize n_filled = 0;

  while (n_filled < piece->iov_len && *n_records < MAX_RECEIVED_RECORDS)
    {
      gsize n_read;
      Step step = read_record (channel, (guint8 *) piece->iov_base + n_filled,
                               piece->iov_len - n_filled, &n_read);

      ++*n_records;
      n_filled += n_read;
      *n_received += n_read;
      if (step != STEP_MORE)
        return step;
    }
  return STEP_MORE;
}

static gssize
receive (TpsNetChannel *base, gint fd, struct msghdr *message)
{
  TlsChannel *channel = (TlsChannel *) base;
  gsize n_received = 0;
  guint n_records = 0;
  Step step = STEP_MORE;

  message->msg_controllen = 0;
  message->msg_flags = 0;
  tps_mutex_lock (&channel->lock);
  channel->socket.is_empty = FALSE;
  tps_mutex_unlock (&channel->lock);
  channel->base.cost = 0;
  channel->base.receive_needs_output = FALSE;
  for (gsize i = 0; i < message->msg_iovlen && step == STEP_MORE; i++)
    step = fill (channel, &message->msg_iov[i], &n_records, &n_received);
  base->cost = n_records * RECORD_COST;
  /* If the channel ended or failed after it had received bytes, the next call must report this. */
  base->has_unread = step == STEP_NEEDS_OUTPUT
                     || (step == STEP_MORE ? has_pending (channel)
                                           : n_received > 0 && step != STEP_NEEDS_INPUT);
  if (n_received > 0)
    return (gssize) n_received;
  base->receive_needs_output = step == STEP_NEEDS_OUTPUT;
  if (step == STEP_ENDED)
    return 0;
  if (step != STEP_FAILED)
    errno = EAGAIN;
  return -1;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* The part of a message that has not been written yet. */
typedef struct
{
  const struct iovec *piece;
  const struct iovec *end;
  gsize n_done; /* of the first piece */
} Cursor;

static void
advance (Cursor *cursor, gsize n_bytes)
{
  cursor->n_done += n_bytes;
  while (cursor->piece < cursor->end && cursor->n_done >= cursor->piece->iov_len)
    cursor->n_done -= cursor->piece++->iov_len;
}

/* Returns the bytes of the next record: bytes of the first piece, or several pieces in
 * `scratch`. */
static const guint8 *
gather_record (const Cursor *cursor, guint8 *scratch, gsize *n_bytes)
{
  const struct iovec *piece = cursor->piece;
  const guint8 *first = (const guint8 *) piece->iov_base + cursor->n_done;
  gsize n_first = MIN (piece->iov_len - cursor->n_done, TPS_TLS_RECORD_BYTES);

  *n_bytes = n_first;
  if (n_first == TPS_TLS_RECORD_BYTES || piece + 1 == cursor->end)
    return first;
  memcpy (scratch, first, n_first);
  while (++piece < cursor->end && *n_bytes < TPS_TLS_RECORD_BYTES)
    {
      gsize n = MIN (piece->iov_len, TPS_TLS_RECORD_BYTES - *n_bytes);

      memcpy (scratch + *n_bytes, piece->iov_base, n);
      *n_bytes += n;
    }
  return scratch;
}

static gssize
send_pieces (TpsNetChannel *base, gint fd, const struct msghdr *message)
{
  TlsChannel *channel = (TlsChannel *) base;
  Cursor cursor = { message->msg_iov, message->msg_iov + message->msg_iovlen, 0 };
  guint8 scratch[TPS_TLS_RECORD_BYTES];
  gsize n_all = tps_net_count_bytes (message), n_sent = 0;
  Step step = STEP_MORE;

  advance (&cursor, 0);
  for (guint i = 0; i < MAX_SENT_RECORDS && step == STEP_MORE && cursor.piece < cursor.end; i++)
    {
      gsize n_bytes, n_written;
      const guint8 *bytes = gather_record (&cursor, scratch, &n_bytes);
      gboolean has_more = i + 1 < MAX_SENT_RECORDS && n_sent + n_bytes < n_all;

      step = write_record (channel, bytes, n_bytes, has_more, &n_written);
      advance (&cursor, n_written);
      n_sent += n_written;
    }
  base->send_needs_input = step == STEP_NEEDS_INPUT;
  if (n_sent > 0 || step == STEP_MORE)
    return (gssize) n_sent;
  if (step == STEP_ENDED)
    errno = EPIPE;
  else if (step != STEP_FAILED)
    errno = EAGAIN;
  return -1;
}

/* ---- handshake ------------------------------------------------------------------------------ */

static gboolean
certificate_has_uri (X509 *certificate, const gchar *uri)
{
  GENERAL_NAMES *names = X509_get_ext_d2i (certificate, NID_subject_alt_name, NULL, NULL);
  gboolean found = FALSE;

  for (int i = 0; !found && i < sk_GENERAL_NAME_num (names); i++)
    {
      const GENERAL_NAME *name = sk_GENERAL_NAME_value (names, i);
      const ASN1_IA5STRING *text = name->type == GEN_URI ? name->d.uniformResourceIdentifier : NULL;

      found = text != NULL && (gsize) ASN1_STRING_length (text) == strlen (uri)
              && memcmp (ASN1_STRING_get0_data (text), uri, strlen (uri)) == 0;
    }
  GENERAL_NAMES_free (names);
  return found;
}

/* Sets the name of a client whose certificate has been verified. Must be called with the lock
 * held. */
static void
take_peer_name (TlsChannel *channel)
{
  X509 *certificate;

  if (!SSL_is_server (channel->ssl) || SSL_get_verify_mode (channel->ssl) == SSL_VERIFY_NONE)
    return;
  certificate = SSL_get1_peer_certificate (channel->ssl);
  if (certificate != NULL)
    channel->peer_name = tps_certificate_dup_name (certificate);
  X509_free (certificate);
}

/* Returns TRUE if the peer's certificate has the expected URI, or if no URI is expected. Must be
 * called with the lock held. */
static gboolean
check_uri (TlsChannel *channel, GError **error)
{
  X509 *certificate;
  gboolean matches;

  if (channel->uri == NULL)
    return TRUE;
  certificate = SSL_get1_peer_certificate (channel->ssl);
  matches = certificate != NULL && certificate_has_uri (certificate, channel->uri);
  X509_free (certificate);
  if (!matches)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED,
                 "TLS: the certificate of the peer does not contain the name %s", channel->uri);
  return matches;
}

/* Must be called with the lock held. */
static TpsHandshake
run_handshake (TlsChannel *channel, GError **error)
{
  Step step = STEP_MORE;
  int rc;

  channel->socket.is_empty = FALSE;
  do
    {
      ERR_clear_error ();
      rc = SSL_do_handshake (channel->ssl);
      step = rc == 1 ? STEP_MORE : judge (channel, rc);
    }
  while (rc != 1 && step == STEP_MORE);
  if (rc == 1 && check_uri (channel, error))
    return TPS_HANDSHAKE_DONE;
  if (step == STEP_NEEDS_INPUT)
    return TPS_HANDSHAKE_NEEDS_INPUT;
  if (step == STEP_NEEDS_OUTPUT)
    return TPS_HANDSHAKE_NEEDS_OUTPUT;
  if (rc != 1)
    {
      long verdict = SSL_get_verify_result (channel->ssl);

      if (verdict != X509_V_OK && step == STEP_FAILED)
        g_set_error (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED,
                     "TLS: the certificate of the peer is refused: %s",
                     X509_verify_cert_error_string (verdict));
      else if (step == STEP_ENDED)
        g_set_error_literal (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                             "the peer closed the connection during the TLS handshake");
      else if (channel->socket.code != 0)
        g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                     "connection lost during the TLS handshake: %s",
                     g_strerror (channel->socket.code));
      else
        g_set_error (error, TPS_ERROR, TPS_ERROR_PROTOCOL, "the TLS handshake failed: %s",
                     channel->failure);
    }
  return TPS_HANDSHAKE_FAILED;
}

/* Changes the charge from that of a handshake to that of a connection, and moves it to the parent
 * budget, which never fails. OpenSSL keeps the chain that a client has sent, unused certificates
 * included. Must be called with the lock held. */
static gboolean
charge_connection (TlsChannel *channel, GError **error)
{
  STACK_OF (X509) *chain = SSL_get_peer_cert_chain (channel->ssl);
  gsize n_bytes = 0;

  for (int i = 0; i < sk_X509_num (chain); i++)
    n_bytes += (gsize) MAX (i2d_X509 (sk_X509_value (chain, i), NULL), 0);
  channel->charge.budget = tps_budget_get_parent (channel->budget);
  tps_budget_move (channel->budget, channel->charge.budget, channel->charge.n_bytes);
  return tps_charge_set (&channel->charge, MAX (TPS_TLS_CONNECTION_BYTES, CHAIN_FACTOR * n_bytes),
                         error);
}

/* Counts the end of the handshake; only the first call has an effect. The lock must be held, or no
 * other thread may use the channel. */
static void
count_end (TlsChannel *channel, TpsCounter *counter)
{
  if (!channel->is_current)
    return;
  channel->is_current = FALSE;
  tps_gauge_add (channel->counts.current, -1);
  tps_counter_add (counter, 1);
}

static TpsHandshake
shake_hands (TpsNetChannel *base, gint fd, GError **error)
{
  TlsChannel *channel = (TlsChannel *) base;
  TpsHandshake result = TPS_HANDSHAKE_FAILED;
  BIO *bio;

  TPS_LOCK_SCOPE (&channel->lock);
  if (SSL_get_rbio (channel->ssl) == NULL && (bio = socket_new_bio (&channel->socket, fd)) != NULL)
    SSL_set_bio (channel->ssl, bio, bio);
  if (SSL_get_rbio (channel->ssl) != NULL)
    result = run_handshake (channel, error);
  else
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "TLS: no memory");
  if (result == TPS_HANDSHAKE_DONE && !charge_connection (channel, error))
    result = TPS_HANDSHAKE_FAILED;
  if (result == TPS_HANDSHAKE_DONE)
    {
      base->has_unread = SSL_has_pending (channel->ssl) == 1;
      take_peer_name (channel);
      count_end (channel, channel->counts.done);
      if (BIO_get_ktls_send (SSL_get_wbio (channel->ssl)))
        tps_counter_add (channel->counts.kernel, 1);
    }
  else if (result == TPS_HANDSHAKE_FAILED)
    count_end (channel, channel->counts.failed);
  return result;
}

static const gchar *
get_failure (TpsNetChannel *base)
{
  TlsChannel *channel = (TlsChannel *) base;

  TPS_LOCK_SCOPE (&channel->lock);
  return channel->failure;
}

/* ---- creation and release ------------------------------------------------------------------- */

/* Announces the end of the connection, so that the peer does not mistake it for a failure. If the
 * kernel encrypts, no announcement is sent, because OpenSSL would use a function that may raise
 * SIGPIPE. */
static void
say_goodbye (TlsChannel *channel)
{
  if (channel->is_broken || !SSL_is_init_finished (channel->ssl)
      || BIO_get_ktls_send (SSL_get_wbio (channel->ssl)))
    return;
  ERR_clear_error ();
  SSL_shutdown (channel->ssl);
  ERR_clear_error ();
}

static void
free_channel (TpsNetChannel *base, gint fd)
{
  TlsChannel *channel = (TlsChannel *) base;

  if (fd >= 0)
    say_goodbye (channel);
  count_end (channel, channel->counts.failed);
  SSL_free (channel->ssl);
  tps_charge_clear (&channel->charge);
  tps_budget_unref (channel->budget);
  tps_mutex_clear (&channel->lock);
  g_free (channel->uri);
  g_free (channel->peer_name);
  g_free (channel);
}

static const gchar *
get_peer_name (TpsNetChannel *base)
{
  return ((const TlsChannel *) base)->peer_name;
}

static const TpsNetChannelOps ops = {
  .receive = receive,
  .send = send_pieces,
  .shake_hands = shake_hands,
  .get_failure = get_failure,
  .get_peer_name = get_peer_name,
  .free = free_channel,
};

static TlsChannel *
new_channel (TpsTls *tls, TpsBudget *budget, GError **error)
{
  TlsChannel *channel = g_new0 (TlsChannel, 1);

  channel->base.ops = &ops;
  channel->base.encrypts = TRUE;
  channel->budget = tps_budget_ref (budget);
  channel->charge.budget = budget;
  tps_mutex_init (&channel->lock);
  if (!tps_charge_set (&channel->charge, TPS_TLS_HANDSHAKE_BYTES, error))
    g_prefix_error (error, "TLS: ");
  else if ((channel->ssl = tps_tls_new_connection (tls)) != NULL)
    return channel;
  else
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "TLS: no memory");
  free_channel (&channel->base, -1);
  return NULL;
}

static gboolean
expect_host (SSL *ssl, const gchar *host)
{
  X509_VERIFY_PARAM *param = SSL_get0_param (ssl);

  if (g_hostname_is_ip_address (host))
    return X509_VERIFY_PARAM_set1_ip_asc (param, host) == 1;
  X509_VERIFY_PARAM_set_hostflags (param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
                                              | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return X509_VERIFY_PARAM_set1_host (param, host, 0) == 1
         && SSL_set_tlsext_host_name (ssl, host) == 1;
}

TpsNetChannel *
tps_tls_connect (TpsTls *tls, const gchar *peer, GError **error)
{
  TlsChannel *channel = new_channel (tls, NULL, error);

  if (channel == NULL)
    return NULL;
  SSL_set_verify (channel->ssl, SSL_VERIFY_PEER, NULL);
  SSL_set_connect_state (channel->ssl);
  if (strstr (peer, "://") != NULL)
    channel->uri = g_strdup (peer);
  else if (!expect_host (channel->ssl, peer))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "TLS: peer \"%s\": "
                   "expected a host name, an IP address or a URI",
                   peer);
      free_channel (&channel->base, -1);
      return NULL;
    }
  return &channel->base;
}

TpsNetChannel *
tps_tls_accept (TpsTls *tls, TpsWorkerPool *workers, TpsBudget *budget, const TpsTlsCounts *counts,
                GError **error)
{
  TlsChannel *channel = new_channel (tls, budget, error);

  if (channel == NULL)
    return NULL;
  channel->base.workers = workers;
  channel->counts = *counts;
  channel->is_current = TRUE;
  tps_gauge_add (counts->current, 1);
  if (tps_tls_has_authorities (tls))
    SSL_set_verify (channel->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  SSL_set_accept_state (channel->ssl);
  return &channel->base;
}
