import { jest, describe } from '@jest/globals';
import { deathAndReturn } from '../../support/lab/faults.ts';
import { useLab } from './with-lab.ts';
import { testSevenCases } from './seven-cases.ts';
import { testFaults } from './fault-table.ts';
import { testWithApi } from './api-followers.ts';
import { testNodeEvents } from './node-events.ts';

jest.setTimeout(400_000);

/** An apiserver's death and return: nobody hears of its lease here, so less is to be seen than elsewhere. */
const shortDeath = deathAndReturn.map((fault) => ({ ...fault, durationMs: 8000 }));

describe('a cluster without kube-proxy', () => {
  const lab = useLab({ proxyMode: 'none' });

  testSevenCases(lab, ['VIP']);

  testFaults(lab, shortDeath);

  describe('and agents that follow the API', () => {
    testWithApi(lab);
    testNodeEvents(lab);
  });
});
