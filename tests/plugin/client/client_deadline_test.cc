/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests deadlines. They never expire early, their error is typed, and `done` runs only when nothing
 * refers to the borrowed arguments any more. */

#include <sys/mman.h>
#include <sys/socket.h>

#include <vector>

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

constexpr size_t LARGE = 24 << 20; /* more than the sockets can buffer */
constexpr gint64 SOON_MS = 200;    /* long enough not to expire between two lines of a test */

/* Memory that becomes inaccessible when its call ends, because any later access is an error. */
class Borrowed
{
public:
  Borrowed ()
      : data_ (mmap (nullptr, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
  {
  }
  ~Borrowed ()
  {
    munmap (data_, LARGE);
  }

  static void
  write (TpsWriter *out, gconstpointer self)
  {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_binary_borrowed (out, static_cast<const Borrowed *> (self)->data_, LARGE);
  }

  static void
  done (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
  {
    Borrowed *self = static_cast<Borrowed *> (user_data);

    mprotect (self->data_, LARGE, PROT_NONE);
    Outcome::done (&self->outcome, result, type, error);
  }

  Outcome outcome;

private:
  void *data_;
};

class ClientDeadline : public ClientTest
{
protected:
  ClientDeadline ()
  {
    connect_to (listener_.address ());
  }

  /* Returns a connection with one answered call. Later calls are therefore sent at once. */
  Connection
  connected ()
  {
    Outcome first;

    call (&first, 1, later ());
    Connection connection = listener_.accept ();
    connection.send (reply_i64 ("square", connection.read_call ().seqid, 1));
    first.wait ();
    return connection;
  }

  void
  push (Borrowed *borrowed, gint64 deadline_ns)
  {
    tps_client_call (client_, "Calculator", "push", Borrowed::write, borrowed, deadline_ns,
                     Borrowed::done, borrowed);
  }

  Listener listener_;
};

TEST_F (ClientDeadline, ExpiresWithItsErrorCodeAndNotEarly)
{
  Connection connection = connected ();
  gint64 deadline_ns = in_ms (SOON_MS);
  Outcome outcome;

  call (&outcome, 7, deadline_ns);
  connection.read_call ();
  outcome.wait ();
  EXPECT_EQ (outcome.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_GE (outcome.done_ns (), deadline_ns);
  EXPECT_NE (outcome.text ().find ("Calculator:square"), std::string::npos) << outcome.text ();
  EXPECT_NE (outcome.text ().find (listener_.address ()), std::string::npos) << outcome.text ();
}

TEST_F (ClientDeadline, EarlierDeadlineOfALaterCallComesFirst)
{
  Outcome patient, hasty;

  call (&patient, 1, later ());
  Connection connection = listener_.accept ();
  ReceivedCall first = connection.read_call ();
  call (&hasty, 2, in_ms (20));
  hasty.wait ();
  EXPECT_EQ (hasty.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_FALSE (patient.is_done ());
  connection.send (reply_i64 ("square", first.seqid, 1));
  patient.wait ();
  EXPECT_EQ (patient.value (), 1);
}

TEST_F (ClientDeadline, LateAnswerIsDroppedAndTheConnectionGoesOn)
{
  Connection connection = connected ();
  Outcome late, next;

  call (&late, 7, in_ms (SOON_MS));
  ReceivedCall received = connection.read_call ();
  late.wait ();
  connection.send (
      reply ("square", received.seqid, field (11, 0, binary (std::string (100000, 'x')))));
  connection.send (reply_i64 ("square", received.seqid, 49)); /* a repeated reply is also ignored */
  call (&next, 3, later ());
  connection.send (reply_i64 ("square", connection.read_call ().seqid, 9));
  next.wait ();
  EXPECT_EQ (next.value (), 9) << next.text ();
  EXPECT_EQ (late.n_done (), 1);
}

TEST_F (ClientDeadline, PastDeadlineSendsNothing)
{
  Outcome past, next;

  call (&past, 7, now_ns () - 1);
  past.wait ();
  EXPECT_EQ (past.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  call (&next, 3, later ());
  Connection connection = listener_.accept ();
  ReceivedCall received = connection.read_call ();
  EXPECT_EQ (received.inside, field (10, 1, be64 (3)));
  connection.send (reply_i64 ("square", received.seqid, 9));
  next.wait ();
}

TEST_F (ClientDeadline, PeerThatDoesNotReadLosesTheConnection)
{
  Outcome bystander, next;
  Borrowed borrowed;

  call (&bystander, 1, later ());
  Connection connection = listener_.accept ();
  connection.read_call ();
  push (&borrowed, in_ms (SOON_MS));
  borrowed.outcome.wait ();
  EXPECT_EQ (borrowed.outcome.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  bystander.wait ();
  EXPECT_EQ (bystander.code (), TPS_ERROR_CONNECTION_LOST);
  EXPECT_NE (bystander.text ().find ("does not read"), std::string::npos) << bystander.text ();
  EXPECT_LT (connection.drain (), LARGE);

  call (&next, 3, later ());
  Connection fresh = listener_.accept ();
  fresh.send (reply_i64 ("square", fresh.read_call ().seqid, 9));
  next.wait ();
  EXPECT_EQ (next.value (), 9) << next.text ();
}

TEST_F (ClientDeadline, CallsQueuedBehindABlockedOneEndByTheirOwnDeadlines)
{
  Borrowed large, queued;
  Connection connection = connected ();

  push (&large, later ());
  push (&queued, in_ms (SOON_MS));
  queued.outcome.wait ();
  EXPECT_EQ (queued.outcome.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  large.outcome.wait ();
  EXPECT_EQ (large.outcome.code (), TPS_ERROR_CONNECTION_LOST);
}

TEST_F (ClientDeadline, AnswerThatComesBeforeTheArgumentsWereReadWaitsForThem)
{
  Borrowed borrowed;
  Connection connection = connected ();

  push (&borrowed, later ());
  connection.send (reply_i64 ("push", 2, 5));
  EXPECT_EQ (connection.read_call ().name, "Calculator:push");
  borrowed.outcome.wait ();
  EXPECT_EQ (borrowed.outcome.value (), 5) << borrowed.outcome.text ();
}

TEST_F (ClientDeadline, AnswerWithoutReadingEndsTheConnectionAtTheDeadline)
{
  Borrowed borrowed;
  Connection connection = connected ();
  gint64 deadline_ns = in_ms (2000); /* the reply must arrive earlier, even on a busy machine */

  push (&borrowed, deadline_ns);
  connection.send (reply_i64 ("push", 2, 5));
  borrowed.outcome.wait ();
  EXPECT_EQ (borrowed.outcome.value (), 5) << borrowed.outcome.text ();
  EXPECT_GE (borrowed.outcome.done_ns (), deadline_ns);
  EXPECT_LT (connection.drain (), LARGE);
}

TEST_F (ClientDeadline, DelayEndsNotBeforeItsTime)
{
  gint64 until_ns = in_ms (20);
  TpsClientDelayed func = [] (gpointer user_data, const GError *error) {
    Outcome::done (user_data, nullptr, TPS_WIRE_STOP, error);
  };
  Outcome outcome;

  tps_client_delay (client_, until_ns, func, &outcome);
  outcome.wait ();
  EXPECT_EQ (outcome.code (), 0);
  EXPECT_GE (outcome.done_ns (), until_ns);
}

TEST_F (ClientDeadline, DelayIsAbortedByCancel)
{
  TpsClientDelayed func = [] (gpointer user_data, const GError *error) {
    Outcome::done (user_data, nullptr, TPS_WIRE_STOP, error);
  };
  Outcome outcome;

  tps_client_delay (client_, later (), func, &outcome);
  tps_client_cancel (client_);
  outcome.wait ();
  EXPECT_EQ (outcome.code (), TPS_ERROR_ABORTED);
}

/* A client that never gets a connection: the listener does not accept, and its backlog is full. */
class ClientConnecting : public ClientTest
{
protected:
  ClientConnecting () : listener_ (0, 0)
  {
    for (int i = 0; i < 2; i++)
      {
        TpsClientOptions options = {};
        std::string address = listener_.address ();

        options.address = address.c_str ();
        fillers_.push_back (tps_client_new (&options, nullptr));
        tps_client_call (fillers_.back (), "Calculator", "fill", nullptr, nullptr, later (),
                         Outcome::done, &filled_[i]);
      }
  }

  ~ClientConnecting () override
  {
    for (TpsClient *filler : fillers_)
      tps_client_free (filler);
  }

  Listener listener_;
  Outcome filled_[2];
  std::vector<TpsClient *> fillers_;
};

TEST_F (ClientConnecting, CallNotYetSentEndsByItsDeadlineUnsent)
{
  Borrowed borrowed;

  options_.connect_timeout_ns = 20000 * (gint64) 1000000;
  connect_to (listener_.address ());
  tps_client_call (client_, "Calculator", "push", Borrowed::write, &borrowed, in_ms (40),
                   Borrowed::done, &borrowed);
  borrowed.outcome.wait ();
  EXPECT_EQ (borrowed.outcome.code (), TPS_ERROR_DEADLINE_EXCEEDED);
}

TEST_F (ClientConnecting, FreeDoesNotWaitForTheConnection)
{
  Outcome outcome;

  options_.connect_timeout_ns = 20000 * (gint64) 1000000;
  connect_to (listener_.address ());
  call (&outcome, 1, later ());
  g_clear_pointer (&client_, tps_client_free);
  EXPECT_EQ (outcome.n_done (), 1);
  EXPECT_EQ (outcome.code (), TPS_ERROR_ABORTED);
}

}
