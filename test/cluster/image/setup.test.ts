import { jest, beforeAll, afterAll, describe, test, expect } from '@jest/globals';
import { type Bases, prepareBases } from '../../support/image/build.ts';
import { execa } from 'execa';
import { join } from 'node:path';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';

jest.setTimeout(5 * 60_000);

/** A checkout whose npm packages are there, on a Debian with an init that starts what it is asked to. */
const prepare = `
  mkdir -p /checkout/scripts /checkout/node_modules/.bin
  cp /scripts/setup /scripts/packages.txt /checkout/scripts
  cd /checkout
  echo {} >package-lock.json
  echo {} >node_modules/.package-lock.json
  ln -s /usr/local/bin/node node_modules/.bin/node
  ln -s /bin/true /sbin/init
  printf '#!/bin/sh\\necho N 2\\n' >/sbin/runlevel
  chmod 755 /sbin/runlevel`;

const listRunning = 'cat /proc/[0-9]*/comm | grep -E "haproxy|keepalived" || true';
const listEnabled =
  'find /etc/systemd/system /etc/rc?.d -name "S*haproxy" -o -name "S*keepalived" -o -name "haproxy.service" -o -name "keepalived.service"';

let bases: Bases;
let container = '';

beforeAll(async () => {
  bases = await prepareBases();
  const { stdout } = await execa('buildah', ['from', bases.builder], { env: bases.env });
  container = stdout;
});

afterAll(async () => {
  if (container !== '') await execa('buildah', ['rm', container], { env: bases.env });
});

/** Runs a shell's script in the container; what it started ends with it. */
async function run(script: string): Promise<string> {
  const words = ['--cap-add', 'CAP_SYS_ADMIN', '--volume', `${join(rootFolder, 'scripts')}:/scripts:ro`];
  const apart = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
  const command = [...apart, 'bash', '-euc', script];
  const all = ['run', ...words, container, '--', ...command];
  return (await execa('buildah', all, { env: bases.env })).stdout;
}

describe('scripts/setup on a fresh Debian', () => {
  test('installs what a layer needs, starts no service, enables none, and leaves no policy behind', async () => {
    const said = await run(`${prepare}
        scripts/setup netns >&2
        for program in haproxy keepalived nft; do command -v $program; done
        echo running; ${listRunning}
        echo enabled; ${listEnabled}
        find /usr/sbin -name policy-rc.d`);
    const programs = ['haproxy', 'keepalived', 'nft'].map((name) => `/usr/sbin/${name}`);
    expect(said.split('\n')).toEqual([...programs, 'running', 'enabled']);
  });
});
