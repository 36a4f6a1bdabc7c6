import { test, expect } from '@jest/globals';
import {
  isMounted,
  parseListeners,
  isReachedBy,
  readListeningAddresses,
  listUnits,
} from '../../../../lib/kernel/host.ts';
import { parseAddress } from '../../../../lib/net.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { readModules } from '../../../../lib/kernel/forwarding.ts';
import { createServer, type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { spawnSync } from 'node:child_process';

test.each([
  ['/etc/kubernetes/admin.conf', ['/', '/etc/kubernetes'], true],
  ['/etc/kubernetes/admin.conf', ['/', '/etc/kubernetes/admin.conf'], true],
  ['/etc/kubernetes/admin.conf', ['/', '/etc/kube', '/etc/kubernetes/pki'], false],
  ['/etc/kubernetes/admin.conf', ['/'], false],
  ['/run/vipnat/keepalived/serving', ['/', '/run'], true],
])('that %s is below one of %j is %s', (path, mounts, expected) => {
  expect(isMounted(path, new Set(mounts))).toBe(expected);
});

test('listening sockets of /proc/net/tcp and tcp6 are read, and no others', () => {
  const ipv4 = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000000000000000 100 0 0 10 0
   1: 32004D0A:20FB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4243 1 0000000000000000 100 0 0 10 0
   2: 0100007F:9C40 0100007F:192B 01 00000000:00000000 00:00000000 00000000     0        0 4244 1 0000000000000000 20 4 30 10 -1
`;
  const ipv6 = `   0: 000077FD000000000000000050000000:192B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0000000000000000 100 0 0 10 0
`;
  expect(parseListeners(ipv4)).toEqual([
    { family: 'ipv4', address: '0.0.0.0', port: 6443, inode: '4242' },
    { family: 'ipv4', address: '10.77.0.50', port: 8443, inode: '4243' },
  ]);
  expect(parseListeners(ipv6)).toEqual([{ family: 'ipv6', address: 'fd77::50', port: 6443, inode: '77' }]);
});

test('an address of another length is none', () => {
  const line =
    '   0: 4294967296:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0 100 0 0 10 0\n';
  expect(parseListeners(line)).toEqual([]);
});

test.each([
  ['10.77.0.50:443', '0.0.0.0', 443, true],
  ['10.77.0.50:443', '::', 443, true],
  ['10.77.0.50:443', '10.77.0.50', 443, true],
  ['10.77.0.50:443', '::ffff:10.77.0.50', 443, true],
  ['10.77.0.50:443', '10.77.0.11', 443, false],
  ['10.77.0.50:443', '0.0.0.0', 6443, false],
  ['[fd77::50]:443', '::', 443, true],
  ['[fd77::50]:443', 'fd77::50', 443, true],
  ['[fd77::50]:443', '0.0.0.0', 443, false],
  ['[fd77::50]:443', 'fd77::11', 443, false],
])('connections to %s get to a socket at %s port %i: %p', (endpoint, host, port, isReached) => {
  const address = parseAddress(host)?.text ?? '';
  expect(isReachedBy(toEndpoint(endpoint), { address, port })).toBe(isReached);
});

test('what listens on this machine is read, and no longer when it has closed', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const listener = (await readListeningAddresses())?.find((one) => one.port === port);
  expect(listener).toMatchObject({ address: '127.0.0.1' });
  await new Promise((resolve) => server.close(resolve));
  // Another program may have the port by now, and a socket of its own.
  expect(await readListeningAddresses()).not.toContainEqual(listener);
});

const child = fileURLToPath(new URL('stdout-reader-child.ts', import.meta.url));

/** Runs a line of bash in which `watch` waits for its reader to go, for so many milliseconds; answers PIPESTATUS. */
function run(line: string, path = process.env['PATH']) {
  const watch = `watch() { ${process.execPath} --disable-warning=ExperimentalWarning ${child} "$@"; }`;
  const { stdout, stderr } = spawnSync(
    'bash',
    ['--norc', '-c', `${watch}; ${line}; echo "\${PIPESTATUS[@]}"`],
    { encoding: 'utf8', env: { ...process.env, PATH: path }, timeout: 120_000 },
  );
  return { statuses: stdout.trim().split('\n').at(-1), stderr };
}

test.each([
  ['is noticed when it goes, long before the next write', 'watch 60000 gone | head -1', '3 0'],
  ['is there as long as it reads', 'watch 300 gone | cat', '0 0'],
  ['is not asked for where output goes to a file', 'watch 300 gone > /dev/null', '0'],
  ['is not asked for where no tail is there', 'PATH=/none watch 300 gone | { read -r line; }', '0 0'],
])('the reader of standard output %s', (_, line, statuses) => {
  expect(run(line)).toEqual({ statuses, stderr: '' });
});

test('a service that nobody installed has no unit', async () => {
  expect([...(await listUnits(['vipnat-is-not-called-so']))]).toEqual([]);
});

test('a module that no kernel has is never here', async () => {
  const states = await readModules(['no_such_module']);
  expect(['absent', 'unknown']).toContain(states.get('no_such_module'));
});
