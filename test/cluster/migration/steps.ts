import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { afterAll, expect } from '@jest/globals';
import { formatTable } from '../control-plane/table.ts';
import { nameLab } from '../../support/lab/test-lab.ts';
import { recordHello } from '../../support/network/hello.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { firstHolder } from './guide-keepalived.ts';
import type { ConnectReport } from '../../support/network/seat-tasks.ts';
import { haproxyStatusUrl } from '../../../tools/lab/components/haproxy.ts';

const perSecond = 500;

/** The clients run steadily before a step, and see for so long what it leads to. */
const leadMs = 500;
const restMs = 2000;

/**
 * Two cores have all of the control plane and its clients, and maybe other work: what is late is counted as slow. What
 * goes astray is never answered.
 */
const limitMs = 10_000;

/** A step that takes longer than that has failed anyway. */
const longestMs = 60_000;

interface Cost {
  readonly sent: number;
  readonly errors: Readonly<Record<string, number>>;
  /** How many of the connections that succeeded went through the holder's HAProxy; null when it does not run. */
  readonly proxied: number | null;
}

/** Steps of a migration under steady load, a row for each; printed after the last test. */
export class StepTable {
  readonly #lab: () => Lab;
  readonly #rows: (string | number)[][] = [
    [
      ...['step', 'clients at', 'new connections', 'failed', 'took over 1 s'],
      ...['through HAProxy', 'open watches that ended'],
    ],
  ];

  constructor(lab: () => Lab) {
    this.#lab = lab;
    afterAll(() => {
      process.stderr.write(formatTable(`Away from HAProxy · ${nameLab(lab())}`, this.#rows));
    });
  }

  /**
   * Takes a step while clients make new connections to the VIP. A connection is good when an apiserver has answered:
   * HAProxy accepts connections itself. Fails when the VIP has another holder at the end.
   */
  async take(what: string, port: number, step: () => Promise<void>): Promise<Cost> {
    const lab = this.#lab();
    const seat = lab.seat('client', 'load');
    const before = await countSessions(lab);
    const report = seat.connectAtRate({
      ...{ host: lab.vip, port, perSecond, limitMs, durationMs: longestMs, hello: await recordHello() },
    });
    await sleep(leadMs);
    await step();
    await sleep(restMs);
    seat.settle();
    const { sent, failures, slowAtMs } = await report;
    const after = await countSessions(lab);
    const proxied = before === null || after === null ? null : after - before;
    this.#rows.push([what, `:${port}`, sent, failures.length, slowAtMs.length, proxied ?? '']);
    expect(await lab.listHolders()).toEqual([firstHolder]);
    return { sent, errors: countErrors(failures), proxied };
  }

  /** Adds to the last step how many of the watches that were open ended by it. */
  addWatches(ended: number, open: number): void {
    this.#rows.at(-1)?.push(`${ended} of ${open}`);
  }
}

function countErrors(failures: ConnectReport['failures']): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { error } of failures) counts[error] = (counts[error] ?? 0) + 1;
  return counts;
}

/** How many connections the holder's HAProxy has taken for the apiservers; null when it does not run. */
async function countSessions(lab: Lab): Promise<number | null> {
  const { stdout } = await lab.machine(firstHolder).run(['curl', '--silent', haproxyStatusUrl]);
  const [head = '', ...lines] = stdout.split('\n');
  const column = head.split(',').indexOf('stot');
  const line = lines.find((each) => each.startsWith('apiserver,FRONTEND,'));
  return line === undefined ? null : Number(line.split(',')[column]);
}
