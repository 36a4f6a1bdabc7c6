/** What a real kube-apiserver makes of the definitions, test/cluster/control-plane/services-admission.ts has. */
import { describe, expect, test } from '@jest/globals';
import { definitions } from '../../../../lib/services/definitions.ts';
import { addressPools, virtualIps } from '../../../../lib/services/objects.ts';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
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
const read = {
  AddressPool: addressPools.schema.parse({ metadata, spec: { addresses: ['10.0.9.10'] } }),
  VirtualIP: virtualIps.schema.parse({ metadata, spec: { pool: 'default', seat: 0, services: [] } }),
};

describe.each(['AddressPool', 'VirtualIP'] as const)('the definition of %s', (kind) => {
  const { schema, additionalPrinterColumns } = find(kind);
  const spec = propertiesOf(kind, 'spec');

  test('says as a default what is read where a field is missing', () => {
    const defaults = Object.entries(spec).filter(([, field]) => field.default !== undefined);
    expect(read[kind].spec).toMatchObject(
      Object.fromEntries(defaults.map(([name, field]) => [name, field.default])),
    );
  });

  test('has each field that is read', () => {
    expect(Object.keys(spec)).toEqual(expect.arrayContaining(Object.keys(read[kind].spec)));
  });

  test('requires what has no default and is always read', () => {
    const required = schema.openAPIV3Schema.properties?.['spec']?.required ?? [];
    expect(required.length).toBeGreaterThan(0);
    for (const name of required) expect(spec[name]?.default).toBeUndefined();
    expect(() =>
      (kind === 'AddressPool' ? addressPools : virtualIps).schema.parse({ metadata, spec: {} }),
    ).toThrow();
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
