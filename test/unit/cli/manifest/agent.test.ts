import { describe, test, expect } from '@jest/globals';
import { print, readWords } from '../../../support/manifest/printing.ts';
import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { runHere } from '../../../support/documents/call.ts';
import { readFileSync, mkdirSync, symlinkSync, writeFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { toSystemdFiles, toPackagedSystemdFiles } from '../../../../cli/manifest/agent.ts';

const words = ['systemd', '--vip', '10.0.0.50'];
const unit = 'etc/systemd/system/vipnat.service';
const dropIn = 'etc/systemd/system/keepalived.service.d/vipnat.conf';

describe('files for systemd', () => {
  test('are printed one after the other, each behind its path', async () => {
    const text = await print(words);
    expect(text.match(/^# \/etc\/.*$/gm)).toEqual([
      `# /${unit}`,
      '# /etc/tmpfiles.d/vipnat.conf',
      `# /${dropIn}`,
    ]);
    expect(text).toContain('\nExecStart=/usr/bin/node /opt/vipnat/vipnat.js run --vip=10.0.0.50:6443\n');
    expect(text).toContain('\nf /run/vipnat/keepalived/serving 0644 root root - 0\n');
  });

  test('hold what systemd would take for something else in quotes', async () => {
    const text = await print([...words, '--ca-file', '/etc/a b$c%d"e\\f']);
    expect(text).toContain(String.raw` "--ca-file=/etc/a b$$c%%d\"e\\f"` + '\n');
  });

  test('make and keep the folders that are configured, wherever these are', async () => {
    const more = '--run-dir /run/x/y/ --state-dir /srv/vipnat --sysctls check'.split(' ');
    const text = await print([...words, ...more]);
    expect(text).toMatch(/^RuntimeDirectory=x\/y$/m);
    expect(text).toMatch(/^RuntimeDirectoryPreserve=yes$/m);
    expect(text).toMatch(/^ReadWritePaths=\/srv\/vipnat$/m);
    expect(text).toMatch(/^ProtectKernelTunables=yes$/m);
    expect(text.match(/^[df] \S+/gm)).toEqual([
      ...['d /run/x/y', 'd /run/x/y/keepalived', 'f /run/x/y/keepalived/serving', 'd /srv/vipnat'],
    ]);
  });

  test.each([
    [['--image', 'a:1', '--least-privilege'], 2],
    [['--namespace', 'other'], 1],
    [['--peers', '10.0.0.11'], 1],
    [['--run-dir', "/run/it's"], 1],
    [['--directory', ''], 1],
  ])('are refused with what is not for them: %j', async (more, count) => {
    expect((await readWords([...words, ...more])).problems).toHaveLength(count);
  });

  test('are the only ones that have a folder to be written to', async () => {
    expect((await readWords(['daemonset', '--vip', '10.0.0.50', '--directory', '/x'])).problems).toEqual([
      '--directory is for vipnat manifest systemd only. Leave it out',
    ]);
  });
});

describe('--directory', () => {
  const root = makeFolderEach('root');

  const write = (...more: readonly string[]) =>
    runHere(['manifest', ...words, ...more, '--directory', root.path]);

  test('has the files written below it, and written again by another configuration', async () => {
    expect(await write()).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining(`${root.path}/${unit}\n`),
    });
    expect((await write('--mode', 'direct')).exitCode).toBe(0);
    const text = readFileSync(join(root.path, unit), 'utf8');
    expect(text).toMatch(/^# vipnat manifest systemd /);
    expect(text).toContain(' --mode=direct\n');
  });

  test.each(['a file of somebody else', 'a link'])('has nothing written where %s is there', async (what) => {
    mkdirSync(join(root.path, dropIn, '..'), { recursive: true });
    if (what === 'a link') symlinkSync('/dev/null', join(root.path, dropIn));
    else writeFileSync(join(root.path, dropIn), '[Service]\n');
    const { exitCode, stdout, stderr } = await write();
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(/writing \S+vipnat\.conf failed \(/);
    expect(existsSync(join(root.path, unit))).toBe(false);
  });
});

test('a package has the same files, below /usr, of an agent that reads its options from a file', async () => {
  const { request } = await readWords(words);
  const byHand = toSystemdFiles(request);
  const packaged = toPackagedSystemdFiles('/usr/bin/vipnat', '/etc/vipnat/vipnat.yaml');
  expect(packaged.map(({ path }) => path)).toEqual(
    byHand.map(({ path }) => path.replace('/etc/', '/usr/lib/')),
  );
  const differences = packaged.map(({ text }, index) => {
    const others = byHand[index]?.text.split('\n') ?? [];
    return text.split('\n').filter((line, number) => number > 0 && line !== others[number]);
  });
  expect(differences).toEqual([['ExecStart=/usr/bin/vipnat run --config /etc/vipnat/vipnat.yaml'], [], []]);
});
