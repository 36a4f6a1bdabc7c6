import {
  text,
  list,
  toggle,
  json,
  color,
  forKinds,
  type Flag,
  type OptionsOf,
  type PlainContext,
  type Words,
  type WordsReading,
} from '../command.ts';
import { splitList, nameFlag } from '../../config/options.ts';
import { findNearest, quoteText } from '../../lib/text.ts';
import { type DeviceSettings, isClusterName, type Balancer, readAddresses } from '../../devices/driver.ts';
import { type Environment, credentialsVariables } from '../../config/load.ts';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Address, type AddressRange, parseRange, parseAddress, parseEndpoint } from '../../lib/net.ts';
import * as z from 'zod/mini';
import { apiGroup, apiVersion } from '../../lib/api/vipnat.ts';
import { readIfThere } from '../../lib/files.ts';
import { VipnatError, describeCause } from '../../lib/errors.ts';

/** What `vipnat device` does. */
export const deviceActions = ['configuration', 'conformance', 'list', 'plan', 'state'] as const;

/** Its flags. `deviceWords` says what is wrong with them, because that depends on the action. */
export const deviceFlags = {
  device: text('FILE', 'a LoadBalancerDevice as YAML', (given = '') => given),
  /** A name or a path; null for what the description says. */
  driver: text('DRIVER', 'a driver of vipnat, or the path of a module (default: spec.driver)'),
  /** A file or a folder; null for variables of the environment. */
  credentials: text(
    'PATH',
    'a folder with the files username, password and ca.crt, or a file with a line for each (default: two variables)',
  ),
  ...forKinds(['', 'plan'], { balancer: text('FILE', 'for plan: the wanted balancer as YAML') }),
  ...forKinds(['', 'configuration'], {
    /** Which unit, from 1 on; null for the only one. */
    unit: text(
      'NUMBER',
      'for configuration: the number of the unit in spec.units, 1 or 2',
      (given): number | null => (given === undefined ? null : Number(given)),
    ),
  }),
  ...forKinds(['', 'conformance'], {
    /** The names of the checks to run; none for all. */
    only: list('CHECK', 'for conformance: run this check; repeat the flag for more'),
    /** At which balancers may listen, three at least; null for any. */
    ports: text(
      'PORT,…',
      'for conformance: three ports at which balancers may listen',
      (given): readonly number[] | null => (given === undefined ? null : splitList(given).map(Number)),
    ),
    /** Where members listen; null for nowhere. */
    members: text(
      'ADDRESS,…',
      'for conformance: addresses of this host at which the device reaches members. Clients then try each listener',
      (given): readonly Address[] | null => (given === undefined ? null : readAddresses(splitList(given))),
    ),
    actions: text('MODULE', 'for conformance: a module that restarts the device, cuts it off and more'),
    removeLeftovers: toggle('for conformance: first remove balancers of an earlier run'),
  }),
  json,
  color,
};

type Action = (typeof deviceActions)[number];

/** What `vipnat device` is asked for. */
export type DeviceOptions = OptionsOf<typeof deviceFlags> & { readonly action: Action };

/** What its parts are given. */
export type DeviceContext = PlainContext<DeviceOptions>;

/** The action. */
export const deviceWords: Words<{ readonly action: Action }> = {
  choices: deviceActions,
  read: ([word], reading) => {
    const action = deviceActions.find((candidate) => candidate === word);
    if (action !== undefined) findProblems(action, reading).forEach(reading.report);
    else if (!reading.isUnclear) reading.report(explainAction(word));
    return { action: action ?? deviceActions[0] };
  },
};

function explainAction(word: string | undefined): string {
  const what = word === undefined ? 'device needs what to do:' : `${quoteText(word)} is none of`;
  const example = findNearest(word ?? '', deviceActions) ?? 'state';
  return `${what} ${deviceActions.join(', ')}. Example: vipnat device ${example} --device device.yaml`;
}

function findProblems(action: Action, { all }: WordsReading): string[] {
  const [unit, ports] = [all['unit'] as string | undefined, all['ports'] as string | undefined];
  return [
    ...(all['device'] === undefined ? ['no device given. Example: --device device.yaml'] : []),
    ...(action === 'plan' && all['balancer'] === undefined
      ? ['plan needs the wanted balancer. Example: --balancer web.yaml']
      : []),
    ...Object.entries<Flag>(deviceFlags)
      .map(([name, { kinds = [] }]) => ({ name, only: kinds.at(-1) ?? action }))
      .filter(({ name, only }) => all[name] !== undefined && only !== action)
      .map(({ name, only }) => `${nameFlag(name)} is for vipnat device ${only} only. Leave it out`),
    ...(unit === undefined || /^[12]$/.test(unit)
      ? []
      : [`--unit ${quoteText(unit)} is neither 1 nor 2. Example: --unit 1`]),
    ...checkPorts(ports),
    ...checkMembers(all['members'] as string | undefined),
  ];
}

function checkMembers(given: string | undefined): string[] {
  const found = splitList(given ?? '127.0.0.1').map(parseAddress);
  if (!found.includes(null) && found.some((one) => one?.family === 'ipv4')) return [];
  return [
    `--members ${quoteText(given ?? '')} has to be addresses, one of IPv4. Example: --members 10.0.0.5`,
  ];
}

function checkPorts(given: string | undefined): string[] {
  if (given === undefined) return [];
  const ports = splitList(given);
  const isRight = ports.every((port) => /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535);
  if (isRight && new Set(ports).size === ports.length && ports.length >= 3) return [];
  return [
    `--ports ${quoteText(given)} is not three different ports or more. Example: --ports 8080,8081,8443`,
  ];
}

/** What a device asks of its users, and what signs its certificates. Never printed. */
type Credentials = Pick<DeviceSettings, 'credentials' | 'ca'>;

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

/** A LoadBalancerDevice, as far as commands need it. */
export interface DeviceDescription extends Pick<DeviceSettings, 'name' | 'cluster' | 'units' | 'options'> {
  /** Null where it names none. */
  readonly driver: string | null;
  /** Which addresses Services may have there; empty for any. */
  readonly addresses: readonly AddressRange[];
}

const kind = 'LoadBalancerDevice';

const textField = (example: string) =>
  z
    .string({ error: `is missing, or not a text. Example: ${example}` })
    .check(z.minLength(1, { error: `is empty. Example: ${example}` }));

/** A text that can be read as something, and what it is not where it cannot. */
const parsed = <Value>(
  schema: z.ZodMiniType<string>,
  parse: (word: string) => Value | null,
  explain: (word: string) => string,
) =>
  z.pipe(
    schema,
    z.transform((word: string, context): Value => {
      const found = parse(word);
      if (found !== null) return found;
      context.issues.push({ code: 'custom', input: word, message: explain(word) });
      return z.NEVER;
    }),
  );

const addressRange = parsed(
  textField('10.0.9.10-10.0.9.99'),
  parseRange,
  (word) => `is not a range of addresses: ${quoteText(word)}. Example: 10.0.9.10-10.0.9.99`,
);

const descriptionSchema = z.object({
  metadata: z.object({ name: textField('edge') }, { error: 'is missing. It has the name of the device' }),
  spec: z.object(
    {
      driver: z.nullish(textField('haproxy')),
      cluster: textField('prod').check(
        z.refine(isClusterName, {
          error: 'is not a name of at most 40 lower case letters, digits and -. Example: prod',
        }),
      ),
      units: z
        .array(textField('https://10.0.0.1'), {
          error: 'is missing, or not a list. Example: [https://10.0.0.1]',
        })
        .check(
          z.refine((units) => units.length === 1 || units.length === 2, {
            error: 'is not a list of one unit, or of the two units of a pair',
          }),
        ),
      addresses: z.nullish(z.array(addressRange, { error: 'is not a list. Example: [10.0.9.10-10.0.9.99]' })),
      options: z.nullish(
        z.record(
          z.string(),
          z.string({
            error: "is not a text. The API takes texts only: put the value in quotes, such as '61'",
          }),
          { error: 'is not a map of texts' },
        ),
      ),
    },
    { error: 'is missing. It has driver, cluster and units' },
  ),
});

/**
 * Reads the one LoadBalancerDevice of a file. Other fields of it are the controller's.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function readDescription(path: string): Promise<DeviceDescription> {
  const documents = await readYaml(path, '--device');
  const found = documents.filter((one) => (Object(one) as { kind?: unknown }).kind === kind);
  const [document] = found;
  if (found.length !== 1)
    throw invalid(`${path} has ${found.length} objects of the kind ${kind}: it has to have one`);
  const { apiVersion: version } = Object(document) as { apiVersion?: unknown };
  const known = `${apiGroup}/${apiVersion}`;
  if (version !== known) throw invalid(`${path}: apiVersion is not ${known}. Example: apiVersion: ${known}`);
  refuseSlips(document, path);
  const { metadata, spec } = checkShape(descriptionSchema, document, path);
  const { driver = null, addresses, options } = spec;
  return { ...metadata, ...spec, driver, addresses: addresses ?? [], options: options ?? {} };
}

/** No command needs the last three. */
const knownFields = [
  ...['driver', 'cluster', 'units', 'addresses', 'options'],
  ...['credentialsSecret', 'targets', 'callsPerSecond'],
];

/** A field that is nearly one of these is meant to be it. */
function refuseSlips(document: unknown, path: string): void {
  const { spec } = Object(document) as { spec?: unknown };
  for (const field of Object.keys(Object(spec) as object)) {
    if (knownFields.includes(field)) continue;
    const nearest = findNearest(field, knownFields);
    if (nearest !== null)
      throw invalid(`${path}: spec.${quoteText(field)} is not a field. Did you mean ${nearest}?`);
  }
}

const label = (example: string) =>
  z.string({ error: `is missing, or not a text. Example: ${example}` }).check(
    z.regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
      error: `is not a name as Kubernetes has them. Example: ${example}`,
    }),
  );

const address = parsed(
  z.string({ error: 'is missing, or not a text. Example: 10.0.9.10' }),
  parseAddress,
  () => 'is not an IP address. Example: 10.0.9.10',
);

/** A number, and what it is not where it is none, or outside of these. */
const whole = (least: number, most: number, none: string, outside: string) =>
  z
    .number({ error: none })
    .check(
      z.refine((value) => Number.isInteger(value) && value >= least && value <= most, { error: outside }),
    );

const port = whole(1, 65_535, 'is missing, or not a number. Example: 80', 'is not a port. Example: 80');

const memberMap = z.object({
  address,
  port,
  weight: z._default(whole(0, 256, 'is not a number. Example: 1', 'is not from 0 to 256. Example: 1'), 1),
});

const memberText = parsed(
  z.string(),
  (text) => {
    const endpoint = parseEndpoint(text);
    if (endpoint === null) return null;
    return { address: { family: endpoint.family, text: endpoint.address }, port: endpoint.port, weight: 1 };
  },
  () => 'is not an address with its port. Example: 10.1.2.3:8080',
);

const wantedSchema = z.object({
  namespace: label('default'),
  name: label('web'),
  uid: z
    .string({ error: "is missing, or not a text. It is the Service's metadata.uid" })
    .check(z.regex(/^[a-z0-9-]{1,36}$/, { error: 'is not the uid of a Service' })),
  addresses: z
    .array(address, { error: 'is missing, or not a list. Example: [10.0.9.10]' })
    .check(z.minLength(1, { error: 'is empty. Example: [10.0.9.10]' })),
  method: z._default(z.enum(['rr', 'lc', 'hash'], { error: 'is none of rr, lc, hash' }), 'rr'),
  affinitySeconds: z._default(
    z.nullable(whole(1, 86_400, 'is not a number. Example: 600', 'is not from 1 to 86400')),
    null,
  ),
  listeners: z
    .array(
      z.object({
        protocol: z._default(z.enum(['tcp', 'udp'], { error: 'is neither tcp nor udp' }), 'tcp'),
        port,
        members: z._default(
          z.array(z.union([memberMap, memberText], { error: 'is not a member. Example: 10.1.2.3:8080' }), {
            error: 'is not a list. Example: [10.1.2.3:8080]',
          }),
          [],
        ),
      }),
      { error: 'is missing, or not a list' },
    )
    .check(z.minLength(1, { error: 'is empty' })),
});

/**
 * Reads the wanted balancer of a cluster, in the form in which `vipnat device list --json` prints it.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function readWanted(path: string, cluster: string): Promise<Balancer> {
  const [document, ...more] = await readYaml(path, '--balancer');
  if (more.length > 0) throw invalid(`${path} has more than one balancer: it may have one`);
  const { namespace, name, uid, affinitySeconds, ...rest } = checkShape(wantedSchema, document ?? null, path);
  const places = rest.listeners.map((listener) => `${listener.protocol}/${listener.port}`);
  const twice = places.find((place, at) => places.indexOf(place) !== at);
  if (twice !== undefined) throw invalid(`${path}: listeners has ${twice} twice`);
  return { id: { cluster, namespace, name, uid }, affinityS: affinitySeconds, ...rest };
}

/** Far more than any description has. */
const maxBytes = 1_048_576;

/**
 * Reads a file that may be there or not.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
async function readText(path: string, flag: string): Promise<string | null> {
  try {
    return await readIfThere(path, { maxBytes });
  } catch (error) {
    throw invalid(`${flag} ${path} cannot be read: ${describeCause(error)}`);
  }
}

/**
 * Reads the documents of a YAML file.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
async function readYaml(path: string, flag: string): Promise<readonly unknown[]> {
  const text = await readText(path, flag);
  if (text === null) throw invalid(`${flag} ${path} cannot be read: there is no such file`);
  const { parseAllDocuments } = await import('yaml');
  const documents = [...parseAllDocuments(text, { prettyErrors: false })];
  const [fault] = documents.flatMap(({ errors }) => errors);
  if (fault !== undefined) throw invalid(`${path} is not YAML: ${fault.message.replaceAll(/\s+/g, ' ')}`);
  return documents.map((document) => document.toJS() as unknown);
}

/**
 * What a schema says of a value. Each message of the schema says what a value is not, and gives an example.
 * @throws VipnatError DEVICE_SETTINGS_INVALID with a line for each problem
 */
function checkShape<Value>(schema: z.ZodMiniType<Value>, value: unknown, path: string): Value {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  throw invalid(
    result.error.issues
      .map((issue) => `${path}: ${issue.path.map(String).join('.') || 'it'} ${issue.message}`)
      .join('; '),
  );
}

/** An error that says what is wrong with a file. */
export function invalid(message: string): VipnatError {
  return new VipnatError('DEVICE_SETTINGS_INVALID', message);
}
