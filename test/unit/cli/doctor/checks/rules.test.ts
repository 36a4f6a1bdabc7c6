import { localRouteChecks } from '../../../../../cli/doctor/checks/rules.ts';
import { test, expect } from '@jest/globals';
import { planSourceRoutes } from '../../../../../agent/local-clients.ts';
import { ordinaryConfig } from '../../../../support/agent/running-agent.ts';
import { assessWell, makeFacts } from '../../../../support/doctor/well-host.ts';

const check = localRouteChecks['vip-route-left-over'];
const left = { address: '10.0.0.99', device: 'eth0', source: '10.0.0.11', isOwn: true };
const localRoutes = { addresses: [], routes: [left], usualSource: null };

test('a local route that outlived its VIP is a warning, with the command that removes it', async () => {
  const sourceRoutes = planSourceRoutes(localRoutes, ordinaryConfig);
  const assessment = { value: { ...(await assessWell()), localRoutes, sourceRoutes } };
  expect(check?.find(await makeFacts({ assessment }))).toMatchObject({
    findings: [
      {
        level: 'warn',
        title: expect.stringContaining('to 10.0.0.99 from 10.0.0.11'),
        remedy: ['ip route del local 10.0.0.99 dev eth0 table local proto 118 scope host src 10.0.0.11'],
      },
    ],
  });
});

test('what an agent has yet to add is no finding, and routes that cannot be read are not checked', async () => {
  const assessment = { ...(await assessWell()), localRoutes: null };
  expect(check?.find(await makeFacts({ assessment: { value: assessment } }))).toEqual({
    unknown: 'the routes of table local cannot be read',
  });
  expect(check?.find(await makeFacts())).toMatchObject({ findings: [] });
});
