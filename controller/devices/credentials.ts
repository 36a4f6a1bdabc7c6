/** What a device asks of vipnat, and what signs its certificates: one Secret, read by its name. */
import * as z from 'zod/mini';
import { type DeviceSettings } from '../../lib/devices/driver.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';

/** Of a Secret, or of none. Never printed. */
export type Credentials = Pick<DeviceSettings, 'credentials' | 'ca'>;

/** The Secret of a device is not there. */
export class SecretMissingError extends VipnatError {}

const schema = z.object({ data: z.nullish(z.record(z.string(), z.string())) });

const readMs = 4000;

/**
 * Reads them.
 * @throws SecretMissingError; VipnatError DEVICE_SETTINGS_INVALID, API_FORBIDDEN or API_UNREACHABLE
 */
export async function readCredentials(
  client: ObjectClient,
  namespace: string,
  { spec: { credentialsSecret } }: LoadBalancerDevice,
): Promise<Credentials> {
  if (credentialsSecret == null) return { credentials: null, ca: null };
  const { name } = credentialsSecret;
  const what = `the Secret ${namespace}/${name}`;
  const path = `/api/v1/namespaces/${namespace}/secrets/${encodeURIComponent(name)}`;
  const answer = await client.read({ title: `reading ${what}`, path, schema }, readMs);
  if (answer.outcome === 'gone')
    throw new SecretMissingError(
      'DEVICE_SETTINGS_INVALID',
      `there is no Secret ${namespace}/${name}. Create it`,
    );
  if (answer.outcome === 'forbidden') {
    const create = (...words: readonly string[]) =>
      quoteWords(['kubectl', 'create', ...words, '-n', namespace]);
    const role = create('role', name, '--verb=get', '--resource=secrets', `--resource-name=${name}`);
    const account = `--serviceaccount=${namespace}:vipnat-controller`;
    const binding = create('rolebinding', name, `--role=${name}`, account);
    throw new VipnatError('API_FORBIDDEN', `vipnat may not read ${what}. Run: ${role} && ${binding}`);
  }
  if (answer.outcome === 'unreachable') throw new VipnatError('API_UNREACHABLE', answer.words);
  return parseCredentials(answer.object.data ?? {}, what);
}

function parseCredentials(data: Readonly<Record<string, string>>, what: string): Credentials {
  const read = (key: string) => decode(data[key]);
  const [username, password, ca] = [read('username'), read('password'), read('ca.crt')];
  if (username !== null && password !== null) return { credentials: { username, password }, ca };
  if (username === null && password === null) return { credentials: null, ca };
  throw invalid(`${what} needs both keys, username and password`);
}

function invalid(message: string): VipnatError {
  return new VipnatError('DEVICE_SETTINGS_INVALID', message);
}

/** `kubectl create secret --from-file` keeps the line feed at the end of a file. */
function decode(text: string | undefined): string | null {
  if (text === undefined) return null;
  return Buffer.from(text, 'base64')
    .toString('utf8')
    .replace(/\r?\n$/, '');
}
