/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests many concurrent calls from several threads, with replies in any order. After a large number
 * of calls, no state must remain. */

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/base/buffer.h"
#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

/* Returns the argument of a call. The peer derives its reply from it. */
static gint64
argument_of (const ReceivedCall &call)
{
  gint64 value = 0;

  for (unsigned char byte : call.inside.substr (3, 8))
    value = value * 256 + byte;
  return value;
}

class ClientCallsInFlight : public ClientTest
{
protected:
  ClientCallsInFlight ()
  {
    options_.max_in_flight = 4096;
    connect_to (listener_.address ());
  }

  Listener listener_;
};

TEST_F (ClientCallsInFlight, AThousandCallsAnsweredInRandomOrder)
{
  constexpr int N_CALLS = 1000;
  std::unique_ptr<Outcome[]> outcomes (new Outcome[N_CALLS]);
  std::vector<ReceivedCall> calls;

  for (int i = 0; i < N_CALLS; i++)
    call (&outcomes[i], i, later ());
  Connection connection = listener_.accept ();
  for (int i = 0; i < N_CALLS; i++)
    calls.push_back (connection.read_call ());
  std::shuffle (calls.begin (), calls.end (), std::mt19937 (1));
  for (const ReceivedCall &received : calls)
    connection.send (reply_i64 ("square", received.seqid, argument_of (received) + 1));
  for (int i = 0; i < N_CALLS; i++)
    {
      outcomes[i].wait ();
      ASSERT_EQ (outcomes[i].value (), i + 1) << outcomes[i].text ();
    }
}

TEST_F (ClientCallsInFlight, ThreadsShareOneConnection)
{
  constexpr int N_THREADS = 4, N_EACH = 200;
  std::vector<std::thread> threads;
  std::atomic<int> n_right { 0 };

  for (int t = 0; t < N_THREADS; t++)
    threads.emplace_back ([this, t, &n_right] {
      for (int i = 0; i < N_EACH; i++)
        {
          Outcome outcome;

          call (&outcome, t * N_EACH + i, later ());
          outcome.wait ();
          n_right += outcome.value () == t * N_EACH + i + 1;
        }
    });
  Connection connection = listener_.accept ();
  for (int i = 0; i < N_THREADS * N_EACH; i++)
    {
      ReceivedCall received = connection.read_call ();
      connection.send (reply_i64 ("square", received.seqid, argument_of (received) + 1));
    }
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (n_right, N_THREADS * N_EACH);
}

/* Mixes deadlines, replies and lost connections in a random order. Each call must end exactly
 * once. */
TEST_F (ClientCallsInFlight, EveryCallEndsOnceWithRandomDeadlinesRepliesAndLosses)
{
  constexpr int N_CALLS = 2000, N_AT_ONCE = 100;
  std::unique_ptr<Outcome[]> outcomes (new Outcome[N_CALLS]);
  std::map<int, int> n_ended; /* by error code */
  std::string large (1 << 16, 'x');
  std::atomic<bool> stop { false };
  std::thread peer ([this, &stop] {
    std::mt19937 dice (2);

    while (!stop)
      try
        {
          Connection connection = listener_.accept ();

          while (dice () % 97 != 0)
            {
              ReceivedCall received = connection.read_call ();

              if (dice () % 4 != 0)
                connection.send (reply_i64 (received.name, received.seqid, 1));
            }
        }
      catch (const std::exception &)
        {
        }
  });

  for (int i = 0; i < N_CALLS; i++)
    {
      gint64 deadline_ns = now_ns () + (i % 7 == 0 ? i * 1000 : 30000000);

      if (i >= N_AT_ONCE)
        outcomes[i - N_AT_ONCE].wait ();
      if (i % 5 == 0)
        push (&outcomes[i], &large, deadline_ns);
      else
        call (&outcomes[i], i, deadline_ns);
    }
  for (int i = 0; i < N_CALLS; i++)
    {
      outcomes[i].wait ();
      ASSERT_EQ (outcomes[i].n_done (), 1);
      n_ended[outcomes[i].code ()]++;
    }
  EXPECT_GT (n_ended[0], 0);
  EXPECT_GT (n_ended[TPS_ERROR_DEADLINE_EXCEEDED], 0);
  EXPECT_GT (n_ended[TPS_ERROR_CONNECTION_LOST], 0);
  EXPECT_EQ (n_ended[TPS_ERROR_RESOURCE_EXHAUSTED], 0);
  stop = true;
  Outcome last;
  call (&last, 1, in_ms (200)); /* wakes the peer's accept() or read() */
  last.wait ();
  g_clear_pointer (&client_, tps_client_free);
  peer.join ();
}

TEST_F (ClientCallsInFlight, NothingIsLeftOverAfterAHundredThousandCalls)
{
  constexpr int N_CALLS = 100000, N_AT_ONCE = 500;
  gsize n_bytes_before = tps_buffer_pool_get_n_bytes_out (tps_buffer_pool_get_default ());
  std::string body (5000, 'x'); /* large enough for its own buffer */
  std::thread peer ([this, &body] {
    Connection connection = listener_.accept ();

    for (int i = 0; i < N_CALLS; i += 100)
      {
        std::string answers;

        for (int j = 0; j < 100; j++)
          {
            ReceivedCall received = connection.read_call ();

            answers += j == 50 ? reply ("square", received.seqid, field (11, 0, binary (body)))
                               : reply_i64 ("square", received.seqid, 1);
          }
        connection.send (answers);
      }
  });

  for (int i = 0; i < N_CALLS; i += N_AT_ONCE)
    {
      std::unique_ptr<Outcome[]> outcomes (new Outcome[N_AT_ONCE]);

      for (int j = 0; j < N_AT_ONCE; j++)
        call (&outcomes[j], i + j, later ());
      for (int j = 0; j < N_AT_ONCE; j++)
        {
          outcomes[j].wait ();
          ASSERT_EQ (outcomes[j].code (), 0) << outcomes[j].text ();
        }
    }
  peer.join ();
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (tps_buffer_pool_get_default ()), n_bytes_before);
}

}
