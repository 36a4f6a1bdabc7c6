/** What has to be right in quiet, in every world: where connections go, what a fresh look finds, and what is left at the end. */
import { type CommandResult } from '../../network/namespaces.ts';
import type { RequestReport } from '../../network/seat-tasks.ts';

/** Where connections may go, and where some of many must. */
export interface Expectation {
  readonly allowed: readonly string[];
  readonly required: readonly string[];
}

/** A place from which a virtual IP is asked for. */
interface Asker {
  /** `outside client to 10.77.0.50`. */
  readonly name: string;
  readonly ask: (count: number) => Promise<RequestReport>;
  /** By the world's own truth, and not by asking vipnat; asked for once they were made. */
  readonly expect: () => Expectation | Promise<Expectation>;
}

/** How many connections are made at once, and at most: fewer are enough when everybody who is required has answered. */
interface Amount {
  readonly atOnce: number;
  readonly most: number;
}

/** From a place, connections to the VIP go where the truth says, and none fails; a complaint for each thing that is wrong. */
export async function judgeTraffic(
  { name, ask, expect }: Asker,
  { atOnce, most }: Amount,
): Promise<string[]> {
  const answers: Record<string, number> = {};
  for (let sent = atOnce; ; sent += atOnce) {
    const { apiservers, errors } = await ask(atOnce);
    for (const [server, count] of Object.entries(apiservers))
      answers[server] = (answers[server] ?? 0) + count;
    const expected = await expect();
    const isComplete = expected.required.every((server) => answers[server] !== undefined);
    const hasFailed = Object.keys(errors).length > 0;
    if (hasFailed || isComplete || sent >= most) {
      return compareAnswers({ apiservers: answers, errors }, expected, sent).map(
        (what) => `${name}: ${what}`,
      );
    }
  }
}

function compareAnswers(
  { apiservers, errors }: Pick<RequestReport, 'apiservers' | 'errors'>,
  { allowed, required }: Expectation,
  sent: number,
): string[] {
  const seen = Object.keys(apiservers);
  const wrong = seen.filter((server) => !allowed.includes(server));
  const missing = required.filter((server) => !seen.includes(server));
  return [
    ...Object.entries(errors).map(([error, count]) => `${count} of ${sent} connections failed: ${error}`),
    ...wrong.map((server) => `went to ${server}, which is not usable (usable: ${allowed.join(', ')})`),
    ...missing.map((server) => `none of ${sent} went to ${server}, which is usable`),
  ];
}

/** What `vipnat check` beside an agent says is wrong, if anything. */
export function judgeCheck(host: string, { exitCode, stdout, stderr }: CommandResult): string[] {
  return exitCode === 0 ? [] : [`${host}: check exits with ${exitCode}: ${stdout}${stderr}`];
}

/** What `vipnat cleanup` without an agent, and the agent before it, have left on a host. */
interface Remains {
  readonly cleanup: CommandResult;
  /** Lines of rules, see `listTraces`. */
  readonly traces: readonly string[];
  /** What is still in the run folder, and not just a file. */
  readonly sockets: string;
}

export function judgeRemains(host: string, { cleanup, traces, sockets }: Remains): string[] {
  const { exitCode, stderr } = cleanup;
  return [
    ...(exitCode === 0 ? [] : [`${host}: cleanup ended with ${exitCode}: ${stderr}`]),
    ...(traces.length === 0 ? [] : [`${host}: cleanup has left rules:\n${traces.join('\n')}`]),
    ...(sockets === '' ? [] : [`${host}: left in the run folder: ${sockets}`]),
  ];
}
