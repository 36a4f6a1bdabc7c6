import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { readWhole, ForeignRoot } from '../../../../lib/keepalived/configuration.ts';
import { describe, test, expect } from '@jest/globals';
import { findInstance } from '../../../../lib/keepalived/read.ts';
import { execFileSync } from 'node:child_process';

const instance = 'vrrp_instance A {\n  virtual_router_id 51\n  virtual_ipaddress {\n    10.0.0.50\n  }\n}\n';

const folder = makeFolderEach('files');

const write = (name: string, text: string): string => {
  const path = join(folder.path, name);
  writeFileSync(path, text);
  return path;
};
const read = (path: string) => readWhole(ForeignRoot.own, path, 'm1');

describe('what a configuration includes', () => {
  test('is named, in the order in which it is read', async () => {
    const main = write('main', 'include b\ninclude a\n');
    const files = [main, write('b', ''), write('a', instance)];
    expect(await read(main)).toMatchObject({ files });
  });

  test('may be itself: that is left out', async () => {
    const main = write('main', `include other\n${instance}`);
    write('other', 'include *\n# the rest\n');
    const whole = await read(main);
    expect(findInstance(whole?.text ?? '', '10.0.0.50')).toEqual({ vrid: 51, priority: null });
    expect(whole?.files).toEqual([main, join(folder.path, 'other')]);
  });

  test('is not waited for where it is a named pipe', async () => {
    execFileSync('mkfifo', [join(folder.path, 'pipe')]);
    const whole = await read(write('main', `include pipe\ninclude /dev/zero\n${instance}`));
    expect(findInstance(whole?.text ?? '', '10.0.0.50')).not.toBeNull();
  });

  test.each([
    ['files that include all others', '* {*,*,*}\ninclude *'],
    ['patterns for all files of a machine', '/*/*/*/*/*/*'],
    ['a file of several MiB, several times', `big\n${'include big\n'.repeat(5)}`],
  ])('is refused when it is too large: %s', async (_, included) => {
    for (let index = 0; index < 12; index += 1) write(`f${index}`, 'include f*\n');
    write('big', '#'.repeat(1_000_000));
    await expect(read(write('main', `include ${included}\n`))).rejects.toMatchObject({ code: 'too large' });
  });
});
