/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/answer_queue.h"

/* The answers that this thread must give. */
static _Thread_local struct
{
  gboolean is_active; /* in tps_answers_give(); nested calls only append their answers */
  TpsAnswers waiting;
} delivery;

void
tps_answers_add (TpsAnswers *answers, TpsAnswer *answer, TpsGiveAnswer give)
{
  answer->next = NULL;
  answer->give = give;
  if (answers->first == NULL)
    answers->first = answer;
  else
    answers->last->next = answer;
  answers->last = answer;
}

void
tps_answers_give (TpsAnswers *answers)
{
  if (answers->first == NULL)
    return;
  if (delivery.waiting.first == NULL)
    delivery.waiting.first = answers->first;
  else
    delivery.waiting.last->next = answers->first;
  delivery.waiting.last = answers->last;
  *answers = (TpsAnswers) { NULL, NULL };
  if (delivery.is_active)
    return;
  delivery.is_active = TRUE;
  while (delivery.waiting.first != NULL)
    {
      TpsAnswer *answer = delivery.waiting.first;

      delivery.waiting.first = answer->next; /* the answer may be freed when it is given */
      answer->give (answer);
    }
  delivery.is_active = FALSE;
}

void
tps_answer_give (TpsAnswer *answer, TpsGiveAnswer give)
{
  TpsAnswers answers = { NULL, NULL };

  tps_answers_add (&answers, answer, give);
  tps_answers_give (&answers);
}
