/**
 * The CustomResourceDefinitions, as they are installed: of the schemas by which objects are read, and what is `strict` of these.
 * They refuse what can be judged from one object alone; what takes two, such as pools that overlap, the controller says in a
 * condition. Their rules need the library for addresses: Kubernetes 1.31.
 */
import type { Resource, ApiObject } from '../kubernetes/client.ts';
import { addressPools, virtualIps, apiGroup, apiVersion, type Strictness, strict } from './vipnat.ts';
import { devices } from './device.ts';
import type * as z from 'zod/mini';

interface Kind {
  readonly resource: Pick<Resource<ApiObject>, 'kind' | 'path' | 'schema'>;
  readonly shortName: string;
  readonly columns: readonly object[];
}

const column = (name: string, jsonPath: string, type = 'string') => ({ name, type, jsonPath });
const age = column('Age', '.metadata.creationTimestamp', 'date');
const conditionColumn = (type: string) => column(type, `.status.conditions[?(@.type=="${type}")].status`);

const kinds: readonly Kind[] = [
  {
    resource: addressPools,
    shortName: 'pool',
    columns: [
      column('Addresses', '.spec.addresses'),
      column('Auto', '.spec.autoAssign', 'boolean'),
      ...['Accepted', 'Available', 'Seated'].map(conditionColumn),
    ],
  },
  {
    resource: virtualIps,
    shortName: 'vip',
    columns: [
      column('Pool', '.spec.pool'),
      column('Namespace', '.spec.services[0].namespace'),
      column('Service', '.spec.services[0].name'),
      column('Seat', '.spec.seat', 'integer'),
      conditionColumn('Programmed'),
      conditionColumn('Announced'),
      column('Holder', '.status.seatHolder'),
      column('Released', '.status.releasedAt', 'date'),
    ],
  },
  {
    resource: devices,
    shortName: 'lbdevice',
    columns: [
      column('Driver', '.spec.driver'),
      column('Targets', '.spec.targets'),
      column('Active', '.status.units[?(@.role=="active")].unit'),
      column('Services', '.status.balancers', 'integer'),
      conditionColumn('Ready'),
    ],
  },
];

/** All of them, as `apiextensions.k8s.io/v1` takes them. */
export const definitions: readonly object[] = kinds.map(({ resource, shortName, columns }) => {
  const { kind, path, schema } = resource;
  const plural = path.slice(path.lastIndexOf('/') + 1);
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${apiGroup}` },
    spec: {
      group: apiGroup,
      scope: 'Cluster',
      names: {
        kind,
        plural,
        singular: kind.toLowerCase(),
        listKind: `${kind}List`,
        shortNames: [shortName],
      },
      versions: [
        {
          name: apiVersion,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: [...columns, age],
          schema: { openAPIV3Schema: print(schema) },
        },
      ],
    },
  };
});

/** What the schemas of the kinds are made of. */
type Printable =
  | z.core.$ZodArray
  | z.core.$ZodBoolean
  | z.core.$ZodDefault
  | z.core.$ZodNullable
  | z.core.$ZodNumber
  | z.core.$ZodObject
  | z.core.$ZodOptional
  | z.core.$ZodRecord
  | z.core.$ZodString;

/**
 * A schema, as OpenAPI v3 has it. Not `z.toJSONSchema`: each process would have its 21 kB in memory, and half of what it prints, such
 * as null for each field that can be missing, would have to be taken back.
 */
function print(schema: z.core.$ZodType): Strictness {
  return { ...printType((schema as Printable)._zod.def), ...strict.get(schema) };
}

function printType(def: Printable['_zod']['def']): Strictness {
  switch (def.type) {
    case 'boolean':
      return { type: 'boolean' };
    case 'number':
      return { type: 'integer' };
    case 'string':
      // Short unless more is said.
      return { type: 'string', maxLength: 253 };
    case 'array':
      return { type: 'array', items: print(def.element) };
    case 'record':
      return { type: 'object', additionalProperties: print(def.valueType) };
    case 'object':
      return printObject(def.shape);
    case 'optional':
    case 'nullable':
      return print(def.innerType);
    case 'default':
      return { ...print(def.innerType), ...printDefault(def.defaultValue) };
    default:
      throw new TypeError(`no definition can have ${JSON.stringify(def)}`);
  }
}

function printObject(shape: z.core.$ZodShape): Strictness {
  // The metadata is Kubernetes' own.
  const fields = Object.entries(shape).filter(([name]) => name !== 'metadata');
  const required = fields.filter(([, { _zod }]) => _zod.optin === undefined).map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, field]) => [name, print(field)])),
    ...(required.length === 0 ? {} : { required }),
  };
}

/** What is empty stands for a field that nobody has written: the API does not write it either. */
function printDefault(value: unknown): Strictness {
  return value === '' || (Array.isArray(value) && value.length === 0) ? {} : { default: value };
}
