import { test, expect } from '@jest/globals';
import { readCaptures } from '../engine/captures.ts';
import { attempt, testTarget } from '../engine/run.ts';
import { mutateText } from '../engine/mutate.ts';
import { parseIpvs } from '../../../../lib/kube-proxy/ipvs.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { insist, listAddresses } from '../engine/properties.ts';
import { findKubernetesServer } from '../../../../agent/observe/kube-proxy.ts';
import { withoutConnectionCounts } from '../../../../lib/kernel/watch.ts';
import { makeServers, printServers } from '../generate/ipvs.ts';
import { isDeepStrictEqual } from 'node:util';
import { parseCapture } from '../../../../lib/keepalived/read.ts';
import { parseAddress } from '../../../../lib/net.ts';
import { parseListeners } from '../../../../lib/kernel/host.ts';

const ipvs = readCaptures(/^proc-net-ip_vs/);
const captures = readCaptures(/^tcpdump-vrrp/);
const family = 'ipv4';

testTarget('/proc/net/ip_vs, with faults: a value or a coded error, and no real server that is not in it', {
  name: '/proc/net/ip_vs, mutated',
  cases: 60_000,
  make: (random) => mutateText(random, ipvs),
  check: (text) => {
    const servers = attempt(() => parseIpvs(text));
    if (servers instanceof VipnatError) return;
    const { server, reason } = findKubernetesServer(servers, { family, localAddresses: ['10.77.0.11'] });
    insist((server === null) === (reason !== null), 'a server or a reason');
    for (const { address, port } of server?.value.backends ?? []) {
      const hex = address.split('.').map((part) => Number(part).toString(16).padStart(2, '0'));
      const inFile = `${hex.join('')}:${port.toString(16).padStart(4, '0')}`.toUpperCase();
      insist(text.includes(inFile), `the text does not hold ${inFile}`);
    }
    const kept = attempt(() => parseIpvs(withoutConnectionCounts(text)));
    insist(kept instanceof VipnatError || kept.length === servers.length, 'counts change no server');
  },
});

testTarget('virtual servers of any kind are read as the kernel prints them', {
  name: '/proc/net/ip_vs, generated',
  cases: 20_000,
  make: makeServers,
  check: (servers) => {
    insist(isDeepStrictEqual(parseIpvs(printServers(servers)), servers), 'read otherwise than printed');
  },
});

testTarget('what tcpdump prints of VRRP, with faults: adverts whose addresses are addresses', {
  name: 'tcpdump',
  cases: 50_000,
  make: (random) => mutateText(random, captures),
  check: (text) => {
    for (const { source, family: of, vrid, priority, addresses } of parseCapture(text)) {
      insist(
        [vrid, priority].every((byte) => Number.isInteger(byte) && byte >= 0 && byte < 256),
        'bytes',
      );
      for (const one of [source, ...addresses]) {
        const address = parseAddress(one);
        insist(address?.family === of && address.text === one, `no address: ${JSON.stringify(one)}`);
      }
    }
  },
});

const tcp = [
  `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2818 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0
   1: 0B004D0A:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12346 1 0000000000000000 100 0 0 10 0
`,
  `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:192B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0000000000000000 100 0 0 10 0
   1: 000000FD000000000000000050000000:192B 00000000000000000000000000000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 98 1 0000000000000000 100 0 0 10 0
`,
];

testTarget('/proc/net/tcp and tcp6, with faults: listeners with addresses and ports', {
  name: '/proc/net/tcp',
  cases: 60_000,
  make: (random) => mutateText(random, tcp),
  check: (text) => {
    for (const { address, family: of, port, inode } of parseListeners(text)) {
      insist(parseAddress(address)?.family === of, `no address: ${address}`);
      insist(Number.isInteger(port) && port >= 0 && port < 65_536 && /^\d+$/.test(inode), 'port and inode');
    }
  },
});

test('the check itself finds addresses whatever is around them', () => {
  const text = '-j DNAT --to-destination [fd00:77::11]:6443\n"10.0.0.1:443"\nsrc=::1 (10.0.0.2. FD00:0::5';
  expect([...listAddresses(text)].sort()).toEqual(['10.0.0.1', '10.0.0.2', '::1', 'fd00:77::11', 'fd00::5']);
});
