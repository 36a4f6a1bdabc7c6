import { test, expect } from '@jest/globals';
import { TemporaryFolder } from '../../../support/network/at-end.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { readReport } from '../../../../tools/lab/kubernetes-specs/run-specs.ts';

const spec = (text: string, state: string, message?: string, type = 'It') => ({
  ContainerHierarchyTexts:
    type === 'It' ? ['[sig-network] LoadBalancers [Feature:LoadBalancer] [Slow]'] : null,
  LeafNodeText: text,
  LeafNodeType: type,
  State: state,
  RunTime: 2_500_000_000,
  ...(message === undefined ? {} : { Failure: { Message: message } }),
});

test('a report of Ginkgo says what came of each spec that was chosen', () => {
  const folder = new TemporaryFolder('specs');
  const path = join(folder.path, 'report.json');
  const specs = [
    spec('should work [Slow]', 'passed'),
    spec('should wait', 'timedout', 'A suite timeout occurred'),
    spec('should be many', 'skipped', 'Test requires >= 2 Ready nodes'),
    spec('was not chosen', 'skipped'),
    spec('', 'passed', undefined, 'SynchronizedBeforeSuite'),
    spec('', 'failed', 'no nodes', 'SynchronizedAfterSuite'),
  ];
  writeFileSync(path, JSON.stringify([{ SpecReports: specs }]));
  expect(readReport(path, 'no log')).toEqual([
    { name: 'LoadBalancers should work', outcome: 'passed', seconds: 2.5, why: '' },
    { name: 'LoadBalancers should wait', outcome: 'failed', seconds: 2.5, why: 'A suite timeout occurred' },
    {
      ...{ name: 'LoadBalancers should be many', outcome: 'skipped', seconds: 2.5 },
      why: 'Test requires >= 2 Ready nodes',
    },
    { name: 'SynchronizedAfterSuite', outcome: 'failed', seconds: 2.5, why: 'no nodes' },
  ]);
  folder.remove();
});

test('without a report the end of what the program printed says why', () => {
  const folder = new TemporaryFolder('specs');
  const log = join(folder.path, 'log');
  writeFileSync(log, 'unknown flag');
  expect(() => readReport(join(folder.path, 'none'), log)).toThrow('specs wrote no report:\nunknown flag');
  folder.remove();
});
