import { beforeAll, expect, test } from '@jest/globals';
import type { CommandResult } from '../../support/network/namespaces.ts';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';

type Outcomes = Record<'printed' | 'written' | 'again' | 'unwritten' | 'foreign', CommandResult>;

let found: Outcomes;
beforeAll(async () => {
  found = (await runInNetworkNamespace(new URL('keepalived-child.ts', import.meta.url))) as Outcomes;
});

test('vipnat keepalived finds the interface behind a labelled address, and says how it filled in the rest', () => {
  const { exitCode, stdout, stderr } = found.printed;
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(
    /^# keepalived.conf by vipnat keepalived\nglobal_defs \{\n[^]* {2}interface eth0\n[^]*\}\n$/,
  );
  expect(stderr).toBe(
    '10.0.0.50 on eth0: virtual_router_id 51, priority 250, unicast from 10.0.0.11 to 10.0.0.12, 10.0.0.13\n' +
      'keepalived needs the folder /run/vipnat/keepalived when it starts: mkdir -p /run/vipnat/keepalived\n',
  );
});

test('it writes the same to a file, and over its own file, and never over one that holds the virtual IPs of others', () => {
  const { stdout: text } = found.printed;
  expect(found.written).toMatchObject({ exitCode: 0, stdout: '', text });
  expect(found.again).toMatchObject({ exitCode: 0, stdout: '', text });
  expect(found.unwritten).toEqual({
    ...{ exitCode: 1, stdout: '' },
    stderr: expect.stringMatching(/^vipnat: \[OUTPUT_NOT_WRITTEN\] writing \S+ failed \(EEXIST\)\n$/),
  });
  expect(found.foreign).toEqual({
    ...{ exitCode: 1, stdout: '', text: 'vrrp_instance ingress {\n}\n' },
    stderr: expect.stringMatching(
      /^vipnat: \[OUTPUT_NOT_WRITTEN\] writing \S+ failed \(the file exists, and is not from vipnat keepalived: move it away first\)\n$/,
    ),
  });
});
