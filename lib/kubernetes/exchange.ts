import { NonsenseError } from './errors.ts';
import { type ApiCall, callApi } from './request.ts';

/** A whole answer. */
export interface ApiReply {
  readonly status: number;
  readonly text: string;
}

/**
 * One question with its whole answer, if that has one of the accepted statuses and no more characters than it may.
 * @throws VipnatError as `callApi`
 */
export async function exchange(call: ApiCall, maxLength: number): Promise<ApiReply> {
  let status = 0;
  let text = '';
  return await callApi(call, {
    onBegin: (statusCode) => (status = statusCode),
    onText: (part) => {
      text += part;
      if (text.length > maxLength) throw new NonsenseError('the answer is too long');
    },
    onEnd: () => ({ status, text }),
  });
}
