import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { test, afterAll, expect } from '@jest/globals';
import { apiserverPort, clusterIps, masters } from '../../support/network/layout.ts';
import type { RequestReport } from '../../support/network/seat-tasks.ts';
import { formatTable } from './table.ts';
import { nameLab } from '../../support/lab/test-lab.ts';

/** One place from which one address is asked for. */
interface Case {
  /** As numbered in the proposal, which has four of number 4; `+` for ours. */
  readonly number: string;
  readonly place: string;
  readonly target: 'VIP' | 'ClusterIP';
}

/** The proposal's seven test cases, with each master a case of its own, and pods on masters. */
const cases: readonly Case[] = [
  { number: '1', place: 'client', target: 'VIP' },
  ...['m1', 'm2', 'm3'].map((place) => ({ number: '2', place, target: 'VIP' }) as const),
  { number: '3', place: 'worker', target: 'VIP' },
  ...['m1', 'm2', 'm3'].map((place) => ({ number: '4', place, target: 'ClusterIP' }) as const),
  { number: '4', place: 'worker', target: 'ClusterIP' },
  { number: '4', place: 'pod-worker', target: 'VIP' },
  { number: '4', place: 'pod-worker', target: 'ClusterIP' },
  { number: '+', place: 'pod-m1', target: 'VIP' },
  { number: '+', place: 'pod-m2', target: 'VIP' },
];

const requestCount = 10;

/** Of ten random choices one apiserver is left out once in 20 times; of a hundred never. */
const maxRequestCount = 100;

/** Tests for every case in a lab, or those with one of these targets; the table is printed after the last one. */
export function testSevenCases(
  lab: () => Lab,
  targets: readonly Case['target'][] = ['VIP', 'ClusterIP'],
): void {
  let table: SevenCases | undefined;
  test.each(cases.filter(({ target }) => targets.includes(target)))(
    '$number: $place reaches every apiserver at the $target',
    async (entry) => {
      table ??= new SevenCases(lab());
      await table.run(entry);
    },
  );
  afterAll(() => {
    process.stderr.write(table?.format() ?? '');
  });
}

/** Only the answers count, and a virtual machine on a busy host takes its time. */
const requestLimitMs = 30_000;

/** What came of the cases in one lab, a row each. */
class SevenCases {
  readonly #lab: Lab;
  readonly #rows: (string | number)[][] = [];

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  /** Sends a case's requests: every one is answered, and every apiserver is reached. */
  async run({ number, place, target }: Case): Promise<void> {
    const { vip, options } = this.#lab;
    const seat = this.#lab.seat(place);
    const [host, port] = target === 'VIP' ? [vip, apiserverPort] : [clusterIps[options.family], 443];
    let sent = 0;
    const answers: Record<string, number> = {};
    const errors: RequestReport['errors'] = {};
    do {
      const report = await seat.request(host, port, requestCount, requestLimitMs);
      sent += requestCount;
      add(answers, report.apiservers);
      add(errors, report.errors);
    } while (Object.keys(answers).length < masters.length && sent < maxRequestCount);
    const counts = masters.map(({ name }) => answers[name] ?? 0);
    const failed = Object.values(errors).reduce((sum, count) => sum + count, 0);
    this.#rows.push([number, place, target, sent, ...counts, failed]);
    expect(errors).toEqual({});
    expect(Object.keys(answers).sort()).toEqual(masters.map(({ name }) => name));
  }

  format(): string {
    const head = ['#', 'from', 'to', 'sent', ...masters.map(({ name }) => name), 'failed'];
    return formatTable(`Who answered · ${nameLab(this.#lab)}`, [head, ...this.#rows]);
  }
}

function add(sums: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [key, count] of Object.entries(counts)) sums[key] = (sums[key] ?? 0) + count;
}
