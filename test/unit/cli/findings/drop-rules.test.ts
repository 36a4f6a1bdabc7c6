import { expect, test } from '@jest/globals';
import { findDropRules } from '../../../../cli/findings/drop-rules.ts';
import { lookOnce, restoreCaptures } from '../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';

/** The rules that are found on a host whose VIP 10.0.0.50:6443 is balanced over 10.77.0.11 to 13. */
async function findWith(...rules: readonly string[]): Promise<string[]> {
  const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
  kernel.run('ipv4', 'nft', `*mangle\n${rules.map((rule) => `-A ${rule}\n`).join('')}COMMIT\n`);
  return findDropRules(await lookOnce(kernel, ordinaryConfig)).map(({ place }) => place);
}

test.each([
  ['FORWARD', 'FORWARD -d 10.77.0.12/32 -p tcp -m tcp --dport 6443 -j DROP'],
  ['FORWARD', 'FORWARD -s 10.77.0.0/24 -p tcp -m tcp --sport 6443 -j DROP'],
  ['PREROUTING', 'PREROUTING -d 10.0.0.50/32 -j DROP'],
  ['POSTROUTING', 'POSTROUTING -p tcp -m multiport --dports 443,6443 -j DROP'],
])('what drops all connections in %s is found: %s', async (chain, rule) => {
  expect(await findWith(rule)).toEqual([`mangle ${chain} of iptables-nft`]);
});

test.each([
  'PREROUTING -s 192.0.2.0/24 -d 10.0.0.50/32 -j DROP',
  'PREROUTING -m conntrack --ctstate INVALID -j DROP',
  'FORWARD -d 10.0.0.50/32 -j DROP',
  'FORWARD -d 10.77.0.12/32 -p udp -j DROP',
  'FORWARD -d 10.77.0.12/32 -j MARK --set-xmark 0x1/0x1',
])('what drops others, or those of some clients, is none: %s', async (rule) => {
  expect(await findWith(rule)).toEqual([]);
});

test.each([
  [[], ['PREROUTING -i eth0 -j ACCEPT', 'PREROUTING -m set --match-set friends src -j RETURN']],
  [
    ['mangle PREROUTING of iptables-nft'],
    ['PREROUTING -p udp -j ACCEPT', 'PREROUTING -i eth0 -j MARK --set-xmark 0x1/0x1'],
  ],
])('behind what may let connections pass, a rule does not drop all: found %j', async (found, before) => {
  expect(await findWith(...before, 'PREROUTING -j DROP')).toEqual(found);
});
