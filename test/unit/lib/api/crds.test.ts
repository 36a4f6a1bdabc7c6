/** What a real kube-apiserver makes of the definitions, test/cluster/control-plane/services-admission.ts has. */
import { definitions } from '../../../../lib/api/crds.ts';
import { addressPools, virtualIps } from '../../../../lib/api/vipnat.ts';
import { devices } from '../../../../lib/api/device.ts';
import { test, expect, describe } from '@jest/globals';
import * as z from 'zod';
import { parseGoDuration } from '../../../../lib/api/service.ts';
import { parseVrids } from '../../../../lib/keepalived/read.ts';
import { findSelectorProblem } from '../../../../lib/api/endpoints.ts';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly default?: unknown;
  readonly required?: readonly string[];
  readonly description?: string;
}

interface Definition {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly [
      {
        readonly schema: { readonly openAPIV3Schema: Schema };
        readonly additionalPrinterColumns: readonly { readonly name: string; readonly jsonPath: string }[];
      },
    ];
  };
}

const listed = definitions as readonly Definition[];
const find = (kind: string): Definition['spec']['versions'][0] => {
  const found = listed.find(({ spec }) => spec.names.kind === kind)?.spec.versions[0];
  if (found === undefined) throw new Error(`no ${kind}`);
  return found;
};
const propertiesOf = (kind: string, part: 'spec' | 'status') =>
  find(kind).schema.openAPIV3Schema.properties?.[part]?.properties ?? {};

const metadata = { name: '10.0.9.10', uid: 'u', resourceVersion: '1' };
const schemas = {
  AddressPool: addressPools.schema,
  VirtualIP: virtualIps.schema,
  LoadBalancerDevice: devices.schema,
};
const least = {
  AddressPool: { addresses: ['10.0.9.10'] },
  VirtualIP: { pool: 'default', seat: 0, services: [] },
  LoadBalancerDevice: { driver: 'alteon', cluster: 'a', units: ['10.0.0.9'], addresses: ['10.0.9.10'] },
};
/** What the API refuses of each, field by field. */
const refused = {
  AddressPool: { addresses: [], seats: 33, interface: 'a/b', advert: 'soon', vrids: '0' },
  VirtualIP: { pool: '', seat: -1, services: Array(1001).fill({ namespace: 'a', name: 'b', uid: 'c' }) },
  LoadBalancerDevice: {
    ...{ driver: 'A', cluster: '-', units: [], addresses: [], targets: 'nodes' },
    options: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`o${at}`, 'a'])),
  },
};

test('no rule compares two addresses by ==: Kubernetes 1.31 refuses such a definition', () => {
  const rules = [...JSON.stringify(definitions).matchAll(/"rule":"(.*?[^\\])"/g)].map(([, rule]) => rule);
  expect(rules.length).toBeGreaterThan(5);
  const comparison = /(?:\.masked\(\)|\.ip\(\)|\b(?:ip|cidr)\([^()]*\)) [=!]= /;
  expect(rules.filter((rule = '') => comparison.test(rule))).toEqual([]);
});

describe.each(['AddressPool', 'VirtualIP', 'LoadBalancerDevice'] as const)('the definition of %s', (kind) => {
  const { schema, additionalPrinterColumns } = find(kind);
  const spec = propertiesOf(kind, 'spec');
  const read = (own: object) => schemas[kind].parse({ metadata, spec: own });

  test('says as a default what is read where a field is missing', () => {
    const defaults = Object.entries(spec).filter(([, field]) => field.default !== undefined);
    expect(read(least[kind]).spec).toMatchObject(
      Object.fromEntries(defaults.map(([name, field]) => [name, field.default])),
    );
  });

  test('requires what is always read and has no default', () => {
    expect(schema.openAPIV3Schema.properties?.['spec']?.required).toEqual(Object.keys(least[kind]));
    for (const name of Object.keys(least[kind])) expect(spec[name]?.default).toBeUndefined();
    expect(() => read({})).toThrow();
  });

  test('refuses what is read nevertheless: a later version may have written it', () => {
    expect(takes({ properties: spec }, least[kind])).toBe(true);
    for (const [name, value] of Object.entries<unknown>(refused[kind]))
      expect([name, takes({ properties: spec }, { [name]: value })]).toEqual([name, false]);
    expect(read(refused[kind]).spec).toMatchObject(refused[kind]);
  });

  test('describes each field of a spec: kubectl explain prints it', () => {
    for (const [name, { description = '' }] of Object.entries(spec))
      expect([name, description]).toEqual([name, expect.stringMatching(/^[A-Z].*\.$/)]);
  });

  test('has a field for each column', () => {
    for (const { name, jsonPath } of additionalPrinterColumns) {
      const [, part = '', field = ''] = /^\.(\w+)\.(\w+)/.exec(jsonPath) ?? [];
      const isKnown = part === 'metadata' || propertiesOf(kind, part as 'spec')[field] !== undefined;
      expect([name, isKnown]).toEqual([name, true]);
    }
  });
});

/** Whether the API takes a value, as far as no CEL decides. */
function takes(schema: Schema, value: unknown): boolean {
  // Only the outer one of two schemas of one value has its type.
  const typed = JSON.parse(JSON.stringify(schema), (_, part: Schema | string | number) => {
    if (typeof part !== 'object') return part;
    if ('properties' in part) return { type: 'object', ...part };
    return 'minItems' in part || 'maxItems' in part ? { type: 'array', items: {}, ...part } : part;
  }) as z.core.JSONSchema.JSONSchema;
  return z.fromJSONSchema(typed).safeParse(value).success;
}

describe('what the API takes, the controller takes', () => {
  const { reuseAfter = {}, advert = {}, vrids = {}, nodeSelector = {} } = propertiesOf('AddressPool', 'spec');

  test.each([
    ...['0s', '300ms', '1.5s', '1m30s', '1.1s', '0.001s', '0.0001m', '0.00001h', '999999999.99999h'],
    ...['1234567890s', '1.0005s', '0.00001m', '0.000001h', '0.0000000001s', '1.5ms', '300', '-1s', '1d', ''],
  ])('of a duration: %j', (text) => {
    expect(takes(reuseAfter, text)).toBe(parseGoDuration(text) !== null);
    expect(takes(advert, text)).toBe(takes(reuseAfter, text));
  });

  test.each([
    ...['1', '255', '51-60'].map((text) => [text, true] as const),
    ...['0', '256', '250-256', '051', '1-', '-1', '1-2-3', 'a'].map((text) => [text, false] as const),
  ])('of VRIDs: %j is %j', (text, isTaken) => {
    expect(takes(vrids, text)).toBe(isTaken);
    if (isTaken) expect(parseVrids(text)).not.toEqual([]);
  });

  test.each(
    ['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt'].flatMap((operator) => [
      { key: 'zone', operator },
      { key: 'zone', operator, values: [] },
      { key: 'zone', operator, values: ['a'] },
    ]),
  )('of a selector: %j', (requirement) => {
    const selector = { matchExpressions: [requirement] };
    expect(takes(nodeSelector, selector)).toBe(findSelectorProblem(selector) === null);
  });
});
