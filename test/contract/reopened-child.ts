/**
 * Has the kernel forget connections to a pod while their clients open them again, from the same ports and to another pod: after the
 * kernel has listed a connection, and before it is deleted. Prints where the connections go afterwards. In a network namespace of its own.
 */
import { execFileSync } from 'node:child_process';
import { forgetFlows } from '../../lib/kernel/conntrack.ts';
import { withNetlinkClient } from '../../lib/kernel/netlink.ts';

const ports = Array.from({ length: 20 }, (_, at) => String(20_000 + at));

/** On one processor: there, a new entry often gets the memory of the last one that went, and so its id. */
const track = (...words: string[]) =>
  execFileSync('taskset', ['--cpu-list', '0', 'conntrack', ...words], { stdio: 'pipe' }).toString();

const open = (port: string, pod: string) =>
  track(
    ...['-I', '-p', 'tcp', '--timeout', '600', '--state', 'ESTABLISHED', '--status', 'SEEN_REPLY,ASSURED'],
    ...['--orig-src', '10.0.0.99', '--orig-port-src', port],
    ...['--orig-dst', '10.0.9.10', '--orig-port-dst', '80'],
    ...['--reply-src', pod, '--reply-port-src', '8080', '--reply-dst', '10.0.0.99', '--reply-port-dst', port],
  );

for (const port of ports) open(port, '10.244.1.2');
const vip = { family: 'ipv4', address: '10.0.9.10', port: 80 } as const;
let listed = 0;
await withNetlinkClient('netfilter', (client) =>
  forgetFlows(client, vip, ({ backend }) => {
    listed += 1;
    if (listed !== ports.length) return backend.address === '10.244.1.2';
    for (const port of ports) {
      track('-D', '-p', 'tcp', '--orig-port-src', port);
      open(port, '10.244.2.2');
    }
    return true;
  }),
);
const entries = track('-L', '-p', 'tcp');
process.stdout.write(`${entries.split('src=10.244.2.2').length - 1} of ${listed}`);
