/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/answer_queue.h"

#include <functional>
#include <string>
#include <thread>
#include <gtest/gtest.h>

namespace {

/* A call whose reply frees it and then runs `done`. */
struct Call
{
  TpsAnswer answer;
  std::function<void ()> done;
};

void
answer_call (TpsAnswer *answer)
{
  Call *call = reinterpret_cast<Call *> (answer);
  std::function<void ()> done = std::move (call->done);

  delete call;
  done ();
}

void
add (TpsAnswers *answers, const std::function<void ()> &done)
{
  tps_answers_add (answers, &(new Call { {}, done })->answer, answer_call);
}

void
give_one (const std::function<void ()> &done)
{
  tps_answer_give (&(new Call { {}, done })->answer, answer_call);
}

TEST (AnswerQueue, GivesAnswersInOrderAndOnce)
{
  TpsAnswers answers = {};
  std::string log;

  for (char name : std::string ("abc"))
    add (&answers, [&log, name] { log += name; });
  EXPECT_EQ (log, "");
  tps_answers_give (&answers);
  EXPECT_EQ (log, "abc");
  tps_answers_give (&answers);
  EXPECT_EQ (log, "abc");
}

TEST (AnswerQueue, AnAnswerToACallbackWaitsUntilAllBeforeItAreGiven)
{
  TpsAnswers answers = {};
  std::string log;

  add (&answers, [&log] {
    log += "a(";
    give_one ([&log] { log += "x"; });
    log += ")";
  });
  add (&answers, [&log] { log += "b"; });
  tps_answers_give (&answers);
  EXPECT_EQ (log, "a()bx");
}

TEST (AnswerQueue, TheStackDoesNotGrowWithTheNumberOfRounds)
{
  constexpr int ROUNDS = 300000; /* more frames than a stack can hold */
  int n_done = 0;
  std::function<void ()> next = [&] {
    if (++n_done < ROUNDS)
      give_one (next);
  };

  give_one (next);
  EXPECT_EQ (n_done, ROUNDS);
}

TEST (AnswerQueue, ThreadsDoNotWaitForEachOther)
{
  bool is_answered = false;

  give_one ([&] {
    std::thread other ([&] { give_one ([&] { is_answered = true; }); });

    other.join ();
    EXPECT_TRUE (is_answered);
  });
}

} /* namespace */
