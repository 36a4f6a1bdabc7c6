/** What an agent takes to probe apiservers, by how many there are and how often it connects to each. */
import type { Namespaces } from '../../../test/support/network/namespaces.ts';
import { TemporaryFolder } from '../../../test/support/network/at-end.ts';
import { createCertificates } from '../../lab/certificates/certificates.ts';
import { tcpServerCommand } from '../../../test/support/network/pod-servers.ts';
import { apiserverPort } from '../../../test/support/network/layout.ts';
import { once } from 'node:events';
import { measureAgent } from './rest.ts';

const masterCounts = [3, 5, 9];
const intervalsMs = [250, 100];

/**
 * Measures all cases at the same time, each on a host of its own whose apiservers are on the other end of a cable. They answer `/readyz` by TLS, as one small program.
 * Answers a table.
 */
export async function measureProbing(namespaces: Namespaces, minutes: number): Promise<string> {
  const folder = new TemporaryFolder('probing');
  try {
    const certificates = await createCertificates(folder.path);
    const pair = certificates.serving('m1');
    const cases = masterCounts.flatMap((masters) =>
      intervalsMs.map((intervalMs) => ({ masters, intervalMs })),
    );
    const rows = await Promise.all(
      cases.map(async (one) => {
        const { secondsPerMinute } = await measureCase(namespaces, { ...one, minutes, pair });
        return `| ${one.masters} | ${one.intervalMs} ms | ${(secondsPerMinute / 0.6).toFixed(2)} % |`;
      }),
    );
    return ['| apiservers | a connect to each | processor |', '| -: | -: | -: |', ...rows].join('\n');
  } finally {
    folder.remove();
  }
}

interface Case {
  readonly masters: number;
  readonly intervalMs: number;
  readonly minutes: number;
  readonly pair: { readonly certificate: string; readonly key: string };
}

async function measureCase(namespaces: Namespaces, { masters, intervalMs, minutes, pair }: Case) {
  const name = `${masters}-${intervalMs}`;
  const [host, peers] = [
    await namespaces.create(`agent-${name}`),
    await namespaces.create(`apiservers-${name}`),
  ];
  const addresses = Array.from({ length: masters }, (_, at) => `10.0.0.${11 + at}`);
  await namespaces.shell(
    host,
    `ip link add eth0 type veth peer name eth0 netns ${peers}
     ip addr add 10.0.0.2/24 dev eth0
     ip link set lo up
     ip link set eth0 up`,
  );
  const added = addresses.map((address) => `ip addr add ${address}/24 dev eth0`);
  await namespaces.shell(peers, ['ip link set lo up', 'ip link set eth0 up', ...added].join('\n'));
  const server = namespaces.start(peers, tcpServerCommand(name, apiserverPort, pair));
  if (server.stdout !== null) await once(server.stdout, 'data');
  const endpoints = addresses.map((address) => `${address}:${apiserverPort}`).join(',');
  const words = ['--vip', '10.0.0.50', '--endpoints', endpoints, '--probe-interval', `${intervalMs}ms`];
  return await measureAgent({ namespaces, namespace: host, minutes }, words);
}
