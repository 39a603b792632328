/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Answers of a server, given in order by one thread, after every lock is released.
 *
 * A callback may make a call that is answered at once. This answer is given after the callback has
 * returned and after the pending answers, so nested calls do not deepen the stack. */

#pragma once

#include <glib.h>

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
