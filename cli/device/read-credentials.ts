import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { credentialsVariables, type Environment } from '../../config/environment.ts';
import { quoteText } from '../../config/setting.ts';
import { type DeviceSettings } from '../../lib/devices/driver.ts';
import { invalid, readText } from './read-yaml.ts';

/** What a device asks of its users, and what signs its certificates. Never printed. */
export type Credentials = Pick<DeviceSettings, 'credentials' | 'ca'>;

type Key = 'username' | 'password' | 'ca.crt';

/**
 * Reads them from a folder with a file for each, as a mounted Secret has; or from a file with lines `username: NAME` and
 * `password: WORD`; or from the environment.
 * @throws VipnatError DEVICE_SETTINGS_INVALID, which quotes nothing of them
 */
export async function readCredentials(path: string | null, environment: Environment): Promise<Credentials> {
  if (path === null) {
    const [username, password] = credentialsVariables.map((name) => environment[name]);
    return combine({ username, password }, `${credentialsVariables.join(' and ')} in the environment`);
  }
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isFolder ? await readFolder(path) : await readLines(path);
}

async function readFolder(path: string): Promise<Credentials> {
  const read = async (key: Key) => (await readText(join(path, key), '--credentials')) ?? undefined;
  const [username, password, ca] = [await read('username'), await read('password'), await read('ca.crt')];
  return combine(
    // Whoever writes a file with an editor has a line feed at its end.
    { username: username?.replace(/\r?\n$/, ''), password: password?.replace(/\r?\n$/, ''), 'ca.crt': ca },
    `--credentials ${path}`,
  );
}

async function readLines(path: string): Promise<Credentials> {
  const text = await readText(path, '--credentials');
  if (text === null) throw invalid(`--credentials ${path} cannot be read: there is no such file or folder`);
  const found: Partial<Record<Key, string>> = {};
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line === '') continue;
    const [, key, value = ''] = /^(username|password): (.+)$/.exec(line) ?? [];
    if (key !== 'username' && key !== 'password')
      throw invalid(
        `--credentials ${quoteText(path)} line ${index + 1} is neither "username: NAME" nor "password: WORD"`,
      );
    found[key] = value;
  }
  return combine(found, `--credentials ${path}`);
}

function combine(found: Partial<Record<Key, string | undefined>>, origin: string): Credentials {
  const { username = '', password = '', 'ca.crt': ca = null } = found;
  if (username === '' && password === '') return { credentials: null, ca };
  if (username === '' || password === '')
    throw invalid(`${origin} has to have both, a username and a password, or neither`);
  return { credentials: { username, password }, ca };
}
