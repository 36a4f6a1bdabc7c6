import { get } from 'node:http';
import { scheduleRunningLimit, systemClock } from '../control/clock.ts';

/** The answer of a program on this host. */
export interface LoopbackAnswer {
  readonly status: number;
  readonly body: string;
}

/** How long and how much an answer may be. */
export interface AnswerLimits {
  readonly limitMs: number;
  readonly maxLength: number;
}

/** Asks by HTTP; null when nobody answers in time, or with more. Never rejects. */
export function askLoopback(
  url: string,
  { limitMs, maxLength }: AnswerLimits,
): Promise<LoopbackAnswer | null> {
  return new Promise((resolve) => {
    const giveUp = () => {
      resolve(null);
    };
    const question = get(url, { agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
        if (body.length > maxLength) question.destroy();
      });
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, body });
      });
      response.on('error', giveUp).on('close', giveUp);
    });
    const cancelLimit = scheduleRunningLimit(systemClock, limitMs, () => question.destroy());
    question.on('error', giveUp).on('close', cancelLimit);
  });
}
