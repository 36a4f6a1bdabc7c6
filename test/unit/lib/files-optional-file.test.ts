import { describe, test, expect } from '@jest/globals';
import { makeFolder, makeFolderEach } from '../../support/network/own-folder.ts';
import { writeFileSync, symlinkSync, truncateSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readIfThere, refuseForeignFile } from '../../../lib/files.ts';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:net';

describe('a file that may be there', () => {
  const root = makeFolder('read');

  test('is read, also by a link, and one of /proc, which has no size', async () => {
    writeFileSync(join(root, 'file'), 'text\n');
    symlinkSync('file', join(root, 'link'));
    expect(await readIfThere(join(root, 'file'))).toBe('text\n');
    expect(await readIfThere(join(root, 'link'))).toBe('text\n');
    expect(await readIfThere('/proc/self/status')).toMatch(/^Name:/);
  });

  test('is null where there is none', async () => {
    expect(await readIfThere(join(root, 'none'))).toBeNull();
    expect(await readIfThere('/dev/null/none')).toBeNull();
  });

  test('is refused by a link where that is not wanted', async () => {
    symlinkSync('/etc/passwd', join(root, 'planted'));
    const reading = readIfThere(join(root, 'planted'), { refusesLink: true });
    await expect(reading).rejects.toMatchObject({ code: 'ELOOP' });
  });

  test('is refused where it is larger than any, before all of it is read', async () => {
    const path = join(root, 'huge');
    writeFileSync(path, '');
    truncateSync(path, 2 ** 40);
    await expect(readIfThere(path)).rejects.toMatchObject({ code: 'too large' });
    writeFileSync(path, '12345');
    expect(await readIfThere(path, { maxBytes: 5 })).toBe('12345');
    await expect(readIfThere(path, { maxBytes: 4 })).rejects.toMatchObject({ code: 'too large' });
  });

  test('is not waited for where a named pipe, a device, a folder or a socket has its name', async () => {
    execFileSync('mkfifo', [join(root, 'pipe')]);
    mkdirSync(join(root, 'folder'));
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(join(root, 'socket'), () => {
        resolve();
      });
    });
    for (const path of [join(root, 'pipe'), '/dev/zero', join(root, 'folder'), join(root, 'socket')]) {
      await expect(readIfThere(path)).rejects.toMatchObject({ code: 'no file' });
    }
    await new Promise((resolve) => server.close(resolve));
  });
});

let folder: string;
makeFolderEach('foreign', (path) => {
  folder = path;
});

const look = (name: string) => refuseForeignFile(join(folder, name), '# by vipnat', 'vipnat keepalived');

test.each([
  ['of vipnat itself', '# by vipnat\nx\n'],
  ['with nothing in it', '\n'],
])('a file %s may be replaced, and so may none', async (_what, text) => {
  await expect(look('a')).resolves.toBeUndefined();
  writeFileSync(join(folder, 'a'), text);
  await expect(look('a')).resolves.toBeUndefined();
});

test('a file of others and a link to any may not', async () => {
  writeFileSync(join(folder, 'a'), 'vrrp_instance ingress {\n}\n');
  symlinkSync('/dev/null', join(folder, 'b'));
  await expect(look('a')).rejects.toMatchObject({
    code: 'OUTPUT_NOT_WRITTEN',
    message: `writing ${join(folder, 'a')} failed (the file exists, and is not from vipnat keepalived: move it away first)`,
  });
  await expect(look('b')).rejects.toMatchObject({ code: 'OUTPUT_NOT_WRITTEN' });
});
