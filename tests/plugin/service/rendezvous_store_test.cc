// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/service/rendezvous_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace {

// The reply to a pending get.
struct Answer
{
  int n_calls = 0;
  std::string value;
  int code = 0;
  std::string message;
  static void
  OnDone (gpointer data, GBytes *value, const GError *error)
  {
    auto *answer = static_cast<Answer *> (data);
    gsize n_bytes = 0;
    answer->n_calls++;
    if (value != nullptr)
      {
        const auto *bytes = static_cast<const char *> (g_bytes_get_data (value, &n_bytes));
        answer->value.assign (bytes, n_bytes);
      }
    else
      {
        answer->code = error->code;
        answer->message = error->message;
      }
  }
};

class RendezvousStoreTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    store_ = tps_rendezvous_store_new (nullptr);
  }
  void
  TearDown () override
  {
    tps_rendezvous_store_shut_down (store_);
    tps_rendezvous_store_free (store_);
  }

  // Returns the code of the error; 0 = success.
  int
  Put (const std::string &key, const std::string &value)
  {
    g_autoptr (GBytes) bytes = g_bytes_new (value.data (), value.size ());
    g_autoptr (GError) error = nullptr;
    tps_rendezvous_store_put (store_, key.c_str (), bytes, &error);
    return error != nullptr ? error->code : 0;
  }
  std::string
  Peek (const std::string &key)
  {
    g_autoptr (GError) error = nullptr;
    g_autoptr (GBytes) value = tps_rendezvous_store_peek (store_, key.c_str (), &error);
    gsize n_bytes;
    if (value == nullptr)
      return "error " + std::to_string (error->code);
    const auto *bytes = static_cast<const char *> (g_bytes_get_data (value, &n_bytes));
    return std::string (bytes, n_bytes);
  }
  void
  Get (const char *key, gint64 deadline_ns, Answer *answer, const void *owner = nullptr)
  {
    TpsRendezvousWait wait = { owner, deadline_ns, Answer::OnDone, answer };
    tps_rendezvous_store_get (store_, key, &wait);
  }
  Answer &
  NewAnswer ()
  {
    answers_.emplace_back ();
    return answers_.back ();
  }
  // Returns the sum, or the negated code of the error.
  gint64
  Add (const char *key, gint64 amount, const char *client = nullptr, gint64 sequence = 0)
  {
    TpsRendezvousPush push = { client, sequence };
    g_autoptr (GError) error = nullptr;
    gint64 sum = 0;
    return tps_rendezvous_store_add (store_, key, amount, &push, &sum, &error) ? sum : -error->code;
  }

  TpsRendezvousStore *store_ = nullptr;
  std::deque<Answer> answers_; // must outlive pending calls
};

// A store with budgets.
class ChargedRendezvousStoreTest : public RendezvousStoreTest
{
protected:
  void
  SetUp () override
  {
    budgets_.rendezvous_windows = tps_budget_new (nullptr, "windows", 1 << 20);
    budgets_.rendezvous = tps_budget_new (nullptr, "rendezvous", 10000);
    store_ = tps_rendezvous_store_new (&budgets_);
  }
  void
  TearDown () override
  {
    RendezvousStoreTest::TearDown ();
    EXPECT_EQ (tps_budget_get_held (budgets_.rendezvous_windows), 0u);
    EXPECT_EQ (tps_budget_get_held (budgets_.rendezvous), 0u);
    tps_budget_unref (budgets_.rendezvous_windows);
    tps_budget_unref (budgets_.rendezvous);
  }

  TpsBudgets budgets_ = {};
};

TEST_F (ChargedRendezvousStoreTest, KeysAndValuesAreCharged)
{
  EXPECT_EQ (Put ("a", std::string (5000, 'x')), 0);
  EXPECT_GT (tps_budget_get_held (budgets_.rendezvous), 5000u);
  EXPECT_EQ (Put ("b", std::string (5000, 'x')), 107);
  EXPECT_EQ (Peek ("b"), "error 102");
  EXPECT_TRUE (tps_rendezvous_store_remove (store_, "a", nullptr));
  EXPECT_EQ (tps_budget_get_held (budgets_.rendezvous), 0u);
  EXPECT_EQ (Put ("b", std::string (5000, 'x')), 0);
}

/* A removed value stays in memory, and charged, until the last reply that holds it has been
 * read. */
TEST_F (ChargedRendezvousStoreTest, AValueIsChargedUntilItsLastReaderHasReleasedIt)
{
  EXPECT_EQ (Put ("a", std::string (5000, 'x')), 0);
  GBytes *value = tps_rendezvous_store_peek (store_, "a", nullptr);
  EXPECT_TRUE (tps_rendezvous_store_remove (store_, "a", nullptr));
  EXPECT_EQ (Put ("b", std::string (5000, 'x')), 107);
  g_bytes_unref (value);
  EXPECT_EQ (Put ("b", std::string (5000, 'x')), 0);
}

TEST_F (ChargedRendezvousStoreTest, WaitersAreCharged)
{
  int n = 0;

  while (NewAnswer ().n_calls == 0 && n < 100)
    {
      Get (("a" + std::to_string (n)).c_str (), 1000, &answers_.back ());
      n++;
      if (answers_.back ().n_calls > 0)
        break;
    }
  EXPECT_EQ (answers_.back ().code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_LT (n, 10);
  tps_rendezvous_store_expire (store_, 1000);
  EXPECT_EQ (tps_budget_get_held (budgets_.rendezvous), 0u);
}

/* Each push uses a new client name. */
TEST_F (ChargedRendezvousStoreTest, PushIdsAreCharged)
{
  int n = 0;

  while (n < 20000 && Add ("a", 1, ("client" + std::to_string (n)).c_str (), 1) > 0)
    n++;
  EXPECT_LT (n, 20000);
  EXPECT_LE (tps_budget_get_peak (budgets_.rendezvous_windows), gsize { 1 } << 20);
}

TEST_F (RendezvousStoreTest, HoldsNoMoreThanItsLimits)
{
  EXPECT_EQ (Put ("large", std::string (TPS_RENDEZVOUS_MAX_VALUE_BYTES, 'x')), 0);
  EXPECT_EQ (Put ("large", std::string (TPS_RENDEZVOUS_MAX_VALUE_BYTES + 1, 'x')),
             TPS_ERROR_RESOURCE_EXHAUSTED);
  for (guint i = 1; i < TPS_RENDEZVOUS_MAX_KEYS; i++)
    ASSERT_EQ (Put ("k" + std::to_string (i), "x"), 0);
  EXPECT_EQ (Put ("one-more", "x"), TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (Put ("k1", "y"), 0);
  EXPECT_TRUE (tps_rendezvous_store_remove (store_, "k1", nullptr));
  EXPECT_EQ (Put ("one-more", "x"), 0);
}

TEST_F (RendezvousStoreTest, HoldsNoMoreThanItsBytes)
{
  std::string mebibyte (TPS_RENDEZVOUS_MAX_VALUE_BYTES, 'x');
  int n_fit = 0;
  while (Put ("k" + std::to_string (n_fit), mebibyte) == 0)
    n_fit++;
  EXPECT_EQ (n_fit, 255);
  EXPECT_TRUE (tps_rendezvous_store_remove (store_, "k0", nullptr));
  EXPECT_EQ (Put ("again", mebibyte), 0);
}

TEST_F (RendezvousStoreTest, AnOwnerThatGoesWaitsNoMore)
{
  int one = 0, two = 0;
  Answer &of_one = NewAnswer ();
  Answer &again_of_one = NewAnswer ();
  Answer &of_two = NewAnswer ();
  Answer &of_nobody = NewAnswer ();
  Get ("a", 100, &of_one, &one);
  Get ("b", 50, &again_of_one, &one);
  Get ("a", 70, &of_two, &two);
  Get ("a", 100, &of_nobody);
  tps_rendezvous_store_drop_owner (store_, &one);
  EXPECT_EQ (of_one.code, TPS_ERROR_CONNECTION_LOST);
  EXPECT_EQ (again_of_one.code, TPS_ERROR_CONNECTION_LOST);
  EXPECT_EQ (tps_rendezvous_store_get_next_deadline_ns (store_), 70);
  tps_rendezvous_store_drop_owner (store_, &one);
  Put ("a", "x");
  Put ("b", "y");
  EXPECT_EQ (of_two.value, "x");
  EXPECT_EQ (of_nobody.value, "x");
  EXPECT_EQ (of_one.n_calls, 1);
}

TEST_F (RendezvousStoreTest, NumbersOfWaitersAreLimited)
{
  std::vector<int> owners (TPS_RENDEZVOUS_MAX_WAITERS / TPS_RENDEZVOUS_MAX_OWNER_WAITERS);
  for (int &owner : owners)
    {
      for (int i = 0; i < TPS_RENDEZVOUS_MAX_OWNER_WAITERS; i++)
        Get (("k" + std::to_string (i)).c_str (), 100 + i, &NewAnswer (), &owner);
      Answer &one_more = NewAnswer ();
      Get ("k", 100, &one_more, &owner);
      EXPECT_EQ (one_more.code, TPS_ERROR_RESOURCE_EXHAUSTED);
    }
  Answer &of_all = NewAnswer ();
  Get ("k", 100, &of_all);
  EXPECT_EQ (of_all.code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_THAT (of_all.message, testing::HasSubstr ("16384"));
  tps_rendezvous_store_drop_owner (store_, &owners[3]);
  Answer &fits = NewAnswer ();
  Get ("k", 100, &fits, &owners[3]);
  EXPECT_EQ (fits.n_calls, 0);
  // One put wakes one pending get of each remaining owner.
  Put ("k7", "x");
  size_t n_woken = 0;
  for (const Answer &answer : answers_)
    n_woken += answer.value == "x";
  EXPECT_EQ (n_woken, owners.size () - 1);
}

TEST_F (RendezvousStoreTest, ShutDownEndsPendingCallsAndRefusesLaterOnes)
{
  Answer &waiting = NewAnswer ();
  Answer &later = NewAnswer ();
  Put ("a", "x");
  Get ("b", 100, &waiting);
  tps_rendezvous_store_shut_down (store_);
  EXPECT_EQ (waiting.code, TPS_ERROR_UNAVAILABLE);
  Get ("a", 100, &later);
  EXPECT_EQ (later.code, TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (Put ("a", "y"), TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (Add ("n", 1), -TPS_ERROR_UNAVAILABLE);
}

TEST_F (RendezvousStoreTest, ManyThreadsLoseNothing)
{
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 100; i++)
    {
      answers.push_back (std::make_unique<Answer> ());
      Get (("w" + std::to_string (i)).c_str (), G_MAXINT64 - 1, answers.back ().get ());
    }
  for (int t = 0; t < 4; t++)
    threads.emplace_back ([this, t] {
      for (int i = 0; i < 1000; i++)
        {
          Add ("sum", 1, t == 0 ? "zero" : t == 1 ? "one" : nullptr, i);
          if (i % 40 == t)
            Put ("w" + std::to_string (i / 40 * 4 + t), "x");
        }
    });
  for (auto &thread : threads)
    thread.join ();
  EXPECT_EQ (Peek ("sum"), "4000");
  for (auto &answer : answers)
    EXPECT_EQ (answer->value, "x");
}

} // namespace
