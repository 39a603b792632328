/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Answers of a server, given in order by one thread.
 *
 * The callback of an answered caller may make a new call to this server or a different one, and the
 * new call may be answered at once. The new answer is then given after the callback has returned,
 * and after all answers that are already pending. The depth of the stack thus does not grow with
 * the number of nested calls.
 *
 *   TpsAnswers answers = { NULL };
 *   tps_answers_add (&answers, &call->answer, answer_call);
 *   …                                    every lock is released
 *   tps_answers_give (&answers);
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsAnswer TpsAnswer;

/* Answers a call, once, and may free it. */
typedef void (*TpsGiveAnswer) (TpsAnswer *answer);

/* The answer of one call; a member of the structure that describes the call. */
struct TpsAnswer
{
  TpsAnswer *next;
  TpsGiveAnswer give;
};

/* A list of answers. All zero means that the list is empty. */
typedef struct
{
  TpsAnswer *first;
  TpsAnswer *last;
} TpsAnswers;

/* Appends `answer`, which is borrowed until `give` is called with it. */
void tps_answers_add (TpsAnswers *answers, TpsAnswer *answer, TpsGiveAnswer give);

/* Gives all answers and empties `answers`. If a function further up on this stack is already giving
 * answers, that function gives these answers, too. No lock may be held. Thread: any. */
void tps_answers_give (TpsAnswers *answers);

/* As tps_answers_give(), for a single answer. */
void tps_answer_give (TpsAnswer *answer, TpsGiveAnswer give);

G_END_DECLS
