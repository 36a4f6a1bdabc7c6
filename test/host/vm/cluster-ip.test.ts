import { jest, beforeAll, test, expect } from '@jest/globals';
import { machineLimitMs, runInMachine } from './machine.ts';
import type { RequestReport } from '../../support/network/seat-tasks.ts';
import { fileURLToPath } from 'node:url';

jest.setTimeout(machineLimitMs);

export interface CommandReport {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface GuestReport {
  /** check, run --once and check again; cleanup at the end. */
  readonly before: CommandReport;
  readonly once: CommandReport;
  readonly inSync: CommandReport;
  readonly cleanup: CommandReport;
  /** `plan --json` once in sync. */
  readonly plan: { readonly vips: readonly { readonly mode: string; readonly clusterIp: string }[] };
  /** Requests with three real servers, with two, and with the virtual server gone. */
  readonly balanced: RequestReport;
  readonly withoutOne: RequestReport;
  readonly withoutServer: RequestReport;
  readonly log: string;
  /** Mentions of vipnat in the rules after cleanup. */
  readonly left: number;
}

let report: GuestReport;

beforeAll(async () => {
  report = (await runInMachine(fileURLToPath(new URL('ipvs-guest.ts', import.meta.url)))) as GuestReport;
});

test("with kube-proxy in ipvs mode, the VIP is balanced through the ClusterIP's virtual server", () => {
  expect(report.before).toMatchObject({ status: 2, stderr: '' });
  expect(report.once).toMatchObject({ status: 0 });
  expect(report.inSync).toMatchObject({ status: 0, stderr: '' });
  expect(report.plan.vips).toMatchObject([{ mode: 'cluster-ip', clusterIp: '10.96.0.1' }]);
  expect(report.balanced.errors).toEqual({});
  expect(Object.keys(report.balanced.apiservers).sort()).toEqual(['m1', 'm2', 'm3']);
});

test('when kube-proxy takes a real server out, the VIP follows at once: IPVS decides', () => {
  expect(report.withoutOne.errors).toEqual({});
  expect(Object.keys(report.withoutOne.apiservers).sort()).toEqual(['m1', 'm3']);
});

test('when the virtual server goes, the agent sends connections straight to the apiservers it last had', () => {
  expect(report.log).toContain('cluster-ip -> direct to 10.77.0.11:6443, 10.77.0.13:6443');
  expect(report.withoutServer.errors).toEqual({});
  expect(Object.keys(report.withoutServer.apiservers).sort()).toEqual(['m1', 'm3']);
});

test('cleanup leaves nothing behind', () => {
  expect(report.cleanup).toMatchObject({ status: 0 });
  expect(report.left).toBe(0);
});
