import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { webPort } from '../../lab/services/web.ts';
import { outsider } from '../../../test/support/network/layout.ts';

/** One request after the other, each given up after 200 ms; prints when each answer was there, in seconds since 1970. */
const script = `while [ "$SECONDS" -lt "$1" ]; do
  curl --silent --output /dev/null --max-time 0.2 "$2" && echo "$EPOCHREALTIME"
done
true`;

/** Longer than two requests that were given up, as those to pods of a lost node are. */
const shortestMs = 500;

/** Asks an address from outside for some seconds. Answers when it did, in milliseconds since 1970. */
export async function watchAnswers(lab: NodeLab, address: string, seconds: number): Promise<number[]> {
  const command = ['bash', '-c', script, 'bash', String(seconds), `http://${address}:${webPort}/`];
  const limitMs = (seconds + 30) * 1000;
  const { stdout } = await lab.machine(outsider.name).run(command, { limitMs });
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => Number(line.replace(',', '.')) * 1000);
}

/** The first time without an answer that is longer than single requests explain, in milliseconds; null when there is none. Pure. */
export function findSilence(answeredAtMs: readonly number[]): number | null {
  const gaps = answeredAtMs.slice(1).map((at, index) => at - (answeredAtMs[index] ?? at));
  return gaps.find((gap) => gap > shortestMs) ?? null;
}
