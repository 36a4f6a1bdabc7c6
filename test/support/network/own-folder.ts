import { afterAll, afterEach, beforeEach } from '@jest/globals';
import { TemporaryFolder } from './at-end.ts';

/** Makes a folder for the tests of a file or of a block, which goes after the last of them. Answers its path. */
export function makeFolder(name: string): string {
  const folder = new TemporaryFolder(name);
  afterAll(folder.remove.bind(folder));
  return folder.path;
}

/** Makes a folder before each test of a file or of a block, which goes after that test. Answers where it is; `begin` is called with that. */
export function makeFolderEach(
  name: string,
  begin: (path: string) => void | Promise<void> = () => undefined,
): { readonly path: string } {
  const made = { path: '' };
  let folder: TemporaryFolder;
  beforeEach(async () => {
    folder = new TemporaryFolder(name);
    made.path = folder.path;
    await begin(folder.path);
  });
  afterEach(() => {
    folder.remove();
  });
  return made;
}
