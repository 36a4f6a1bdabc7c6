import { once } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { waitUntil } from '../../support/host/vipnat.ts';
import { makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { type ApiChange, giveVips, overPods, podPort, serviceVips, useServices } from './service-world.ts';

const { ipv4: vip4, ipv6: vip6 } = serviceVips;

/** A port of a program of the node, and one that a Service gets late. */
const [hostPort, latePort] = [10_250, 5140];
const leftAnnotations = { 'vipnat.io/dataplane': 'kube-proxy' };

const connectCommand = (host: string) => `${process.execPath} -e '
  require("node:net").connect(${hostPort}, "${host}")
    .once("connect", function () { console.log("connected"); this.destroy(); })
    .once("error", ({ code }) => console.log(code));'`;

/** A Service at a UDP port of the addresses, over all pods. */
function make(name: string, port: number, annotations = {}): ApiChange[] {
  const udp = { name: 'u', protocol: 'UDP' };
  return [
    ['Service', makeLoadBalancer(name, [{ ...udp, port }], { annotations })],
    ...overPods(name, [{ ...udp, port: podPort }]),
  ];
}

describe('the addresses of Services', () => {
  const world = useServices('all tests', async () => {
    await world.put(...make('web', 80), ...giveVips('web'));
    await world.startBalancer(/default\/web is balanced/);
  });

  const { cluster } = world;

  /** `connected`, or the code of the failure. */
  const connect = async (machine: string, host: string) =>
    (await world.shell(machine, connectCommand(host))).trim();

  test('refuse ports that no Service names, from outside; those of one that is left to kube-proxy pass', async () => {
    const listen = `require("node:net").createServer((socket) => socket.destroy())
        .listen(${hostPort}, "::", () => console.log("ready"))`;
    const { stdout } = cluster.start('m1', [process.execPath, '-e', listen]);
    if (stdout !== null) await once(stdout, 'data');
    for (const host of [vip4, vip6]) {
      expect(await connect('client', host)).toBe('ECONNREFUSED');
      expect(await world.askByUdp('client', host, hostPort, 1)).toEqual(['refused']);
      expect(await connect('m1', host)).toBe('connected');
    }
    for (const host of ['10.77.0.11', 'fd77::11']) expect(await connect('client', host)).toBe('connected');
    await world.put(
      ['Service', makeLoadBalancer('left', [{ port: hostPort }], { annotations: leftAnnotations })],
      ['VirtualIP', makeVirtualIp(vip4, ['web', 'left'])],
    );
    await waitUntil(
      async () => (await connect('client', vip4)) === 'connected',
      'kube-proxy does not get the connections to its Service',
    );
    expect(await connect('client', vip6)).toBe('ECONNREFUSED');
  });

  test('take UDP clients over that sent to their port before it was served', async () => {
    const ask = `const socket = require("node:dgram").createSocket("udp4");
        socket.on("message", (answer) => console.log(String(answer))).on("error", () => 0).bind(40001);
        setInterval(() => socket.send("x", ${latePort}, "${vip4}"), 100);`;
    const asking = cluster.start('client', [process.execPath, '-e', ask]);
    const answer = once(asking.stdout ?? process.stdin, 'data');
    const virtualIp = ['VirtualIP', makeVirtualIp(vip4, ['web', 'left', 'late'])] as const;
    await world.put(...make('late', latePort, leftAnnotations), virtualIp);
    await waitUntil(
      async () => (await world.shell('m1', 'conntrack -L -p udp')).includes(`dport=${latePort} `),
      'no packet of the client comes',
    );
    await world.put(...make('late', latePort));
    expect(String((await answer)[0])).toMatch(/^pod-/);
    asking.kill();
  });
});
