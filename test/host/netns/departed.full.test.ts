import { describe, beforeEach, afterEach, expect, test } from '@jest/globals';
import { families, formatEndpoint } from '../../../lib/net.ts';
import { vips, listApiservers } from '../../support/network/layout.ts';
import type { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import { type Agent, startAgent, waitForSync, limitMs } from '../../support/host/vipnat.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies } from './traffic.ts';
import { toolName } from '../../../lib/kernel/port.ts';

/** None of so many are on one of three apiservers once in ten million times. */
const connections = 40;

describe.each(families)('when the host of an apiserver dies that has left the list (%s)', (family) => {
  const vipArguments = ['--vip', family === 'ipv6' ? `[${vips.ipv6}]:6443` : vips.ipv4];
  const [one, two, three] = listApiservers(family);
  if (one === undefined || two === undefined || three === undefined) throw new Error('there are three');
  const gone = formatEndpoint(three);
  let proxy: KubeProxyStandIn;
  let agent: Agent;

  const start = () => startAgent(cluster, 'm1', vipArguments);
  /** Once somebody says a line that has this in it. */
  const said = (text: string) => agent.waitForLine(new RegExp(text.replace(/[[\].]/g, String.raw`\$&`)));
  const powerOff = () => cluster.shell('switch', 'ip link set m3 down');

  const cluster = useCluster('all tests', async () => {
    const [started] = await startProxies(cluster, ['m1'], 'nft', [family]);
    if (started !== undefined) proxy = started;
  });

  beforeEach(async () => {
    agent = await start();
    await waitForSync(cluster, 'm1', vipArguments);
  });

  afterEach(async () => {
    await agent.stop();
    await cluster.shell('switch', 'ip link set m3 up');
    await cluster.shell('m3', `${toolName(family, 'nft')} -F INPUT`);
    await cluster.apiserver('m3').kill();
    await cluster.apiserver('m3').start();
    await proxy.sync();
  });

  /** Holds connections to all of them while something happens; nobody but those on m3 may have noticed. */
  async function expectReset(happen: () => Promise<void>): Promise<void> {
    const seat = cluster.seat('pod on a worker');
    const { report } = await seat.hold({ host: vips[family], port: 6443 }, connections, limitMs);
    await happen();
    await said(`:6443 to ${gone}`);
    seat.settle();
    const { errors } = await report;
    expect(Object.keys(errors)).toEqual(['ECONNRESET']);
    expect(errors['ECONNRESET']).toBeLessThan(connections);
  }

  /** kube-proxy drops it. */
  const drop = () => proxy.sync([one, two]);

  /** The same, and the agent follows. */
  async function dropAndFollow(): Promise<void> {
    await drop();
    await agent.waitForLine(/ direct -> service-chain: .* to the same 2 apiservers/);
  }

  test('its connections are reset: it had frozen before, and was draining', () =>
    expectReset(async () => {
      cluster.apiserver('m3').freeze();
      await said(`${gone} is draining: `);
      await dropAndFollow();
      await powerOff();
    }));

  test('its connections are reset: it had been terminated, and was closing them within its drain', () =>
    expectReset(async () => {
      // It listens no more, and serves what is open.
      const tool = toolName(family, 'nft');
      await cluster.shell(
        'm3',
        `${tool} -I INPUT -p tcp --dport 6443 --syn -j REJECT --reject-with tcp-reset`,
      );
      await said(`${gone} is dead: connection refused`);
      await dropAndFollow();
      await powerOff();
    }));

  test('its connections are reset by an agent that never heard of it', () =>
    expectReset(async () => {
      await drop();
      await agent.stop('SIGKILL');
      agent = await start();
      await said(`${gone} is no longer listed, but has `);
      await powerOff();
    }));
});
