import { type Family, formatEndpoint } from '../../../lib/net.ts';
import { vips, listApiservers } from '../../support/network/layout.ts';
import { describe, test } from '@jest/globals';
import { useCluster } from '../../support/network/use-cluster.ts';
import { join } from 'node:path';
import { locateDisk } from '../../support/network/namespaces.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { existsSync, readFileSync } from 'node:fs';
import { startAgent } from '../../support/host/vipnat.ts';

interface Case {
  readonly vip: string;
  /** Where the program listens that is to answer. */
  readonly host: string;
  readonly closedSwitch: string;
}

const cases: readonly [Family, Case][] = [
  ['ipv4', { vip: `${vips.ipv4}:443`, host: '::', closedSwitch: 'net.ipv4.ip_forward' }],
  ['ipv6', { vip: `[${vips.ipv6}]:443`, host: vips.ipv6, closedSwitch: 'net.ipv6.conf.all.forwarding' }],
];

describe.each(cases)(
  'a master that may not forward, with a VIP at a port where its apiserver is not (%s)',
  (family, { vip, host, closedSwitch }) => {
    const cluster = useCluster('all tests');

    test('tells keepalived to go, until a program listens on that port', async () => {
      const machine = cluster.namespaceOf('m1');
      const file = join(locateDisk(machine), 'run/keepalived/serving');
      const waitForWord = (word: string) =>
        waitUntil(
          () => existsSync(file) && readFileSync(file, 'utf8') === word,
          () => `keepalived was not told ${word}`,
        );
      // A new address makes the agent look. One that came and went between two of its polls would be seen by neither.
      const triggerLook = (address: string) =>
        cluster.namespaces.shell(machine, `ip addr add ${address}/32 dev eth0`);
      await cluster.namespaces.shell(machine, `sysctl -qw ${closedSwitch}=0`);
      const endpoints = listApiservers(family).map(formatEndpoint).join(',');
      await startAgent(cluster, 'm1', ['--vip', vip, '--endpoints', endpoints, '--sysctls', 'check']);
      await waitForWord('1\n');
      const listen = `require('node:net').createServer().listen(443, '${host}', () => console.log('listens'))`;
      const program = cluster.namespaces.start(machine, [process.execPath, '-e', listen], process.env);
      await new Promise((resolve) => program.stdout?.once('data', resolve));
      await triggerLook('10.77.0.222');
      await waitForWord('0\n');
      program.kill();
      await new Promise((resolve) => program.once('exit', resolve));
      await triggerLook('10.77.0.223');
      await waitForWord('1\n');
    });
  },
);
