import { afterAll, afterEach, beforeEach } from '@jest/globals';
import { TemporaryFolder } from './at-end.ts';

/** Makes a folder for the tests of a file or of a block, which goes after the last of them. Answers its path. */
export function makeFolder(name: string): string {
  const folder = new TemporaryFolder(name);
  afterAll(folder.remove.bind(folder));
  return folder.path;
}

/** Makes a folder before each test of a file or of a block, which goes after that test. `begin` is called with its path. */
export function makeFolderEach(name: string, begin: (path: string) => void | Promise<void>): void {
  let folder: TemporaryFolder;
  beforeEach(async () => {
    folder = new TemporaryFolder(name);
    await begin(folder.path);
  });
  afterEach(() => {
    folder.remove();
  });
}
