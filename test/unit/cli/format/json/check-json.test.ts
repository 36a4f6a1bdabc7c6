import { expect, test } from '@jest/globals';
import { formatCheckJson } from '../../../../../cli/format/json/check-json.ts';
import { applyPlan } from '../../../../../agent/reconcile/look.ts';
import { lookOnce, restoreCaptures } from '../../../../support/agent/captured-host.ts';
import { noServices } from '../../../../support/doctor/well-host.ts';
import { ordinaryConfig } from '../../../../support/agent/running-agent.ts';

/** Without Services. */
const services = { host: noServices.host, drift: [], commands: null, unread: [] };
const capture = 'iptables-nft-save.three-endpoints.txt';

/** Scripts read this: what is renamed here breaks them. */
test('check as JSON names every difference, and what it means for people', async () => {
  const kernel = restoreCaptures([capture]);
  await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
  const hook = /^-A (PREROUTING .*-j VIPNAT)$/m.exec(kernel.show('ipv4', 'nft'))?.[1] ?? '';
  kernel.run('ipv4', 'nft', `*nat\n-D ${hook}\nCOMMIT\n`);
  const assessment = await lookOnce(kernel, ordinaryConfig);
  expect(
    JSON.parse(formatCheckJson(assessment, { drops: [], unread: [], services }, 'master-1')),
  ).toMatchObject({
    version: 1,
    node: 'master-1',
    inSync: false,
    vips: [{ vip: '10.0.0.50:6443' }],
    drift: [
      {
        family: 'ipv4',
        backend: 'nft',
        table: 'nat',
        chain: 'PREROUTING',
        kind: 'missing-hook',
        message: 'PREROUTING has no jump to VIPNAT',
        consequence: "clients on other hosts reach only the VIP holder's apiserver",
      },
    ],
    foreignDrops: [],
    balancer: null,
  });
});

test('in sync there is no difference, and drops of others are named all the same', async () => {
  const kernel = restoreCaptures([capture]);
  await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
  const drop = { table: 'inet firewall', name: 'forward' };
  const unread = [{ code: 'TOOL_FAILED', text: 'vipnat cannot read nat of ip6tables-nft' }] as const;
  const besides = { drops: [drop], unread, services };
  const text = formatCheckJson(await lookOnce(kernel, ordinaryConfig), besides, 'master-1');
  expect(JSON.parse(text)).toMatchObject({
    inSync: true,
    drift: [],
    foreignDrops: [{ table: 'inet firewall', chain: 'forward' }],
    unread,
  });
  expect(text.endsWith('}\n')).toBe(true);
});
