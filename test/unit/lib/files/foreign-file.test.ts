import { expect, test } from '@jest/globals';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { refuseForeignFile } from '../../../../lib/files/foreign-file.ts';
import { makeFolderEach } from '../../../support/network/own-folder.ts';

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
